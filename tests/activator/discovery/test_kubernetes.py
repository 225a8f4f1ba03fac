"""The whole watch of a cluster: configuration, credentials, versions, four resources at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import certifi
import pytest

from activator.discovery.backoff import Timings
from activator.discovery.inventory import Inventory
from activator.discovery.kubernetes import (
    ApiServer,
    ClusterConfigError,
    ClusterVersionError,
    KubernetesWatch,
)
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer, event, expired
from tests.activator.discovery.recording import (
    A,
    RecordingSink,
    config_map,
    private,
    revision,
)

QUICK = Timings(
    backoff_first=0.001,
    backoff_limit=0.01,
    watch_brief=0.0,
    version_interval=0.01,
    version_limit=0.5,
    inactivity=2.0,
)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


@asynccontextmanager
async def running(watch: KubernetesWatch) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.get_running_loop().create_task(watch.run())
    try:
        async with asyncio.timeout(10):
            yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_all_resources_are_followed(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    for obj in (revision(), private("10.0.0.1"), config_map("config-network", a="b")):
        server.put(obj)
    watch = KubernetesWatch(inventory, "knative-serving", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await watch.wait_synced()
        ages = watch.ages(asyncio.get_running_loop().time() + 5)
        assert set(ages) == {"Revision", "Service", "Endpoints", "ConfigMap"}
        assert all(4 < age < 15 for age in ages.values())
        assert watch.counters["Revision"].lists == 1
        assert watch.errors == {}
    assert set(sink.revisions) == {A}
    assert sink.ready() == ["10.0.0.1:8012"]
    assert sink.config_maps == {"config-network": {"a": "b"}}


async def test_one_resource_that_is_refused_does_not_stop_the_others(
    server: FakeApiServer, inventory: Inventory, sink: RecordingSink, tmp_path: Path
) -> None:
    server.put(private("10.0.0.1"))
    server.always["Revision", "list"] = Answer(404, b"404 page not found")
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    async with running(watch):
        await server.watched("Endpoints")
        await server.asked("Revision", "list", 3)
        assert not watch.synced
        assert "is Knative Serving installed?" in watch.errors["Revision"]
        assert sink.ready() == ["10.0.0.1:8012"]
        del server.always["Revision", "list"]
        await watch.wait_synced()
        assert watch.errors == {}


async def test_refused_credentials_are_read_again(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path, token="old"), QUICK)
    async with running(watch):
        await server.watched("Endpoints")
        server.kubeconfig(tmp_path, token="new")
        server.script["Endpoints", "list"].append(Answer(401))
        server.send("Endpoints", event("ERROR", expired()))
        await server.asked("Endpoints", "watch", 2)
    tokens = [request.headers["authorization"] for request in server.of("Endpoints", "list")]
    assert tokens == ["Bearer old", "Bearer old", "Bearer new"]


async def test_a_token_is_read_again_when_it_is_old_and_streams_stay_open(
    server: FakeApiServer, tmp_path: Path
) -> None:
    timings = Timings(credentials=0.0)
    api = ApiServer(server.kubeconfig(tmp_path, token="old"), timings, {})
    await api.connect()
    async with api.get("/api/v1/endpoints", {"watch": "1"}, 5) as stream:
        assert stream.status == 200
        server.kubeconfig(tmp_path, token="new\n")
        async with api.get("/version", {}, 5) as response:
            await response.read(100)
        server.send("Endpoints", b"still open\n")
        async for chunk in stream.chunks():
            assert chunk == b"still open\n"
            break
    await api.close()
    assert [r.headers["authorization"] for r in server.requests] == ["Bearer old", "Bearer new"]


async def test_credentials_that_are_away_for_a_moment_stay_in_use(
    server: FakeApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = server.kubeconfig(tmp_path)
    api = ApiServer(path, Timings(credentials=0.0), {})
    await api.connect()
    os.unlink(path)
    async with api.get("/version", {}, 5) as response:
        assert response.status == 200
    await api.close()
    assert "the old credentials stay in use" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist: set it to a kubeconfig file"),
        ("", "cannot be used"),
        ("[1, 2]", "cannot be used"),
        ("a: [", "cannot be used"),
        ("current-context: x\ncontexts: []\n", "cannot be used"),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_one_clear_error(
    content: str | None, message: str, inventory: Inventory, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    watch = KubernetesWatch(inventory, "ns", str(path), QUICK)
    with pytest.raises(ClusterConfigError, match=message) as caught:
        await watch.run()
    assert str(path) in str(caught.value)


async def test_tls_files_that_are_none_are_one_clear_error(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    path = server.kubeconfig(tmp_path, certificate_authority="ca.crt")
    with pytest.raises(ClusterConfigError, match="certificate-authority"):
        await KubernetesWatch(inventory, "ns", path, QUICK).run()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "Set KUBECONFIG to a kubeconfig file, or work without a cluster"),
        (
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"},
            "its service account cannot be used",
        ),
    ],
)
async def test_no_cluster_is_one_clear_error(
    environ: dict[str, str],
    message: str,
    inventory: Inventory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ClusterConfigError, match=message):
        await KubernetesWatch(inventory, "ns", None, QUICK, environ).run()


async def test_in_a_cluster_the_service_account_is_used_and_its_token_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes_asyncio.config import incluster_config

    token = tmp_path / "token"
    token.write_text("t1")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", certifi.where())
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    api = ApiServer(None, Timings(credentials=0.0), environ)
    await api.connect()
    assert api.host == "https://[fd00::1]:443"
    token.write_text("t2\n")
    connection = await api._fresh_connection()
    assert connection.authorization == {"Authorization": "Bearer t2"}
    await api.close()


async def test_the_version_is_waited_for(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    server.script["version", "list"].extend([Answer(503), Answer(200, b"<html>"), Answer(401)])
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    assert await watch.check_version("v1.34.0") == "v1.35.2+k3s1"
    assert len(server.requests) == 4
    await watch.close()


@pytest.mark.parametrize(
    ("found", "minimum", "good"),
    [
        ("v1.34.0", "1.34", True),
        ("v1.34.0-rc.1", "v1.34.0", True),
        ("v1.33.9-eks-123", "v1.34.0", False),
        ("v1.9.0", "v1.10.0", False),
        ("v2.0.0", "v1.34.0", True),
    ],
)
async def test_an_older_cluster_is_refused(
    found: str,
    minimum: str,
    good: bool,
    server: FakeApiServer,
    inventory: Inventory,
    tmp_path: Path,
) -> None:
    server.git_version = found
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    if good:
        assert await watch.check_version(minimum) == found
    else:
        with pytest.raises(ClusterVersionError, match="is older than"):
            await watch.check_version(minimum)
    await watch.close()


async def test_a_server_that_never_answers_ends_the_wait_with_the_reason(
    server: FakeApiServer, inventory: Inventory, tmp_path: Path
) -> None:
    server.always["version", "list"] = Answer(503)
    watch = KubernetesWatch(inventory, "ns", server.kubeconfig(tmp_path), QUICK)
    with pytest.raises(ClusterVersionError, match=r"gave no version within 0\.5 s: 503"):
        await watch.check_version("1.34")
    await watch.close()


async def test_a_minimum_that_is_no_version_is_a_clear_error(inventory: Inventory) -> None:
    watch: Any = KubernetesWatch(inventory, "ns", "unused", QUICK)
    with pytest.raises(ClusterConfigError, match="KUBERNETES_MIN_VERSION"):
        await watch.check_version("newest")
