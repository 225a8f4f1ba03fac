"""Single requests of ApiServer: the retries, and the errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from activator import __version__
from activator.discovery.api_server import ApiResponse, ApiServer, Meaning
from activator.discovery.backoff import Timings
from tests.activator.discovery.fake_api_server import FakeApiServer
from tests.conftest import both_loops
from tests.rows import in_one_test

PATH = "/apis/apps/v1/namespaces/shop/deployments/w/scale"


class Sent(NamedTuple):
    """One request as the server read it."""

    line: str
    headers: dict[str, str]
    body: bytes


class Scripted:
    """A server of HTTP/1.1 that keeps connections alive and sends prepared bytes.

    Attributes:
        script: bytes for each request; None closes the connection instead.
        sent: all requests.
        connections: how many were opened.
    """

    def __init__(self, *script: bytes | None) -> None:
        self.script = list(script)
        self.sent: list[Sent] = []
        self.connections = 0
        self.on_request: Callable[[], object] = lambda: None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in head[1:])
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.sent.append(Sent(head[0], headers, body))
                self.on_request()
                response = self.script.pop(0)
                if response is None:
                    return
                writer.write(response)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def response(status: int, body: object = None, *fields: str) -> bytes:
    content = json.dumps(body or {}).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


@asynccontextmanager
async def connected(
    folder: Path, scripted: Scripted, timings: Timings | None = None
) -> AsyncIterator[ApiServer]:
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    fake = FakeApiServer()
    fake.port = server.sockets[0].getsockname()[1]
    api = ApiServer(fake.kubeconfig(folder), timings or Timings(), {})
    try:
        await api.connect()
        yield api
    finally:
        await api.close()
        server.close()


@both_loops
async def test_a_patch_arrives_whole_and_its_response_comes_back_whole(tmp_path: Path) -> None:
    server = Scripted(response(200, {"spec": {"replicas": 1}}))
    async with connected(tmp_path, server) as api:
        got = await api.send("PATCH", PATH, b'{"spec":1}', "application/merge-patch+json")
    assert got.status == 200
    assert json.loads(got.body) == {"spec": {"replicas": 1}}
    (sent,) = server.sent
    assert sent.line == f"PATCH {PATH} HTTP/1.1"
    assert sent.body == b'{"spec":1}'
    assert sent.headers["content-type"] == "application/merge-patch+json"
    assert sent.headers["authorization"] == "Bearer t1"


async def test_requests_share_a_connection_and_a_query_stays_in_the_path(tmp_path: Path) -> None:
    server = Scripted(response(200), response(201), response(200))
    async with connected(tmp_path, server) as api:
        await api.send("GET", "/apis/a/v1?timeout=3s&x=a")
        await api.send("POST", "/apis/a/v1/b", b"{}")
        await api.send("DELETE", "/apis/a/v1/b/c")
    assert server.connections == 1
    assert [sent.line.split(" ")[0] for sent in server.sent] == ["GET", "POST", "DELETE"]
    assert server.sent[0].line == "GET /apis/a/v1?timeout=3s&x=a HTTP/1.1"
    assert "content-type" not in server.sent[0].headers


@pytest.mark.parametrize("status", [307, 403, 404, 409, 422, 500, 503])
async def test_an_error_comes_back_once_with_its_status_and_its_body(
    tmp_path: Path, status: int
) -> None:
    server = Scripted(response(status, {"message": "why"}, "Location: http://127.0.0.1:1/"))
    async with connected(tmp_path, server) as api:
        got = await api.send("PATCH", PATH, b"{}")
    assert (got.status, json.loads(got.body)) == (status, {"message": "why"})
    assert got.message() == "why"
    assert len(server.sent) == 1


async def test_a_refused_token_is_read_again_and_the_request_sent_again(tmp_path: Path) -> None:
    server = Scripted(response(401), response(200))
    async with connected(tmp_path, server) as api:
        fake = FakeApiServer()
        fake.port = int(api.host.rpartition(":")[2])
        server.on_request = lambda: fake.kubeconfig(tmp_path, token="t2")
        assert (await api.send("PATCH", PATH, b"{}")).status == 200
    assert [sent.headers["authorization"] for sent in server.sent] == ["Bearer t1", "Bearer t2"]


async def test_a_token_that_stays_refused_is_sent_twice_only(tmp_path: Path) -> None:
    server = Scripted(response(401), response(401), response(200))
    async with connected(tmp_path, server) as api:
        assert (await api.send("PATCH", PATH, b"{}")).status == 401
    assert len(server.sent) == 2


async def test_a_busy_server_gets_the_request_again_when_it_asks_for_it(tmp_path: Path) -> None:
    busy = response(429, None, "Retry-After: 1")
    server = Scripted(busy, busy, response(200))
    times = []
    async with connected(tmp_path, server, Timings(request=2.5)) as api:
        server.on_request = lambda: times.append(asyncio.get_running_loop().time())
        assert (await api.send("PATCH", PATH, b"{}")).status == 200
    assert times[1] - times[0] >= 1
    assert times[2] - times[1] >= 1


async def test_a_busy_server_that_asks_for_more_time_than_there_is_ends_the_request(
    tmp_path: Path,
) -> None:
    server = Scripted(response(429, {"message": "busy"}, "Retry-After: 30"), response(200))
    async with connected(tmp_path, server) as api:
        assert (await api.send("PATCH", PATH, b"{}")).status == 429
    assert len(server.sent) == 1


@pytest.mark.parametrize("method", ["PATCH", "POST"])
async def test_a_broken_connection_does_not_send_a_change_twice(
    tmp_path: Path, method: str
) -> None:
    server = Scripted(response(200), None, response(200))
    async with connected(tmp_path, server) as api:
        await api.send("GET", PATH)
        assert (await api.send(method, PATH, b"{}")).status == 0
    assert len(server.sent) == 2


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_reused_connection_that_broke_does_not_fail_an_idempotent_request(
    tmp_path: Path, method: str
) -> None:
    server = Scripted(response(200), None, response(200))
    async with connected(tmp_path, server) as api:
        await api.send("GET", PATH)
        assert (await api.send(method, PATH)).status == 200
    assert server.connections == 2


async def test_a_silent_server_is_an_error_that_names_the_request(tmp_path: Path) -> None:
    server = Scripted(b"")
    async with connected(tmp_path, server, Timings(request=0.2)) as api:
        found = await api.send("PATCH", PATH, b"{}")
    assert found.problem == f"no response to PATCH {PATH} within 0.2 s"


async def test_a_response_that_ends_early_is_an_error(tmp_path: Path) -> None:
    server = Scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{}")
    async with connected(tmp_path, server, Timings(request=0.2)) as api:
        found = await api.send("PATCH", PATH, b"{}")
    assert (found.status, found.meaning) == (0, Meaning.UNAVAILABLE)
    assert found.problem


async def test_a_server_that_is_away_is_an_error(tmp_path: Path) -> None:
    fake = FakeApiServer()
    fake.port = 1
    away = ApiServer(fake.kubeconfig(tmp_path), Timings(), {})
    found = await away.send("GET", "/version")
    assert (found.status, found.meaning) == (0, Meaning.UNAVAILABLE)
    assert found.problem
    await away.close()


async def test_an_unusable_configuration_is_no_response(tmp_path: Path) -> None:
    found = await ApiServer(str(tmp_path / "none"), Timings(), {}).send("GET", "/version")
    assert found.status == 0
    assert "which does not exist" in found.problem


@in_one_test(
    ("status", "meaning"),
    [
        (200, Meaning.DONE),
        (201, Meaning.DONE),
        (409, Meaning.CONFLICT),
        (403, Meaning.FORBIDDEN),
        (404, Meaning.ABSENT),
        (0, Meaning.UNAVAILABLE),
        (401, Meaning.UNAVAILABLE),
        (429, Meaning.UNAVAILABLE),
        (500, Meaning.UNAVAILABLE),
        (503, Meaning.UNAVAILABLE),
        (400, Meaning.REFUSED),
        (422, Meaning.REFUSED),
    ],
)
def test_what_a_response_means_for_the_object(status: int, meaning: Meaning) -> None:
    assert ApiResponse(status, b"").meaning is meaning


async def test_requests_name_the_program_which_managed_fields_show(tmp_path: Path) -> None:
    """kube-apiserver takes the part before the slash as the field manager of a write."""
    server = Scripted(response(200))
    async with connected(tmp_path, server) as api:
        await api.send("GET", PATH)
    assert server.sent[0].headers["user-agent"] == f"activator/{__version__}"
