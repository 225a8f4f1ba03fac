"""The server against each case of conformance.py, whole and byte by byte."""

from __future__ import annotations

import pytest

from activator.proxy.http2 import frames
from tests.activator.proxy.http2.conformance import CASES, Case, Frame, Seen
from tests.activator.proxy.http2.peers import Http2World, answer_hello
from tests.activator.proxy.world import Client, own_world, turns, until


def seen_by(client: Client) -> Seen:
    """What a client has seen so far."""
    received, found, at = bytes(client.received), [], 0
    if received.startswith(b"HTTP/"):
        return Seen([], received, client.eof)
    while at + frames.HEAD_BYTES <= len(received):
        word, flags, stream = frames.HEAD.unpack_from(received, at)
        end = at + frames.HEAD_BYTES + (word >> 8)
        if end > len(received):
            break
        found.append(Frame(word & 0xFF, flags, stream, received[at + frames.HEAD_BYTES : end]))
        at = end
    return Seen(found, b"", client.eof)


def name_of(case: Case) -> str:
    return f"{case.section}: {case.what}"


async def plays(client: Client, case: Case, size: int) -> None:
    """Send what a case sends, in pieces; wait until its client has seen what it may expect."""
    if case.preface:
        await client.drip(frames.PREFACE + frames.settings(b""), size)
    for step in (*case.sends, case.sees):
        if isinstance(step, bytes):
            await client.drip(step, size)
        else:
            await until(lambda sees=step: sees(seen_by(client)), name_of(case))


def test_the_cases_are_named_once():
    names = [name_of(case) for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("section", dict.fromkeys(case.section for case in CASES))
async def test_the_server_does_what_a_strict_client_expects(anyio_backend, section):
    for case in (case for case in CASES if case.section == section):
        async with own_world(name_of(case)) as world:
            http2 = Http2World(world)
            try:
                await serves(http2, case)
            finally:
                http2.close()


async def serves(http2: Http2World, case: Case) -> None:
    pod = await http2.serving(container_concurrency=0)
    pod.on_message = (lambda *_: None) if case.silent else answer_hello
    longest = max((len(step) for step in case.sends if isinstance(step, bytes)), default=0)
    for size in (1 << 20, 1 if longest < 2000 else 997):
        client = await http2.world.client()
        await plays(client, case, size)
        client.abort()
        await turns()
    assert (await http2.world.ask(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")).status == 404
