"""`make image-proof` takes minutes: this holds that it knows each field of the Deployments."""

from __future__ import annotations

import pytest

from tests.image.deployment import IP, POD, deployments, environment


def test_there_are_deployments_of_activator_and_scaler() -> None:
    assert {name for _, name in deployments()} == {"activator", "activator-scale"}


@pytest.mark.parametrize(("overlay", "name"), deployments())
def test_the_prover_knows_each_field_of_a_deployment(overlay: str, name: str) -> None:
    found = environment(overlay, name)
    assert found["POD_NAME"] == POD
    assert found["POD_IP"] == found["POD_IPS"] == IP
    assert found["SYSTEM_NAMESPACE"]
