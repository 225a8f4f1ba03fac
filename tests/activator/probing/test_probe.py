"""One probe of one pod, by HTTP, TCP or gRPC's health service."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
import trustme
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from activator.knative.words import QUEUE_PROXY
from activator.probing.probe import MAX_BODY, Probe, check, problem_of
from activator.process.timers import Tasks
from activator.proxy.pods.pool import ConnectionPools, PoolLimits
from activator.proxy.pods.probes import ProbePools
from tests.activator.probing.world import until
from tests.conftest import both_loops
from tests.rows import in_one_test
from throttler.model import Endpoint, ProbeKind, ProbeSpec, Revision, RevisionID
from throttler.pod import PodTracker
from throttler.throttler import Limits, Throttler

TIMEOUT = 0.5

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]


class Verdict(NamedTuple):
    kind: str
    text: str


class Server:
    """A pod made of one function per request, on a loopback port."""

    def __init__(self, pools: ConnectionPools, response: bytes | None) -> None:
        self.pools = pools
        self.response = response
        self.heads: list[bytes] = []
        self.connections: list[asyncio.StreamWriter] = []
        self.then_close = False
        self.pod: PodTracker

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                if self.response is not None:
                    writer.write(self.response)
                if self.then_close:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def probe(self) -> Verdict:
        """Probe once, and return the verdict."""
        done = asyncio.get_running_loop().create_future()

        def on_done(probe: Probe, kind: str, text: str) -> None:
            done.set_result(Verdict(kind, text))

        Probe(self.pod, ProbePools(self.pools).of(self.pod), TIMEOUT, on_done).start()
        return await done


@asynccontextmanager
async def serving(response: bytes | None, probe: ProbeSpec = QUEUE_PROXY) -> AsyncIterator[Server]:
    loop = asyncio.get_running_loop()
    tasks = Tasks()
    server = Server(ConnectionPools(PoolLimits(), tasks.start, loop.time), response)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    server.pod = tracker(f"{host}:{port}", probe)
    try:
        yield server
    finally:
        listener.close()
        server.pools.close()
        for writer in server.connections:
            writer.transport.abort()
        await tasks.close()


def tracker(
    address: str, probe: ProbeSpec, *, plain: bool = False, tls: bool = False
) -> PodTracker:
    throttler = Throttler(Limits(), lambda: 0.0)
    revision = Revision(
        RevisionID("default", "app"), probe=probe, behind_queue_proxy=not plain, tls=tls
    )
    throttler.set_revision(revision, 0.0)
    return PodTracker(throttler.find(*revision.id).config, Endpoint(address), True, 0.0)


def ok(body: bytes, head: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return b"%b\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


@both_loops
async def test_question_is_the_one_that_queue_proxy_knows() -> None:
    async with serving(ok(b"queue")) as server:
        assert await server.probe() == ("", "")
        first, *fields = server.heads[0].decode().rstrip().split("\r\n")
        assert first == "GET /healthz HTTP/1.1"
        assert set(fields) == {
            f"Host: {server.pod.address}",
            "User-Agent: Knative-Activator-Probe",
            "K-Network-Probe: queue",
        }


@both_loops
async def test_with_passthrough_the_question_names_the_private_service() -> None:
    async with serving(ok(b"queue")) as server:
        server.pools.set_passthrough(True)
        assert await server.probe() == ("", "")
        _, *fields = server.heads[0].decode().rstrip().split("\r\n")
        assert {"Host: app-private.default", "K-Passthrough-Lb: true"} <= set(fields)
        assert len(fields) == 4


@both_loops
@pytest.mark.parametrize(
    "response",
    [
        ok(b"queue"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nqu\r\n3\r\neue\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + ok(b"queue"),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + ok(b"queue"),
    ],
    ids=["length", "chunked", "early hints", "continue"],
)
async def test_good_response_passes_in_every_framing(response: bytes) -> None:
    async with serving(response) as server:
        assert await server.probe() == ("", "")
        assert await server.probe() == ("", "")
        assert len(server.connections) == 1


PAGE = ProbeSpec(kind=ProbeKind.HTTP, path=b"/ready?x=1", fields=b"X-Probe: yes\r\n")


@both_loops
async def test_a_page_is_asked_for_with_its_own_path_and_fields() -> None:
    async with serving(ok(b""), PAGE) as server:
        assert await server.probe() == ("", "")
        first, *fields = server.heads[0].decode().rstrip().split("\r\n")
        assert first == "GET /ready?x=1 HTTP/1.1"
        assert set(fields) == {f"Host: {server.pod.address}", "X-Probe: yes"}


@pytest.mark.untraced
@both_loops
@pytest.mark.parametrize(
    ("head", "verdict"),
    [
        (b"HTTP/1.1 200 OK", ("", "")),
        (b"HTTP/1.1 302 Found", ("", "")),
        (b"HTTP/1.1 399 Odd", ("", "")),
        (b"HTTP/1.1 400 Bad Request", ("bad-status", "status 400")),
        (b"HTTP/1.1 503 Unavailable", ("bad-status", "status 503")),
    ],
)
@pytest.mark.parametrize("size", [0, 70_000], ids=["empty", "long"])
async def test_a_page_passes_by_its_status_whatever_its_body(
    head: bytes, verdict: tuple[str, str], size: int
) -> None:
    async with serving(ok(b"x" * size, head), PAGE) as server:
        assert await server.probe() == verdict


@both_loops
async def test_a_tcp_probe_passes_once_the_pod_accepts_and_keeps_the_connection() -> None:
    async with serving(None, ProbeSpec()) as server:
        assert await server.probe() == ("", "")
        assert await server.probe() == ("", "")  # by a further connection
        assert server.heads == []
        assert server.pools.resources.idle == 2


@both_loops
async def test_a_tcp_probe_of_a_closed_port_fails() -> None:
    async with serving(None, ProbeSpec()) as server:
        pass
    async with serving(None) as other:
        server.pools = other.pools
        assert await server.probe() == ("connect-failed", "connection refused")


@both_loops
async def test_good_response_that_ends_with_the_connection_passes() -> None:
    async with serving(b"HTTP/1.0 200 OK\r\n\r\nqueue") as server:
        server.then_close = True
        assert await server.probe() == ("", "")


BAD = {
    "503": (ok(b"not ready", b"HTTP/1.1 503 Unavailable"), ("bad-status", "status 503")),
    "404": (ok(b"", b"HTTP/1.1 404 Not Found"), ("bad-status", "status 404")),
    "redirect": (ok(b"queue", b"HTTP/1.1 302 Found"), ("bad-status", "status 302")),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", ("bad-status", "status 204")),
    "accepted": (ok(b"queue", b"HTTP/1.1 202 Accepted"), ("bad-status", "status 202")),
    "other body": (ok(b"hello"), ("bad-answer", "body b'hello' instead of b'queue'")),
    "empty body": (ok(b""), ("bad-answer", "body b'' instead of b'queue'")),
    "line end": (ok(b"queue\n"), ("bad-answer", r"body b'queue\n' instead of b'queue'")),
    "long body": (
        ok(b"x" * MAX_BODY),
        ("bad-answer", f"body b'{'x' * 20}' instead of b'queue'"),
    ),
    "longer body": (ok(b"x" * 5000), ("bad-answer", "more than 1024 bytes of body")),
    "endless body": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n" + b"x" * 70_000,
        ("bad-answer", "more than 1024 bytes of body"),
    ),
    "endless page": (
        b"HTTP/1.1 502 Bad\r\nContent-Length: 1073741824\r\n\r\n" + b"x" * 70_000,
        ("bad-status", "status 502"),
    ),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", ("connection-lost", "malformed response: ")),
    "two lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nqueue",
        ("connection-lost", "malformed response: "),
    ),
    "too many interim": (
        b"HTTP/1.1 102 P\r\n\r\n" * 20,
        ("connection-lost", "malformed response: "),
    ),
}


@both_loops
@pytest.mark.parametrize(("response", "verdict"), BAD.values(), ids=BAD)
async def test_bad_response_says_what_was_wrong(response: bytes, verdict: tuple[str, str]) -> None:
    async with serving(response) as server:
        kind, text = await server.probe()
        assert kind == verdict[0]
        assert text.startswith(verdict[1])


@both_loops
async def test_connection_that_is_closed_without_a_response_fails() -> None:
    async with serving(None) as server:
        server.then_close = True
        assert await server.probe() == ("connection-lost", "the pod closed the connection")


@both_loops
async def test_half_a_response_is_none() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nque") as server:
        server.then_close = True
        assert (await server.probe()).kind == "connection-lost"


@both_loops
async def test_refused_connection_says_so() -> None:
    async with serving(None) as server:
        pass  # the port is closed now
    async with serving(None) as other:
        server.pools = other.pools
        assert await server.probe() == ("connect-failed", "connection refused")


async def test_pod_that_takes_the_question_and_is_silent_times_out_after_its_time() -> None:
    async with serving(None) as server:
        assert await server.probe() == ("timeout", "no response in 0.5 s")
        assert asyncio.get_running_loop().time() == TIMEOUT
        # A late response on that connection counts for no probe: the next one has its own.
        server.response = ok(b"queue")
        assert await server.probe() == ("", "")
        assert len(server.connections) == 2


async def test_body_that_drips_times_out() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nque") as server:
        assert (await server.probe()).kind == "timeout"


async def test_switch_of_protocols_is_no_response() -> None:
    response = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    async with serving(response) as server:
        assert (await server.probe()).kind == "timeout"


@both_loops
async def test_idle_connection_that_the_pod_closed_says_nothing_against_the_pod() -> None:
    async with serving(ok(b"queue")) as server:
        assert await server.probe() == ("", "")
        server.then_close = True
        server.connections[0].transport.abort()  # a reset that crosses the next probe
        assert await server.probe() == ("", "")
        assert len(server.connections) == 2


@both_loops
async def test_connection_that_breaks_a_second_time_fails() -> None:
    async with serving(ok(b"queue")) as server:
        assert await server.probe() == ("", "")
        server.response, server.then_close = None, True
        assert (await server.probe()).kind == "connection-lost"
        assert len(server.connections) == 2


async def test_cancelled_probe_reports_nothing_and_closes_its_connection() -> None:
    async with serving(None) as server:
        verdicts: list[str] = []
        probe = Probe(
            server.pod,
            ProbePools(server.pools).of(server.pod),
            TIMEOUT,
            lambda _, kind, text: verdicts.append(kind),
        )
        probe.start()
        await until(0.1)
        assert len(server.heads) == 1
        probe.cancel()
        await until(5.0)
        assert verdicts == []
        assert server.connections[0].transport.is_closing()
        assert server.pools.resources.connections == 0


async def test_connection_that_opens_after_the_probe_was_cancelled_is_kept_for_a_request() -> None:
    async with serving(ok(b"queue")) as server:
        verdicts: list[str] = []
        probe = Probe(
            server.pod,
            ProbePools(server.pools).of(server.pod),
            TIMEOUT,
            lambda _, kind, text: verdicts.append(kind),
        )
        probe.start()
        probe.cancel()
        await until(0.1)
        assert verdicts == []
        assert server.heads == []
        assert server.pools.resources.idle == 1


@both_loops
async def test_probed_connection_is_kept_for_the_first_request() -> None:
    async with serving(ok(b"queue")) as server:
        await server.probe()
        upstream = server.pools.of(server.pod).take()
        assert upstream is not None
        assert upstream.alive()
        assert len(server.connections) == 1


@both_loops
async def test_the_host_of_a_page_replaces_the_address() -> None:
    spec = ProbeSpec(ProbeKind.HTTP, path=b"/ready", host=b"shop.example.com")
    async with serving(ok(b""), spec) as server:
        assert await server.probe() == ("", "")
        assert server.heads == [b"GET /ready HTTP/1.1\r\nHost: shop.example.com\r\n\r\n"]


@both_loops
async def test_a_page_over_tls_needs_no_valid_certificate_and_requests_stay_plain() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("elsewhere.example").configure_cert(context)
    spec = ProbeSpec(ProbeKind.HTTP, path=b"/ready", tls=True)
    async with serving(ok(b""), spec) as server:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context)
        host, port = listener.sockets[0].getsockname()
        server.pod = tracker(f"{host}:{port}", spec, plain=True, tls=True)
        assert await server.probe() == ("", "")
        assert server.heads[0].startswith(b"GET /ready ")
        listener.close()


def _messages() -> tuple[Any, Any]:
    """Return the request and the response of health.proto, made from their fields alone."""
    file = descriptor_pb2.FileDescriptorProto(name="health.proto", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    for message, name, kind in (
        ("HealthCheckRequest", "service", field.TYPE_STRING),
        ("HealthCheckResponse", "status", field.TYPE_INT32),
    ):
        file.message_type.add(name=message).field.add(
            name=name, number=1, type=kind, label=field.LABEL_OPTIONAL
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(each.name) for each in file.message_type)
    request, response = map(message_factory.GetMessageClass, found)
    return request, response


HealthCheckRequest, HealthCheckResponse = _messages()


def framed(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


@pytest.mark.parametrize("name", ["", "a", "shop.v1.Cart", "x" * 127, "x" * 128, "x" * 20_000])
def test_a_call_is_what_protobuf_writes(name: str) -> None:
    message = HealthCheckRequest(service=name).SerializeToString()
    assert check(name.encode()) == framed(message)


@pytest.mark.parametrize(
    ("status", "problem"),
    [(0, "UNKNOWN"), (1, ""), (2, "NOT_SERVING"), (3, "SERVICE_UNKNOWN"), (99, "99")],
)
def test_only_serving_passes(status: int, problem: str) -> None:
    message = HealthCheckResponse(status=status).SerializeToString()
    assert problem_of(framed(message)) == (problem and f"status {problem}")


#: Fields that this activator does not know: a number, a string, eight bytes and four.
UNKNOWN = b"\x10\xac\x02" + b"\x1a\x03abc" + b"\x21" + b"8" * 8 + b"\x2d" + b"4" * 4


@pytest.mark.parametrize("message", [UNKNOWN + b"\x08\x01", b"\x08\x01" + UNKNOWN])
def test_unknown_fields_are_skipped(message: bytes) -> None:
    assert problem_of(framed(message)) == ""


def test_the_last_status_counts() -> None:
    assert problem_of(framed(b"\x08\x01\x08\x02")) == "status NOT_SERVING"


@pytest.mark.parametrize("cut", range(7))
def test_a_cut_response_does_not_pass(cut: int) -> None:
    assert problem_of(framed(b"\x08\x01")[:cut]) == "no health response of gRPC"


@in_one_test(
    "payload",
    [
        framed(b"\x08\x01") + b"x",
        framed(b"\x08\x01") * 2,
        b"\1" + framed(b"\x08\x01")[1:],
        framed(b"\x08"),
        framed(b"\x08" + b"\xff" * 10 + b"\x01"),
        framed(b"\x0b"),
        framed(b"\x1a\x09abc"),
        framed(b"\x21" + b"8" * 7),
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
)
def test_anything_else_does_not_pass(payload: bytes) -> None:
    assert problem_of(payload) == "no health response of gRPC"
