"""Which values of config-network the activator uses, and which it refuses."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from activator.knative.configmaps.cluster import (
    TLS_KEYS,
    NetworkConfig,
    read_network,
)
from activator.knative.configmaps.following import ConfigMapError, ConfigMapReader
from tests.activator.knative.configmaps.strict import strictly
from throttler.model import MeshMode


def parse(data: Mapping[str, str]) -> NetworkConfig:
    return strictly(read_network, data, NetworkConfig())


def test_an_empty_one_means_pods_by_their_addresses_in_plaintext() -> None:
    assert parse({}) == NetworkConfig(MeshMode.AUTO, False, False)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("auto", MeshMode.AUTO),
        ("enabled", MeshMode.ENABLED),
        ("disabled", MeshMode.DISABLED),
        ("Enabled", MeshMode.ENABLED),
        ("DISABLED", MeshMode.DISABLED),
    ],
)
def test_mesh_modes_know_no_case(text: str, mode: MeshMode) -> None:
    assert parse({"mesh-compatibility-mode": text}).mesh_mode is mode


@pytest.mark.parametrize("text", ["", "on", "true", "enabled ", "auto\n"])
def test_an_unknown_mesh_mode_is_reported_and_does_not_mean_auto(text: str) -> None:
    with pytest.raises(ConfigMapError, match=r"^mesh-compatibility-mode: .*accepted is auto, ena"):
        parse({"mesh-compatibility-mode": text})
    reader = ConfigMapReader({"mesh-compatibility-mode": text})
    last_good = NetworkConfig(mesh_mode=MeshMode.DISABLED)
    assert read_network(reader, last_good).mesh_mode is MeshMode.DISABLED
    assert reader.problems["mesh-compatibility-mode"].endswith("; 'disabled' stays in force")


def test_booleans_are_gos() -> None:
    for text in ("1", "t", "T", "TRUE", "true", "True"):
        assert parse({"enable-mesh-pod-addressability": text}).pod_addressability
    for text in ("0", "f", "F", "FALSE", "false", "False"):
        assert not parse({"enable-mesh-pod-addressability": text}).pod_addressability
    for text in ("", "yes", "on", "tRUE", " true", "2"):
        with pytest.raises(ConfigMapError, match="enable-mesh-pod-addressability: "):
            parse({"enable-mesh-pod-addressability": text})


@pytest.mark.parametrize(
    ("new", "old", "encrypted"),
    [
        (None, None, False),
        ("", None, False),
        ("disabled", None, False),
        ("enabled", None, True),
        ("ENABLED", None, True),
        (None, "false", False),
        (None, "true", True),
        ("", "true", True),
        ("disabled", "true", True),
        ("enabled", "false", True),
    ],
)
def test_encryption_and_its_old_name(new: str | None, old: str | None, encrypted: bool) -> None:
    data = {"system-internal-tls": new, "internal-encryption": old}
    said = {key: value for key, value in data.items() if value is not None}
    assert parse(said).internal_tls is encrypted


@pytest.mark.parametrize("key", TLS_KEYS)
@pytest.mark.parametrize("before", [True, False])
def test_a_wrong_word_leaves_encryption_as_it_was(key: str, before: bool) -> None:
    reader = ConfigMapReader(
        {"system-internal-tls": "enabled", "internal-encryption": "true", key: "maybe"}
    )
    assert read_network(reader, NetworkConfig(internal_tls=before)).internal_tls is before
    in_force = "enabled" if before else "disabled"
    assert list(reader.problems) == [key]
    assert reader.problems[key].endswith(f"; {in_force} stays in force")


def test_what_belongs_to_others_is_left_alone() -> None:
    others = {"_example": "system-internal-tls: enabled", "rollout-duration": "-1", "x": "{{"}
    assert parse(others) == NetworkConfig()
