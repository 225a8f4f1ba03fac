"""The ports of an activator in place of the KEDA HTTP add-on's interceptor."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from activator.runtime import Runtime
from activator.servers import Servers
from activator.settings.config import load
from activator.tls.certificates import TlsFileError
from tests.activator.keda.objects import scaled, target
from tests.activator.proxy.world import until
from tests.activator.tls.test_store import write
from tests.conftest import on_uvloop

pytestmark = on_uvloop  # uvicorn's timers run in real time

PORTS = ("http_port", "h2c_port", "https_port", "admin_port", "metrics_port", "profiling_port")


def servers_of(folder: Path, environ: dict[str, str] | None = None, **flags: str) -> Servers:
    given = dict.fromkeys(PORTS, "0") | {"manifests": str(folder), "bind": "127.0.0.1"}
    return Servers(Runtime(load("local", given | {"dialect": "keda"} | flags, environ or {})))


@asynccontextmanager
async def started(servers: Servers) -> AsyncIterator[dict[str, str]]:
    await servers.start()
    try:
        yield servers.addresses
    finally:
        await servers.stop_data(0.0)
        await servers.stop()


def put(folder: Path, *objects: Any) -> None:
    for number, each in enumerate(objects):
        (folder / f"{number}.new").write_text(json.dumps(each))
        (folder / f"{number}.new").replace(folder / f"{number}.json")


def pods_at(port: Any) -> Any:
    """Return the slice of the Service hello with one pod at 127.0.0.1."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "hello-1",
            "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "hello"},
        },
        "addressType": "IPv4",
        "ports": [port],
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
    }


async def test_the_admin_port_responds_as_the_interceptors(tmp_path: Path) -> None:
    put(tmp_path, scaled("web", "web.example"))
    servers = servers_of(tmp_path)
    async with started(servers) as at, httpx.AsyncClient(trust_env=False) as client:
        admin = f"http://{at['admin']}"
        ready = await client.get(f"{admin}/readyz")
        assert (ready.status_code, ready.text) == (200, "OK")
        counts = await client.get(f"{admin}/queue")
        assert counts.headers["content-type"] == "application/json"
        (key,) = counts.json()
        assert counts.json() == {key: {"Concurrency": 0, "RequestCount": 0, "RPS": 0}}

        request = client.get(f"http://{at['http']}/", headers={"host": "web.example"}, timeout=99)
        waits = asyncio.ensure_future(request)
        one = {key: {"Concurrency": 1, "RequestCount": 1, "RPS": 0}}
        await until(lambda: servers.runtime.driver.throttler.total.depth == 1)
        assert (await client.get(f"{admin}/queue")).json() == one

        servers.runtime.begin_drain("received SIGTERM from kubelet")
        draining = await client.get(f"{admin}/readyz")
        assert (draining.status_code, draining.text) == (503, "Service Unavailable")
        assert (await client.get(f"{admin}/livez")).status_code == 200
        assert (await client.get(f"{admin}/queue")).json() == one
        waits.cancel()


async def test_other_dialects_keep_their_texts(tmp_path: Path) -> None:
    servers = servers_of(tmp_path, dialect="services,keda")
    async with started(servers) as at, httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"http://{at['admin']}/readyz")).text == "ok"
        assert (await client.get(f"http://{at['admin']}/queue")).json() == {}


async def test_without_their_settings_two_ports_are_closed(tmp_path: Path) -> None:
    async with started(servers_of(tmp_path, h2c_port="", profiling_port="")) as at:
        assert set(at) == {"http", "admin", "metrics"}


