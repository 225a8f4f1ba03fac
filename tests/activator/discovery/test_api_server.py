from __future__ import annotations

import os
from pathlib import Path

import certifi
import pytest

from activator.discovery import kubernetes_package
from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.backoff import Timings
from tests.activator.discovery.fake_api_server import FakeApiServer
from tests.conftest import both_loops

pytestmark = both_loops


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


async def test_in_a_cluster_the_service_account_is_used_and_its_token_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    incluster_config = kubernetes_package.load().config.incluster_config
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


async def test_tls_files_that_are_none_are_one_clear_error(
    server: FakeApiServer, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    path = server.kubeconfig(tmp_path, certificate_authority="ca.crt")
    with pytest.raises(ClusterConfigError, match="certificate-authority"):
        await ApiServer(path, Timings(), {}).connect()
