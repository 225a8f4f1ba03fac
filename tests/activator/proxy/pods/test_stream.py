"""One request on an HTTP/2 connection: its response, which the proxy checks completely."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from activator.proxy.http2 import frames
from activator.proxy.pods.http1 import MAX_INTERIM
from tests.activator.proxy.http2.peers import Headers, Message, Peer, answer_hello
from tests.conftest import both_loops

Script = Callable[[Peer, int, Message], None]


@pytest.mark.parametrize(
    "fields", [[(b":status", b"2")], [(b"a", b"b")], [(b":status", b"200"), (b"te", b"x\0")]]
)
async def test_a_malformed_response_costs_its_request_alone(http2, fields):
    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended:
            if message.all(b":path") == [b"/bad"]:
                peer.headers(stream, fields, end=True)
            else:
                answer_hello(peer, stream, message)

    pod = await http2.serving()
    pod.on_message = answer
    client = await http2.client()
    bad, good = client.ask(b"/bad"), client.ask(b"/good")
    assert (await client.answer(bad)).status == 502
    assert (await client.answer(good)).status == 200
    assert len(pod.connections) == 1


def after(fields: Headers, *, frame: bytes = b"", count: int = 0, end: bool = True) -> Script:
    """Respond with that many interim responses and a head; the test sends the rest."""

    def answer(peer: Peer, stream: int, message: Message) -> None:
        if message.ended and message.reset is None:
            for _ in range(count):
                peer.headers(stream, [(b":status", b"103"), (b"link", b"<a>")])
            peer.headers(stream, fields, end=end)
            if frame:
                size = len(frame)
                peer.transport.write(frames.data_head(stream, size, ended=True) + frame)

    return answer


async def test_sixteen_interim_responses_pass_and_more_are_a_502(http2):
    pod = await http2.serving()
    client = await http2.client()
    pod.on_message = after([(b":status", b"200")], count=MAX_INTERIM)
    answer = await client.answer(client.ask())
    assert (answer.status, len(answer.interim)) == (200, MAX_INTERIM)
    pod.on_message = after([(b":status", b"200")], count=MAX_INTERIM + 1)
    answer = await client.answer(client.ask())
    assert (answer.status, len(answer.interim)) == (502, MAX_INTERIM)
    assert len(pod.connections) == 1


@both_loops
async def test_interim_responses_are_not_piled_up_for_a_client_that_reads_nothing(http2):
    pod = await http2.serving()
    pod.on_message = after([(b":status", b"200")], count=MAX_INTERIM)
    client = await http2.client()
    assert (await client.answer(client.ask())).interim
    (downstream,) = http2.world.proxy.connections
    downstream.handler.link.pause_writing()
    answer = await client.answer(client.ask())
    assert (answer.status, answer.interim) == (200, [])


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [(b"HEAD", 200, [b"5"]), (b"GET", 204, []), (b"GET", 304, [b"5"])],
)
@pytest.mark.parametrize("said", [False, True])
async def test_what_follows_a_response_without_content_is_dropped(
    http2, method, status, length, said
):
    pod = await http2.serving()
    fields = [(b":status", b"%d" % status)] + [(b"content-length", b"5")] * said
    pod.on_message = after(fields, frame=b"stray", end=False)
    client = await http2.client()
    for _ in range(3):
        answer = await client.answer(client.ask(b"/", method))
        assert (answer.status, answer.body, answer.reset) == (status, b"", None)
        assert answer.all(b"content-length") == length * said
    assert len(pod.connections) == 1
    assert http2.world.in_flight == 0
