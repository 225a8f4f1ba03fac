"""Which source the settings choose; each implements the protocol."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from activator.discovery.api_server import ClusterConfigError
from activator.discovery.kubernetes import ClusterVersionError, KubernetesWatch
from activator.discovery.manifests import ManifestFolder, ManifestFolderError
from activator.discovery.source import Sink, Source, SourceError
from activator.discovery.sources import Wiring, make_source
from activator.driver import Driver
from activator.settings.config import Settings, load
from tests.activator.discovery.recording import RecordingSink

IN_CLUSTER = {"POD_NAME": "a", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "knative-serving"}


def made(settings: Settings) -> Source:
    sink = RecordingSink()
    return make_source(Wiring(settings, sink, sink, lambda: False))


async def test_a_folder_of_manifests_comes_before_a_cluster(tmp_path: Path) -> None:
    source = made(load("local", {"manifests": str(tmp_path)}, {}))
    assert isinstance(source, ManifestFolder)
    assert (source.status(0.0).kind, source.status(0.0).name) == ("folder", str(tmp_path))
    assert source.status(0.0).synced


async def test_without_a_folder_a_cluster_is_watched() -> None:
    source = made(load("run", {}, IN_CLUSTER))
    assert isinstance(source, KubernetesWatch)
    status = source.status(0.0)
    assert (status.kind, status.name) == ("kubernetes", "namespace knative-serving")
    assert list(status.watched) == [
        "Revision",
        "Service",
        "Endpoints",
        "EndpointSlice",
        "ConfigMap",
    ]
    assert not status.synced
    await source.close()


@pytest.mark.parametrize("command", ["local", "run"])
async def test_each_source_has_every_method_of_the_interface(command: str, tmp_path: Path) -> None:
    flags = {"manifests": str(tmp_path)} if command == "local" else {}
    source = made(load(command, flags, {} if command == "local" else IN_CLUSTER))
    methods = [name for name in vars(Source) if not name.startswith("_")]
    assert all(callable(getattr(source, name)) for name in methods)
    source.hurry()
    await source.close()


@pytest.mark.parametrize("error", [ClusterConfigError, ClusterVersionError, ManifestFolderError])
def test_each_error_of_a_start_is_one_of_a_source(error: type[Exception]) -> None:
    assert issubclass(error, SourceError)


def test_each_call_has_its_taker() -> None:
    calls = [name for name in vars(Sink) if name.startswith(("set_", "delete_"))]
    assert calls
    for name in calls:
        expected = inspect.signature(getattr(Sink, name)).parameters
        assert len(inspect.signature(getattr(Driver, name)).parameters) == len(expected)
