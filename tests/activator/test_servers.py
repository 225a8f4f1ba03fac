"""The listeners: opened together; each port in use is logged before any listener serves."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import socket
import ssl
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import trustme

from activator.proxy.client.listener import BindError
from activator.proxy.transport.files import file_limit, share_out
from activator.runtime import Runtime, StartError
from activator.servers import MOST_HEAD, Servers
from activator.settings.config import load
from tests.activator.proxy.world import until
from tests.conftest import on_uvloop
from tests.process import PATIENCE

pytestmark = on_uvloop  # uvicorn's timers run in real time

#: How many connections the kernel queues on any port.
LONGEST = int(Path("/proc/sys/net/core/somaxconn").read_text())


def runtime(folder: Path, **ports: str) -> Runtime:
    names = ("http_port", "h2c_port", "https_port", "admin_port", "metrics_port", "profiling_port")
    free = dict.fromkeys(names, "0")
    flags = {"manifests": str(folder), "bind": "127.0.0.1", **free, **ports}
    return Runtime(load("local", flags, {}))


async def test_each_port_serves_what_is_its_own(tmp_path: Path) -> None:
    servers = Servers(runtime(tmp_path, admit_port="0", admit_prefix="/admit"))
    await servers.start()
    at = servers.addresses
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"http://{at['admin']}/readyz")).status_code == 200
        activator = (await client.get(f"http://{at['admin']}/api/v1/activator")).json()
        assert activator["admission"] == at["admit"]
        assert (await client.get(f"http://{at['admit']}/other")).status_code == 400
        assert (await client.get(f"http://{at['metrics']}/metrics")).status_code == 200
        assert (await client.get(f"http://{at['metrics']}/api/v1/revisions")).status_code == 404
        assert (await client.get(f"http://{at['profiling']}/debug/pprof/")).status_code == 404
        shown = {"runtime-profiling": "enabled"}
        servers.runtime.system_objects.set_config_map("config-observability", shown)
        assert (await client.get(f"http://{at['profiling']}/debug/pprof/")).status_code == 200
        for port in ("http", "h2c", "admit"):
            answer = await client.get(f"http://{at[port]}/admit")
            assert answer.headers["activator-reason"].startswith("unknown-revision")
    await servers.stop_data(1.0)
    host, _, port = at["admit"].partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    await servers.stop()


async def test_without_its_setting_there_is_no_admission_port(tmp_path: Path) -> None:
    servers = Servers(runtime(tmp_path))
    assert "admit" not in servers.addresses
    await servers.stop()


@pytest.mark.parametrize("setting", ["http", "h2c", "admin", "metrics", "profiling", "admit"])
async def test_a_taken_port_is_reported_with_its_setting(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(BindError, match=rf":{port} \(--{setting}-port\): "):
            Servers(runtime(tmp_path, **{f"{setting}_port": port}))


async def test_a_service_whose_port_is_taken_has_a_warning_with_the_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        number = free.getsockname()[1]
    servers = Servers(runtime(tmp_path))
    at = servers.addresses
    asked = {"one": str(number), "two": str(number), "web": at["http"].rpartition(":")[2]}
    for name, port in asked.items():
        annotations = {"enabled": "true", "protocol": "tcp", "listen-port": port}
        metadata = {
            "name": name,
            "namespace": "shop",
            "annotations": {f"activator.dev/{key}": each for key, each in annotations.items()},
        }
        spec = {"selector": {"app": name}, "ports": [{"port": 6379}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        (tmp_path / f"{name}.json").write_text(json.dumps(body))
    await servers.start()
    async with httpx.AsyncClient(trust_env=False, base_url=f"http://{at['admin']}") as client:
        activator = (await client.get("/api/v1/activator")).json()
        warnings = {
            each["name"]: each["warning"]
            for each in activator["objectWarnings"]
            if each["reason"] == "port-conflict"
        }
        [first] = {"one", "two"} - set(warnings)  # either may be the first to listen
        [second] = set(warnings) - {"web"}
        assert f"; Service shop/{first} listens there; choose another " in warnings[second]
        assert "; the activator itself (port http) listens there; " in warnings["web"]
        path = f"/api/v1/revisions/shop/{second}"
        shown = (await client.get(path)).json()["objectWarnings"]
        assert warnings[second] in [each["warning"] for each in shown]
    await servers.stop()


def write_system_object(folder: Path, kind: str, name: str, **data: bytes | str) -> None:
    """Write a ConfigMap or Secret of the system namespace."""
    values = {
        key: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for key, value in data.items()
    }
    metadata = {"name": name, "namespace": "knative-serving"}
    text = json.dumps({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": values})
    (folder / f"{name}.new").write_text(text)
    (folder / f"{name}.new").replace(folder / f"{name}.json")


def write_secret(folder: Path, ca: trustme.CA) -> None:
    leaf = ca.issue_cert("localhost")
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    key = leaf.private_key_pem.bytes()
    data = {"tls.crt": chain, "tls.key": key, "ca.crt": ca.cert_pem.bytes()}
    write_system_object(folder, "Secret", "routing-serving-certs", **data)


def encrypt(folder: Path) -> None:
    data = {"system-internal-tls": "enabled"}
    write_system_object(folder, "ConfigMap", "config-network", **data)


def trusting(ca: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


async def test_the_port_for_tls_is_open_where_traffic_is_encrypted_and_follows_its_secret(
    tmp_path: Path,
) -> None:
    ca, new = trustme.CA(), trustme.CA()
    encrypt(tmp_path)
    write_secret(tmp_path, ca)
    servers = Servers(runtime(tmp_path))
    await servers.start()
    at = servers.addresses
    port = at["https"].rpartition(":")[2]
    kept = httpx.AsyncClient(trust_env=False, verify=trusting(ca))
    async with kept, httpx.AsyncClient(trust_env=False) as plain:
        assert (await kept.get(f"https://localhost:{port}/")).status_code == 404
        assert (await plain.get(f"http://{at['http']}/")).status_code == 404
        write_secret(tmp_path, new)
        async with httpx.AsyncClient(trust_env=False, verify=trusting(new)) as client:
            async with asyncio.timeout(PATIENCE):
                status = 0
                while not status:
                    status = await _status(client, f"https://localhost:{port}/")
        assert status == 404
        assert (await kept.get(f"https://localhost:{port}/")).status_code == 404
    await servers.stop_data(1.0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", int(port))
    await servers.stop()


async def _status(client: httpx.AsyncClient, url: str) -> int:
    try:
        return (await client.get(url)).status_code
    except httpx.ConnectError:
        return 0


#: Clients in a process of their own. Each connects, sends its first bytes at once, sends one
#: request, and closes. The process prints each kind of error once.
CLIENTS = """
import concurrent.futures, socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])

