"""The library h2 on both ends; the network cuts its bytes at any place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from activator.proxy.http2.connection import Http2Connection
from tests.activator.proxy.http2.peers import Message, Peer
from tests.activator.proxy.world import until
from tests.conftest import both_loops

Cut = Callable[[bytes], list[bytes]]


def whole(data: bytes) -> list[bytes]:
    return [data]


def by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def at_random(seed: int) -> Cut:
    random = Random(seed)

    def cut(data: bytes) -> list[bytes]:
        places = sorted({0, len(data), *(random.randrange(len(data) + 1) for _ in range(9))})
        return [data[a:b] for a, b in pairwise(places)]

    return cut


CUTS = [pytest.param(whole, id="whole"), pytest.param(by_byte, id="byte by byte")] + [
    pytest.param(at_random(seed), id=f"random {seed}") for seed in range(3)
]
#: More than a frame of header fields, so that CONTINUATION is needed.
LARGE = [(b"x-large-%d" % number, bytes([97 + number]) * 6000) for number in range(6)]


@pytest.fixture(params=CUTS)
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Http2Connection.data_received

    def in_pieces(connection: Http2Connection, data: bytes) -> None:
        for piece in request.param(data):
            receive(connection, piece)

    monkeypatch.setattr(Http2Connection, "data_received", in_pieces)


@both_loops
@pytest.mark.usefixtures("cut")
async def test_messages_are_the_same_however_they_are_cut(http2):
    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            peer.headers(stream, [(b":status", b"103"), (b"link", b"</a>")])
            peer.headers(stream, [(b":status", b"200"), *LARGE])
            peer.data(stream, message.body[::-1])
            peer.headers(stream, [(b"x-sum", b"%d" % len(message.body))], end=True)

    pod = await http2.serving()
    pod.on_message = answer
    client = await http2.client()
    bodies = {}
    for number in range(8):
        stream = client.ask(b"/%d" % number, b"POST", *LARGE, end=False)
        bodies[stream] = bytes([number]) * (500 * number) + b"end"
        client.data(stream, bodies[stream])
        client.headers(stream, [(b"x-client", b"%d" % number)], end=True)
    for stream, body in bodies.items():
        answered = await client.answer(stream)
        assert [dict(each)[b"link"] for each in answered.interim] == [b"</a>"]
        assert (answered.status, answered.body) == (200, body[::-1])
        assert set(LARGE) <= set(answered.headers)
        assert answered.trailers == [(b"x-sum", b"%d" % len(body))]
    seen = {message.all(b":path")[0]: message for message in pod.requests}
    for number, body in enumerate(bodies.values()):
        message = seen[b"/%d" % number]
        assert set(LARGE) <= set(message.headers)
        assert (message.body, message.trailers) == (body, [(b"x-client", b"%d" % number)])


@pytest.mark.usefixtures("cut")
async def test_resets_and_windows_are_the_same_however_they_are_cut(http2):
    pod = await http2.serving()
    pod.on_message = lambda *_: None
    client = await http2.client(window=100)
    left = client.ask(b"/left")
    kept = client.ask(b"/kept")
    await until(lambda: len(pod.requests) == 2)
    client.h2.reset_stream(left)
    client.flush()
    await until(lambda: [m.all(b":path") for m in pod.requests if m.reset] == [[b"/left"]])
    (peer,) = pod.connections
    (stream,) = (s for s, m in peer.messages.items() if m.all(b":path") == [b"/kept"])
    peer.headers(stream, [(b":status", b"200")])
    peer.data(stream, b"0123456789" * 1000, end=True)
    assert (await client.answer(kept)).body == b"0123456789" * 1000
