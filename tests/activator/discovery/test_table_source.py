"""A source that is not in the program, by the protocol: served, reported, and shown everywhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from activator.console import explain
from activator.console.client import parse
from activator.runtime import Runtime, StartError
from activator.servers import Servers
from activator.settings.config import load
from tests.activator.discovery.table_source import TableSource
from tests.conftest import on_uvloop

pytestmark = on_uvloop  # inotify reports files in real time

PORTS = ("http_port", "h2c_port", "https_port", "admin_port", "metrics_port", "profiling_port")


@asynccontextmanager
async def pod(name: str, ready: Callable[[], bool] = lambda: True) -> AsyncIterator[str]:
    """Run a pod without queue-proxy, which knows none of its probes; yield its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"K-Network-Probe" not in head
                probed = head.startswith(b"GET /ready ")
                status = b"503 Not Ready" if probed and not ready() else b"200 OK"
                body = b"page" if probed else name.encode()
                writer.write(
                    b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)
                )
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


class World:
    """An activator whose objects come from a table."""

    def __init__(self, table: Path, client: httpx.AsyncClient, at: dict[str, str]) -> None:
        self.table = table
        self._client = client
        self._at = at

    async def ask(self, name: str) -> httpx.Response:
        """Send a request to a revision of the namespace default."""
        headers = {"Knative-Serving-Namespace": "default", "Knative-Serving-Revision": name}
        return await self._client.get(f"http://{self._at['http']}/", headers=headers)

    async def api(self, path: str) -> str:
        return (await self._client.get(f"http://{self._at['admin']}{path}")).text

    async def becomes(self, path: str, *texts: str) -> str:
        """Wait until the admin listener shows all of these fields; return its response."""
        async with asyncio.timeout(10):
            while True:
                found = await self.api(path)
                if all(text in found for text in texts):
                    return found


def row(name: str, *pods: str, more: str = "") -> str:
    return f'[revisions."default/{name}"]\npods = {list(pods)}\n{more}\n'


@asynccontextmanager
async def serving(table: Path) -> AsyncIterator[World]:
    flags = {"manifests": str(table.parent), "bind": "127.0.0.1", **dict.fromkeys(PORTS, "0")}
    runtime = Runtime(
        load("local", flags, {}), make_source=lambda wiring: TableSource(table, wiring.sink)
    )
    servers = Servers(runtime)
    try:
        await servers.start()
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            yield World(table, client, servers.addresses)
        await servers.stop_data(1.0)
    finally:
        await servers.stop()


async def test_requests_are_served_by_the_pods_of_the_table(tmp_path: Path) -> None:
    table = tmp_path / "table.toml"
    async with pod("one") as one, pod("two") as two, pod("three") as three:
        table.write_text(row("a", one) + row("b", two, more='probe = "http:/ready"'))
        async with serving(table) as world:
            assert (await world.ask("a")).text == "one"
            assert (await world.ask("b")).text == "two"
            assert (await world.ask("c")).status_code == 404
            table.write_text(row("b", three))
            await world.becomes("/api/v1/revisions", three)
            assert (await world.ask("b")).text == "three"
            assert (await world.ask("a")).status_code == 404


async def test_a_request_waits_until_the_page_of_its_pod_says_ready(tmp_path: Path) -> None:
    table, is_ready = tmp_path / "table.toml", False
    async with pod("one", lambda: is_ready) as one:
        table.write_text(row("a", one, more='probe = "http:/ready"'))
        async with serving(table) as world:
            asked = asyncio.ensure_future(world.ask("a"))
            await world.becomes("/api/v1/revisions", '"queued":1', "status 503")
            is_ready = True
            assert (await asked).text == "one"


@pytest.mark.parametrize(
    ("broken", "problem", "rejected"),
    [
        ('[revisions."default/a"]\npods = [127.0.0.1]\n', "at line 2, column", 0),
        (row("a", "nowhere"), "revision default/a: pods[0]: expected ip:port, got 'nowhere'", 1),
        (row("a", more='probe = "ftp"'), "probe: expected tcp or http:/path, got 'ftp'", 1),
    ],
    ids=["no TOML", "no address", "no probe"],
)
async def test_a_broken_line_is_reported_and_its_last_good_state_stays(
    tmp_path: Path, broken: str, problem: str, rejected: int, caplog: pytest.LogCaptureFixture
) -> None:
    table = tmp_path / "table.toml"
    async with pod("one") as one, pod("two") as two:
        table.write_text(row("a", one))
        async with serving(table) as world:
            assert (await world.ask("a")).text == "one"
            table.write_text(broken + row("b", two))
            activator = await world.becomes("/api/v1/activator", problem)
            assert (await world.ask("a")).text == "one"
            # A wrong row does not affect the others; an invalid TOML file has no other rows.
            assert (await world.ask("b")).status_code == (200 if rejected else 404)
            assert problem in caplog.text

            metrics = await world.api("/metrics")
            assert f'activator_objects{{kind="Revision"}} {1 + rejected}\n' in metrics
            assert f'activator_rejected_objects{{kind="Revision"}} {rejected}\n' in metrics
            assert "\nactivator_manifests_age_seconds " in metrics
            assert "\nactivator_watch_age_seconds{" not in metrics

            one_view = await world.api("/api/v1/revisions/default/a")
            page = repr(explain.page(parse(one_view), parse(activator)))
            assert f"objects come from {table}, read" in page
            assert problem.partition("'")[0] in page

            table.write_text(row("a", one) + row("b", two))
            await world.becomes("/api/v1/activator", '"manifestErrors":{}')


async def test_a_missing_table_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"table.toml does not exist: create it"):
        async with serving(tmp_path / "table.toml"):
            pass