def ask(number):
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as tls:
                tls.sendall(b"GET / HTTP/1.1\\r\\nHost: nobody\\r\\n\\r\\n")
                status = tls.recv(4096)[9:12]
                return "" if status == b"404" else f"was told {status}"
    except Exception as error:
        return repr(error)

with concurrent.futures.ThreadPoolExecutor(16) as threads:
    print(*sorted(set(threads.map(ask, range(int(sys.argv[3]))))), sep="\\n")
"""


@asynccontextmanager
async def encrypted(folder: Path, ca: trustme.CA) -> AsyncIterator[Servers]:
    """All listeners, also the one for TLS."""
    encrypt(folder)
    write_secret(folder, ca)
    servers = Servers(runtime(folder))
    try:
        await servers.start()
        yield servers
    finally:
        await servers.stop_data(1.0)
        await servers.stop()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_many_clients_of_another_process_each_get_their_response_over_tls(
    tmp_path: Path,
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with encrypted(tmp_path, ca) as servers:
        port = servers.addresses["https"].rpartition(":")[2]
        async with httpx.AsyncClient(trust_env=False) as client:  # the first call opens one file
            await client.get(f"http://{servers.addresses['metrics']}/healthz")
        await until(lambda: not servers.metrics.server_state.connections)
        before = open_files()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENTS, port, str(tmp_path / "ca.pem"), "500"),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(60):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert said == b"\n"
        await until(lambda: open_files() <= before)


async def test_clients_that_never_begin_tls_take_no_place_from_other_ports(tmp_path: Path) -> None:
    async with encrypted(tmp_path, trustme.CA()) as servers:
        servers.runtime.proxy.max_connections = 60
        at = servers.addresses
        port = int(at["https"].rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        await until(lambda: servers.runtime.proxy.handshakes == 30)
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://{at['http']}/")).status_code == 404
            assert (await client.get(f"http://{at['metrics']}/healthz")).status_code == 200
        assert servers.runtime.proxy.handshakes == 30  # the others wait in the kernel
        assert not any(reader.at_eof() for reader, _ in silent)
        for _, writer in silent:
            writer.close()


async def test_a_hanging_handshake_does_not_hold_up_the_end(tmp_path: Path) -> None:
    encrypt(tmp_path)
    write_secret(tmp_path, trustme.CA())
    servers = Servers(runtime(tmp_path))
    await servers.start()
    port = servers.addresses["https"].rpartition(":")[2]
    _, hangs = await asyncio.open_connection("127.0.0.1", int(port))
    await servers.stop_data(0.2)
    hangs.close()
    await servers.stop()


async def test_all_ports_for_traffic_take_the_same_burst(tmp_path: Path) -> None:
    """asyncio would let 100 connections wait on a TLS port; the next SYN costs a second."""
    encrypt(tmp_path)
    write_secret(tmp_path, trustme.CA())
    servers = Servers(runtime(tmp_path))
    await servers.start()
    for port in ("http", "h2c", "https"):
        info = servers.sockets[port].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
        assert struct.unpack_from("I", info, 28)[0] == min(4096, LONGEST)  # tcpi_sacked: backlog
    await servers.stop_data(1.0)
    await servers.stop()


async def test_without_the_secret_the_start_ends_and_says_how_to_make_it(tmp_path: Path) -> None:
    encrypt(tmp_path)
    servers = Servers(runtime(tmp_path))
    with pytest.raises(StartError, match=r"routing-serving-certs is missing: .* kubectl create"):
        await servers.start()
    await servers.stop()


async def test_the_port_for_tls_is_closed_where_traffic_is_plain(tmp_path: Path) -> None:
    write_secret(tmp_path, trustme.CA())
    servers = Servers(runtime(tmp_path))
    await servers.start()
    assert "https" not in servers.addresses
    await servers.stop_data(1.0)
    await servers.stop()


async def test_metrics_over_tls_with_a_certificate_that_expires_soon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = trustme.CA()
    soon = datetime.now(UTC) + timedelta(days=9.9)
    leaf = ca.issue_cert("localhost", not_after=soon)
    leaf.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    both = str(tmp_path / "both.pem")
    folder = tmp_path / "manifests"
    folder.mkdir()
    servers = Servers(runtime(folder, metrics_tls_cert=both, metrics_tls_key=both))
    await servers.start()
    port = servers.addresses["metrics"].rpartition(":")[2]
    async with httpx.AsyncClient(trust_env=False, verify=trusting(ca)) as client:
        answer = await client.get(f"https://localhost:{port}/metrics")
        ready = await client.get(f"http://{servers.addresses['admin']}/readyz?verbose")
    found = re.search(r'\nactivator_certificate_expiry.*{listener="metrics"} (\S+)\n', answer.text)
    assert found
    assert float(found[1]) == int(soon.timestamp())
    what = "the certificate of the listener metrics expires on "
    assert ready.text.splitlines()[1].startswith(what)
    assert ready.text.endswith(" UTC, in 10 days: renew it")
    assert [each for each in caplog.messages if what in each] == [ready.text.splitlines()[1]]
    await servers.stop_data(1.0)
    await servers.stop()


@asynccontextmanager
async def served(folder: Path, port: str) -> AsyncIterator[str]:
    """Return the address of one port while all ports are served."""
    servers = Servers(runtime(folder))
    await servers.start()
    try:
        yield servers.addresses[port]
    finally:
        await servers.stop()


async def _connect(at: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = at.split(":")
    return await asyncio.open_connection(host, int(port))


async def _is_cut(reader: asyncio.StreamReader) -> None:
    """Return when the connection has ended, without a byte."""
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""


@pytest.mark.untraced
@pytest.mark.parametrize("port", ["admin", "metrics", "profiling"])
async def test_clients_that_only_connect_take_limited_files_and_shut_out_no_other(
    tmp_path: Path, port: str
) -> None:
    async with served(tmp_path, port) as at, httpx.AsyncClient(trust_env=False) as client:
        most = share_out(file_limit()).admin
        silent = [await _connect(at) for _ in range(2 * most)]
        for _ in range(2):
            assert (await client.get(f"http://{at}/healthz")).status_code in (200, 404)
        async with asyncio.timeout(PATIENCE):
            for reader, _ in silent[:most]:
                await _is_cut(reader)
        assert not silent[-1][0].at_eof()
        for _, writer in silent:
            writer.close()


async def test_a_head_without_an_end_is_cut_off(tmp_path: Path) -> None:
    async with served(tmp_path, "metrics") as at:
        reader, writer = await _connect(at)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        writer.write(b"x: y\r\n" * (MOST_HEAD // 6 + 1))
        async with asyncio.timeout(PATIENCE):
            await _is_cut(reader)
        writer.close()


async def test_a_connection_that_asks_often_is_not_cut_off(tmp_path: Path) -> None:
    """The limit is for one head, not for all bytes of a connection."""
    async with served(tmp_path, "metrics") as at, httpx.AsyncClient(trust_env=False) as client:
        field = {"x": "y" * (MOST_HEAD // 4)}
        for _ in range(6):
            assert (await client.get(f"http://{at}/healthz", headers=field)).status_code == 200


async def test_the_date_of_an_admin_response_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = Servers(runtime(tmp_path))
    await servers.start()
    at = servers.addresses["admin"]
    dates: list[str] = []
    async with httpx.AsyncClient(trust_env=False) as client:
        for shift in (0.0, 3600.0):  # on one connection, and much later
            monkeypatch.setattr("time.time", lambda shift=shift: 1_700_000_000.0 + shift)
            dates.append((await client.get(f"http://{at}/readyz")).headers["date"])
    assert dates == ["Tue, 14 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 23:13:20 GMT"]
    await servers.stop_data(1.0)
    await servers.stop()
