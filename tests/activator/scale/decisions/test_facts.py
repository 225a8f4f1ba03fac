"""The facts about a Service, from its objects and the rights of the scaler."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ObjectKey
from activator.plain import service as services
from activator.scale.decisions.facts import read
from activator.scale.decisions.record import Facts
from activator.scale.workloads.actuator import Target
from activator.scale.workloads.services import Joined, Services
from activator.scale.workloads.subresource import KNOWN, Resource
from tests.activator.plain.objects import deployment, service

ROLLOUT = "argoproj.io/v1alpha1/Rollout/web"
ROLLOUTS = Resource("argoproj.io", "v1alpha1", "Rollout", "rollouts")


class KnownRights:
    """Rights with prepared results."""

    def __init__(self, resource: Resource | str | None = None, missing: str = "") -> None:
        self._resource = resource
        self._missing = missing

    def resource(self, wanted: object) -> Resource | str | None:
        return self._resource

    def problem(self, target: Target) -> str:
        return self._missing


def facts(rights: Any, **annotations: str) -> Facts:
    found = services.parse(service(annotations))
    assert found is not None
    known = Services()
    known.workloads.put(ObjectKey("Deployment", "shop", "hello"), deployment(replicas=2))
    return read(Joined(found, known.workloads.find(found), 1), rights)


def test_a_workload_is_found_with_its_replicas() -> None:
    found = facts(KnownRights())
    assert found.target == Target(KNOWN["deployment"], "shop", "hello")
    assert (found.replicas, found.ready, found.reason) == (2, 1, "")
    assert found.is_watched


def test_a_missing_right_is_a_reason_and_the_target_stays() -> None:
    found = facts(KnownRights(missing="its role lacks a rule"))
    assert (found.reason, found.detail) == ("scale-forbidden", "its role lacks a rule")
    assert found.target is not None


@pytest.mark.parametrize(
    ("resource", "reason"),
    [(None, "replicas-unknown"), ("has no kind Rollout", "unknown-target-kind")],
)
def test_a_kind_that_is_not_known_gives_no_target(resource: Any, reason: str) -> None:
    found = facts(KnownRights(resource), target=ROLLOUT)
    assert (found.target, found.reason) == (None, reason)
    if resource:
        assert resource in found.detail
        assert ROLLOUT in found.detail


def test_a_kind_that_was_looked_up_is_not_watched() -> None:
    found = facts(KnownRights(ROLLOUTS), target=ROLLOUT)
    assert found.target == Target(ROLLOUTS, "shop", "web")
    assert (found.replicas, found.is_watched) == (None, False)
