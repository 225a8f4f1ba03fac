"""A connection to a pod in HTTP/1, and the reader of its responses."""

from __future__ import annotations

import time
from typing import Any

import pytest

from activator.proxy.message.grammar import FramingError
from activator.proxy.pods.http1 import MAX_HEAD, MAX_INTERIM, ResponseReader, lost_error
from activator.proxy.pods.probes import ProbePools
from tests.activator.proxy.world import PodConnection, answer_whole, ok, request, turns, until
from tests.conftest import both_loops

DATE = b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
ANSWERS = {
    "length": ok(b"hello world", DATE),
    "undated": ok(b"hello world"),
    "keep-alive": ok(b"hello world", DATE + b"Connection: keep-alive\r\n"),
    "close": ok(b"hello world", DATE + b"Connection: close\r\n"),
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n",
    "trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"b\r\nhello world\r\n0\r\nX-Sum: 1\r\n\r\n",
    "1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
    "interim": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 X\r\n\r\n"
    + ok(b"hello world"),
}


@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_response_is_the_same_wherever_it_is_cut(world, name, version):
    pod = await world.serving()
    whole = ANSWERS[name]
    for cut in range(0, len(whole) + 1, 3):

        def write(connection: PodConnection, cut: int = cut) -> None:
            connection.write(whole[:cut])
            world.loop.call_later(0.0001, connection.write, whole[cut:])

        pod.on_data = write
        client = await world.client()
        client.send(request().replace(b"HTTP/1.1", version))
        if version == b"HTTP/1.0":
            await client.ended()
        answer = await client.answer()
        assert answer.body == b"hello world", cut
        client.abort()


@both_loops
async def test_connections_are_kept_after_responses_that_allow_it(world):
    pod = await world.serving()
    for name in ("length", "keep-alive", "chunked", "trailers", "interim"):
        pod.answer = ANSWERS[name]
        await world.ask()
    assert len(pod.connections) == 1
    for name in ("close", "1.0"):
        pod.answer = ANSWERS[name]
        await world.ask()
        await until(lambda: not pod.open)


async def test_interim_responses_are_bounded_by_number(world):
    pod = await world.serving()
    pod.answer = b"HTTP/1.1 103 Early Hints\r\n\r\n" * MAX_INTERIM + ok()
    assert len((await world.ask()).interim) == MAX_INTERIM
    pod.answer = b"HTTP/1.1 103 Early Hints\r\n\r\n" * (MAX_INTERIM + 1) + ok()
    assert (await world.ask()).status == 502


async def test_a_head_that_comes_in_small_pieces_costs_no_more_than_its_length(world):
    """The proxy must not scan a head again for each new byte."""
    pod = await world.serving()
    upstream = await _upstream(world)
    owner = _Owner()
    upstream.send(owner, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    _feed(upstream, b"HTTP/1.1 200 OK\r\nX: ")
    spent = [_cpu_of_pieces(upstream, 10_000) for _ in range(6)]
    assert not owner.lost
    for _ in range(60_000):
        if owner.lost:
            break
        _feed(upstream, b"aaaaaaaaaa")
    assert owner.lost == [("malformed response: the head is too large", True)]
    # In proportion to the square it is 9 times as much.
    assert min(spent[-2:]) < 5 * spent[0]
    assert MAX_HEAD == 1 << 20
    assert pod


def _cpu_of_pieces(upstream, count: int) -> float:
    """Feed that many pieces; return the seconds of CPU for them."""
    started = time.process_time()
    for _ in range(count):
        _feed(upstream, b"aaaaaaaaaa")
    return time.process_time() - started


def _feed(upstream, data):
    """Have the loop read that much."""
    upstream.side.get_buffer(-1)[: len(data)] = data
    upstream.side.buffer_updated(len(data))


async def _upstream(world):
    (tracker,) = world.revision().backends.pods.values()
    dialer: Any = _Dialer()
    ProbePools(world.pools).of(tracker).dial(dialer, 5.0)
    await until(lambda: dialer.upstream)
    return dialer.upstream


class _Dialer:
    upstream = None
    wants_connection = True

    def on_dialed(self, upstream) -> None:
        self.upstream = upstream

    def on_dial_failed(self, error: str, cause: str) -> None:
        raise AssertionError(error)


class _Owner:
    to_head = False

    def __init__(self) -> None:
        self.lost: list[tuple[str, bool]] = []

    def on_lost(self, error: str, answered: bool) -> None:
        self.lost.append((error, answered))

    def on_response(self, status, payload, complete) -> None:
        self.complete = complete


@both_loops
async def test_a_connection_with_a_response_before_its_request_is_not_reused(world):
    """Bytes of the request are still in the proxy's buffer: no other request may use the
    connection.
    """
    pod = await world.pod(receive_buffer=4096)
    pod.on_connect = lambda connection: connection.transport.pause_reading()
    world.revise(pod)
    await until(lambda: world.revision().statistics().healthy == 1)
    client = await world.client()
    client.send(request(b"/", b"POST", body=b"b" * (12 << 20)))
    await until(lambda: pod.connections)
    await turns(100)
    pod.connections[0].write(ok(b"no"))
    assert (await client.answer()).body == b"no"
    client.abort()
    await world.idle()
    assert world.pools.resources.idle == 0
    pod.connections[0].transport.abort()
    pod.on_connect = lambda connection: None
    pod.on_data = answer_whole
    assert (await world.ask()).status == 200


@both_loops
async def test_a_connection_with_bytes_of_its_request_unsent_is_not_kept(world):
    """Also where the proxy has read the whole request from the client, and must send it."""
    await world.serving()
    for paused in (False, True):
        upstream = await _upstream(world)
        owner = _Owner()
        upstream.send(owner, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        if paused:
            upstream.side.pause_writing()
        _feed(upstream, ok())
        assert owner.complete
        assert world.pools.resources.idle == (0 if paused else 1)
        upstream.side.transport.abort()
        await until(lambda: world.pools.resources.connections == 0)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, "the pod closed the connection"),
        (ConnectionResetError(), "the pod closed the connection"),  # as asyncio has it over TLS
        (ConnectionResetError(104, "Connection reset by peer"), "connection reset by peer"),
        (RuntimeError("Broken"), "broken"),
    ],
)
def test_why_a_connection_is_lost_is_said_in_words(error, words):
    assert lost_error(error) == words


