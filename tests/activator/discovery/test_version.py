from __future__ import annotations

import json
from pathlib import Path

import pytest

from activator.discovery import kubernetes
from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.backoff import Timings
from activator.discovery.kubernetes import ClusterVersionError
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer

QUICK = Timings(version_interval=0.01, version_limit=0.5)


async def test_the_version_is_waited_for(server: FakeApiServer, tmp_path: Path) -> None:
    deep = b"[" * 2_000 + b"]" * 2_000
    bodies = [Answer(200, body) for body in (b"<html>", deep)]
    server.script["version", "list"].extend([Answer(503), *bodies, Answer(401)])
    api = ApiServer(server.kubeconfig(tmp_path), QUICK, {})
    assert await kubernetes.check_version(api, "v1.34.0", QUICK) == "v1.35.2+k3s1"
    assert len(server.requests) == 5
    await api.close()


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
    tmp_path: Path,
) -> None:
    server.git_version = found
    api = ApiServer(server.kubeconfig(tmp_path), QUICK, {})
    if good:
        assert await kubernetes.check_version(api, minimum, QUICK) == found
    else:
        with pytest.raises(ClusterVersionError, match="is older than"):
            await kubernetes.check_version(api, minimum, QUICK)
    await api.close()


async def test_a_server_that_never_responds_ends_the_wait_with_the_reason(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.always["version", "list"] = Answer(503)
    api = ApiServer(server.kubeconfig(tmp_path), QUICK, {})
    with pytest.raises(ClusterVersionError, match=r"gave no version within 0\.5 s: 503"):
        await kubernetes.check_version(api, "1.34", QUICK)
    await api.close()


async def test_a_wait_is_logged_at_its_beginning_and_now_and_then(
    server: FakeApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.script["version", "list"].extend([Answer(503)] * 20)
    timings = Timings(version_interval=0.01, version_reminder=1000.0)
    api = ApiServer(server.kubeconfig(tmp_path), timings, {})
    await kubernetes.check_version(api, "1.34", timings)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{api.host}: 503" in caplog.text
    server.script["version", "list"].extend([Answer(503)] * 2)
    await kubernetes.check_version(
        api, "1.34", Timings(version_interval=0.01, version_reminder=0.0)
    )
    assert len(caplog.records) == 3
    await api.close()


@pytest.mark.parametrize("found", ["v\uff11.\uff13\uff15.\uff12", "v1_0.35", "v1.+35", "v1. 35"])
async def test_a_version_of_other_digits_is_no_version(
    found: str, server: FakeApiServer, tmp_path: Path
) -> None:
    server.script["version", "list"].append(Answer(body=json.dumps({"gitVersion": found}).encode()))
    api = ApiServer(server.kubeconfig(tmp_path), QUICK, {})
    assert await kubernetes.check_version(api, "v1.34.0", QUICK) == "v1.35.2+k3s1"
    await api.close()


async def test_a_minimum_that_is_no_version_is_a_clear_error() -> None:
    api = ApiServer("unused", QUICK, {})
    with pytest.raises(ClusterConfigError, match="KUBERNETES_MIN_VERSION"):
        await kubernetes.check_version(api, "newest", QUICK)
