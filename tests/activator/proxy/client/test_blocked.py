"""Streams that have their response and do not end."""

from __future__ import annotations

from math import inf

from activator.proxy.client.connection import MAX_SECONDS
from activator.proxy.client.http2_ends import BlockedStreams
from activator.proxy.http2.connection import SendQueue, Stream
from activator.proxy.http2.frames import FlowControl
from activator.proxy.transport.peer_socket import PeerKind, UnreadBytes

NOW = 1000.0
PATIENCE = 10.0


def stream(left: int = 0, *, closed: bool = False) -> Stream:
    queue = SendQueue(
        FlowControl(),
        UnreadBytes(),
        lambda: None,
        lambda stream: None,
        lambda stream: (PeerKind.CLIENT, ""),
    )
    made = Stream(queue, 1, None)
    made.left = left
    made.closed = closed
    return made


def test_a_response_that_its_client_takes_is_never_late():
    blocked = BlockedStreams(PATIENCE)
    slow = stream(left=100)
    assert blocked.watch(slow, NOW) == blocked.next() == NOW + PATIENCE
    slow.left = 99
    assert blocked.late(NOW + PATIENCE) == []
    assert blocked.next() == NOW + 2 * PATIENCE
    assert blocked.late(NOW + 2 * PATIENCE) == [slow]


def test_a_request_that_does_not_end_behind_its_response_has_as_long_as_in_http1():
    blocked = BlockedStreams(PATIENCE)
    endless, slow = stream(closed=True), stream(left=1)
    assert blocked.watch(endless, NOW) == NOW + MAX_SECONDS
    blocked.watch(slow, NOW)
    assert blocked.next() == NOW + MAX_SECONDS
    assert blocked.late(NOW + MAX_SECONDS) == [endless]


def test_a_stream_that_is_over_is_watched_no_more():
    blocked = BlockedStreams(PATIENCE)
    slow = stream(left=1)
    blocked.watch(slow, NOW)
    blocked.remove(slow)
    blocked.remove(slow)
    assert (blocked.late(inf), blocked.next()) == ([], inf)