async def test_the_port_for_tls_has_the_certificate_of_the_host(tmp_path: Path) -> None:
    ca = trustme.CA()
    write(tmp_path, "tls.crt", "tls.key", "localhost", ca=ca)
    write(tmp_path / "store", "a.crt", "a.key", "a.localhost", ca=ca)
    variables = {
        "KEDA_HTTP_PROXY_TLS_ENABLED": "true",
        "KEDA_HTTP_PROXY_TLS_CERT_PATH": f"{tmp_path}/tls.crt",
        "KEDA_HTTP_PROXY_TLS_KEY_PATH": f"{tmp_path}/tls.key",
        "KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS": f"{tmp_path}/store",
    }
    trusting = ssl.create_default_context()
    ca.configure_trust(trusting)
    folder = tmp_path / "objects"
    folder.mkdir()
    async with started(servers_of(folder, variables)) as at:
        port = at["https"].rpartition(":")[2]
        async with httpx.AsyncClient(trust_env=False, verify=trusting) as client:
            for host in ("localhost", "a.localhost"):
                url, sni = f"https://127.0.0.1:{port}/", {"sni_hostname": host}
                assert (await client.get(url, extensions=sni)).status_code == 404
            metrics = (await client.get(f"http://{at['metrics']}/metrics")).text
        assert 'activator_certificate_expiry_timestamp_seconds{listener="https"}' in metrics


@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({}, 502),
        ({"KEDA_HTTP_TLS_SKIP_VERIFY": "true"}, 200),
        ({"KEDA_HTTP_TLS_CA_DIRS": "authorities"}, 200),
        ({"KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS": "store"}, 200),
    ],
)
async def test_a_pod_gets_a_request_over_tls_only_if_the_settings_trust_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    ca, of_pod, folder = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tmp_path / "objects"
    write(tmp_path, "tls.crt", "tls.key", "web.example", ca=trustme.CA())
    write(tmp_path / "store", "pod.crt", "pod.key", "hello.shop", ca=ca)
    of_pod.load_cert_chain("store/pod.crt", "store/pod.key")
    (tmp_path / "authorities").mkdir()
    ca.cert_pem.write_to_path("authorities/ca.crt")

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    pod = await asyncio.start_server(respond, "127.0.0.1", 0, ssl=of_pod)
    folder.mkdir()
    port = {"name": "", "port": pod.sockets[0].getsockname()[1]}
    put(folder, scaled("web", "web.example"), target(), pods_at(port))
    variables = {
        "KEDA_HTTP_PROXY_TLS_ENABLED": "true",
        "KEDA_HTTP_PROXY_TLS_CERT_PATH": "tls.crt",
        "KEDA_HTTP_PROXY_TLS_KEY_PATH": "tls.key",
    }
    async with (
        started(servers_of(folder, variables | environ)) as at,
        httpx.AsyncClient(trust_env=False, verify=False) as client,
    ):
        url = f"https://127.0.0.1:{at['https'].rpartition(':')[2]}/"
        response = await client.get(url, headers={"Host": "web.example"})
        assert response.status_code == status
        if status != 200:
            assert "local issuer certificate" in response.headers["activator-reason"]
    pod.close()


