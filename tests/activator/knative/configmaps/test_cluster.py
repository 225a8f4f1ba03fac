"""ConfigMaps joined: their readers, keys fixed at start, and errors that prevent a start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from activator.knative.configmaps.cluster import (
    TLS_KEYS,
    ClusterConfig,
    NetworkConfig,
    pages_reader,
    read_network,
)
from activator.knative.configmaps.following import ConfigMapError, ConfigMapReader, Followed
from activator.knative.configmaps.observability import ObservabilityConfig, observability_reader
from activator.knative.configmaps.process_log import LoggingConfig, logging_reader
from tests.activator.knative.configmaps.strict import strictly
from tests.rows import in_one_test
from throttler.model import MeshMode


@pytest.fixture
def heard() -> list[Any]:
    return []


def joined(heard: list[Any], *names: str, more: tuple[Followed[Any], ...] = ()) -> ClusterConfig:
    logging, observability = names
    observability_read = observability_reader(lambda text: None)
    return ClusterConfig(
        Followed(logging, logging_reader("info"), LoggingConfig(), heard.append),
        Followed(observability, observability_read, ObservabilityConfig(), heard.append),
        heard.append,
        more,
    )


@pytest.fixture
def cluster(heard: list[Any]) -> ClusterConfig:
    return joined(heard, "my-logging", "my-observability")


def test_each_configmap_has_its_listener_by_the_name_the_operator_gave_it(cluster, heard) -> None:
    assert set(cluster.readers) == {"config-network", "my-logging", "my-observability"}
    cluster.readers["my-logging"]({"loglevel.activator": "debug"})
    cluster.readers["my-observability"]({"runtime-profiling": "enabled"})
    cluster.readers["config-network"]({"mesh-compatibility-mode": "disabled"})
    logging, observability, network = heard
    assert (logging.level, observability.profiling) == ("debug", True)
    assert cluster.observability is observability
    assert cluster.network is network
    assert network == NetworkConfig(mesh_mode=MeshMode.DISABLED)


def test_how_pods_are_reached_may_change_while_requests_run(cluster, heard) -> None:
    cluster.freeze(required=False)
    cluster.readers["config-network"]({"enable-mesh-pod-addressability": "true"})
    assert heard == [NetworkConfig(pod_addressability=True)]


def test_a_change_of_how_pods_are_reached_is_reported(cluster, caplog) -> None:
    caplog.set_level("INFO")
    network = cluster.readers["config-network"]
    network({"system-internal-tls": "enabled"})
    network({"system-internal-tls": "enabled", "mesh-compatibility-mode": "enabled"})
    network({"system-internal-tls": "enabled", "enable-mesh-pod-addressability": "true"})
    assert caplog.messages == [
        "ConfigMap config-network: mesh mode enabled, pods of a mesh addressable: no",
        "ConfigMap config-network: mesh mode auto, pods of a mesh addressable: yes",
    ]


@pytest.mark.parametrize("at_start", ["enabled", "disabled"])
def test_encryption_is_settled_at_start(cluster, heard, caplog, at_start: str) -> None:
    network = cluster.readers["config-network"]
    network({"system-internal-tls": at_start})
    cluster.freeze(required=True)
    before = cluster.network.internal_tls
    caplog.clear()
    other = "disabled" if at_start == "enabled" else "enabled"
    network({"system-internal-tls": other, "mesh-compatibility-mode": "disabled"})
    assert cluster.network == NetworkConfig(MeshMode.DISABLED, internal_tls=before)
    assert heard[-1] is cluster.network
    (line,) = caplog.messages
    assert "until this process restarts" in line
    network({"system-internal-tls": at_start, "mesh-compatibility-mode": "disabled"})
    assert caplog.messages == [line]


@pytest.mark.parametrize("key", ["system-internal-tls", "internal-encryption"])
def test_who_cannot_know_whether_to_encrypt_does_not_start(cluster, key: str, caplog) -> None:
    cluster.readers["config-network"]({key: "enabeld", "mesh-compatibility-mode": "x"})
    with pytest.raises(ConfigMapError, match=f"^{key}: 'enabeld' cannot be used") as caught:
        cluster.freeze(required=False)
    assert list(caught.value.problems) == [key]
    said = next(line for line in caplog.messages if f"key {key}" in line)
    assert said.endswith("; the activator does not start with it")


def test_other_wrong_keys_hold_up_no_start(cluster, caplog) -> None:
    cluster.readers["config-network"](
        {"system-internal-tls": "enabled", "mesh-compatibility-mode": "x"}
    )
    cluster.readers["my-logging"]({"loglevel.activator": "loud"})
    cluster.freeze(required=False)
    assert cluster.network == NetworkConfig(internal_tls=True)
    assert [line.partition(":")[0] for line in caplog.messages] == [
        "ConfigMap config-network, key mesh-compatibility-mode",
        "ConfigMap my-logging, key loglevel.activator",
    ]
    assert cluster.error_counts() == {"config-network": 1, "my-logging": 1, "my-observability": 0}


def test_a_wrong_word_after_the_start_leaves_encryption_on(cluster, caplog) -> None:
    cluster.readers["config-network"]({"system-internal-tls": "enabled"})
    cluster.freeze(required=True)
    cluster.readers["config-network"]({"system-internal-tls": "maybe"})
    assert cluster.network.internal_tls
    assert caplog.messages[-1].endswith("; enabled stays in force")


def test_in_a_cluster_config_network_has_to_exist_and_the_others_are_missed(cluster, caplog):
    with pytest.raises(ConfigMapError, match="config-network: there is no such ConfigMap"):
        cluster.freeze(required=True)
    cluster.readers["config-network"]({})
    cluster.readers["my-logging"]({})
    cluster.freeze(required=True)
    assert caplog.messages == ["there is no ConfigMap my-observability: its defaults are in force"]


def test_on_a_laptop_none_of_them_is_missed(cluster, caplog) -> None:
    cluster.freeze(required=False)
    assert caplog.messages == []


def test_a_configmap_of_the_activator_alone_counts_and_is_not_missed(heard, caplog) -> None:
    pages: Followed[Mapping[str, str]] = Followed(
        "pages", pages_reader(str.strip), {}, heard.append
    )
    cluster = joined(heard, "a", "b", more=(pages,))
    for name in ("config-network", "a", "b"):
        cluster.readers[name]({})
    cluster.freeze(required=True)
    assert caplog.messages == []
    cluster.readers["pages"]({"shop.html": "<p>"})
    assert heard[-1] == {"shop.html": "<p>"}
    assert cluster.error_counts()["pages"] == 0


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


@in_one_test(
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