OK = b"HTTP/1.1 200 OK\r\n"
RESPONSES = {
    "length": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", b""),
    "chunked": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        b"hello",
    ),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", b"hello"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
}


def read(pieces: list[bytes]) -> tuple[bytes, ResponseReader]:
    """Read a response in pieces; return its body, and the reader after it."""
    reader, payload = ResponseReader(), []  # type: ResponseReader, list[bytes]
    head = None
    for piece in pieces:
        if head is None:
            head = reader.read_more_head(piece, payload)
        else:
            reader.read_body(piece, payload)
    assert head is not None
    return b"".join(payload), reader


@pytest.mark.parametrize("name", RESPONSES)
def test_a_response_is_the_same_whole_and_byte_by_byte(name: str) -> None:
    data, body = RESPONSES[name]
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        found, reader = read(pieces)
        assert (found, reader.ended, reader.keeps) == (body, True, True)


@pytest.mark.parametrize("name", RESPONSES)
def test_bytes_behind_a_response_end_its_connection(name: str) -> None:
    data, body = RESPONSES[name]
    found, reader = read([data + b"HTTP/1.1 200 OK\r\n"])
    assert (found, reader.ended, reader.keeps, reader.raw) == (body, True, False, None)


def test_what_came_in_one_piece_is_there_as_it_came() -> None:
    data, _ = RESPONSES["length"]
    assert read([data])[1].raw == data
    assert read([RESPONSES["bare LF"][0]])[1].raw is None


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    found, reader = read([OK + b"\r\nhel", b"lo"])
    assert (found, reader.ended) == (b"hello", False)
    assert reader.ends_by_close()


def test_the_reader_bounds_interim_responses_by_number() -> None:
    reader = ResponseReader()
    for _ in range(MAX_INTERIM):
        reader.read_more_head(b"HTTP/1.1 103 Early Hints\r\n\r\n", [])
    with pytest.raises(FramingError, match="too many"):
        reader.read_more_head(b"HTTP/1.1 103 Early Hints\r\n\r\n", [])


def test_what_comes_behind_a_101_is_kept() -> None:
    reader = ResponseReader()
    head = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n"
    response = reader.read_head(head + b"early", [])
    assert response is not None
    assert response.status == 101
    assert reader.take_early() == b"early"


def test_a_head_without_an_end_is_bounded() -> None:
    reader = ResponseReader()
    assert reader.read_head(OK, []) is None
    with pytest.raises(FramingError, match="too large"):
        reader.read_more_head(b"X: " + b"x" * MAX_HEAD, [])


SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


@pytest.mark.parametrize("size", [1, 3, 9])
def test_http2_is_recognised_however_it_is_cut(size: int) -> None:
    reader = ResponseReader()
    pieces = [SETTINGS[at : at + size] for at in range(0, len(SETTINGS), size)]
    for piece in pieces[:-1]:
        assert reader.read_more_head(piece, []) is None
    with pytest.raises(FramingError):
        reader.read_more_head(pieces[-1], [])
    assert reader.is_http2(pieces[-1])


def test_http2_behind_an_interim_response_is_malformed() -> None:
    reader = ResponseReader()
    reader.read_head(b"HTTP/1.1 103 Early Hints\r\n\r\n", [])
    with pytest.raises(FramingError):
        reader.read_more_head(SETTINGS, [])
    assert not reader.is_http2(SETTINGS)