async def test_a_pod_that_is_silent_over_tls_delays_one_request(tmp_path: Path) -> None:
    write(tmp_path, "tls.crt", "tls.key", "web.example", ca=trustme.CA())
    of_pod, folder = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tmp_path / "objects"
    of_pod.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    folder.mkdir()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.read()
        writer.close()

    silent = await asyncio.start_server(read, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    good = await asyncio.start_server(respond, "127.0.0.2", port, ssl=of_pod)
    pods = pods_at({"name": "", "port": port})
    pods["endpoints"].append({"addresses": ["127.0.0.2"], "conditions": {"ready": True}})
    put(folder, scaled("web", "web.example"), target(), pods)
    variables = {
        "KEDA_HTTP_PROXY_TLS_ENABLED": "true",
        "KEDA_HTTP_PROXY_TLS_CERT_PATH": f"{tmp_path}/tls.crt",
        "KEDA_HTTP_PROXY_TLS_KEY_PATH": f"{tmp_path}/tls.key",
        "KEDA_HTTP_TLS_SKIP_VERIFY": "true",
        "KEDA_HTTP_CONNECT_TIMEOUT": "200ms",
    }
    async with AsyncExitStack() as stack:
        stack.callback(silent.close)
        stack.callback(good.close)
        at = await stack.enter_async_context(started(servers_of(folder, variables)))
        client = httpx.AsyncClient(trust_env=False, verify=False)
        await stack.enter_async_context(client)
        url = f"https://127.0.0.1:{at['https'].rpartition(':')[2]}/"
        for _ in range(20):
            response = await client.get(url, headers={"Host": "web.example"})
            assert response.status_code == 200
        metrics = (await client.get(f"http://{at['metrics']}/metrics")).text
        seen = (await client.get(f"http://{at['admin']}/api/v1/revisions/shop/web")).json()
    requeued = r"activator_requeues_total{[^}]*} ([1-9].*)"
    assert re.findall(requeued, metrics) == ["1"]
    errors = {pod["address"]: pod["lastError"] for pod in seen["pods"]}
    assert "handshake timed out" in errors[f"127.0.0.1:{port}"]


async def test_a_pod_that_is_silent_only_over_tls_keeps_its_plain_requests(tmp_path: Path) -> None:
    write(tmp_path, "tls.crt", "tls.key", "web.example", ca=trustme.CA())
    folder = tmp_path / "objects"
    folder.mkdir()

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if data.startswith(b"GET "):
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    pod = await asyncio.start_server(respond, "127.0.0.1", 0)
    port = {"name": "", "port": pod.sockets[0].getsockname()[1]}
    limit = {"conditionWait": "500ms"}
    put(folder, scaled("web", "web.example", timeouts=limit), target(), pods_at(port))
    variables = {
        "KEDA_HTTP_PROXY_TLS_ENABLED": "true",
        "KEDA_HTTP_PROXY_TLS_CERT_PATH": f"{tmp_path}/tls.crt",
        "KEDA_HTTP_PROXY_TLS_KEY_PATH": f"{tmp_path}/tls.key",
        "KEDA_HTTP_CONNECT_TIMEOUT": "20ms",
    }
    async with AsyncExitStack() as stack:
        stack.callback(pod.close)
        at = await stack.enter_async_context(started(servers_of(folder, variables)))
        client = httpx.AsyncClient(trust_env=False, verify=False)
        await stack.enter_async_context(client)
        statuses = []
        for scheme in ("http", "https", "http"):
            url = f"{scheme}://127.0.0.1:{at[scheme].rpartition(':')[2]}/"
            response = await client.get(url, headers={"Host": "web.example"})
            statuses.append(response.status_code)
    assert statuses == [200, 504, 200]


async def test_unusable_certificates_are_an_error_at_start(tmp_path: Path) -> None:
    with pytest.raises(TlsFileError, match=r"KEDA_HTTP_PROXY_TLS_CERT_PATH.*/certs/tls\.crt"):
        servers_of(tmp_path, {"KEDA_HTTP_PROXY_TLS_ENABLED": "true"})


async def test_a_line_for_each_request_has_the_combined_log_format(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    put(tmp_path, scaled("web", "web.example"))
    environ = {"KEDA_HTTP_LOG_REQUESTS": "true", "KEDA_HTTP_READINESS_TIMEOUT": "10ms"}
    servers = servers_of(tmp_path, environ)
    async with started(servers) as at, httpx.AsyncClient(trust_env=False) as client:
        fields = {"host": "web.example", "user-agent": 'a"b', "referer": "http://r/"}
        response = await client.get(f"http://{at['http']}/x%0Ay?q", headers=fields)
        assert response.status_code == 500  # the object's Service is missing
    line = capfdbinary.readouterr().out.decode()
    size = len(response.content)
    assert line.startswith("127.0.0.1:")
    assert line.endswith(f'"GET /x%0Ay HTTP/1.1" 500 {size} "http://r/" "a\\"b"\n')
    assert " - - [" in line
    assert " +0000] " in line
