"""Request heads that arrive in pieces, or never."""

from __future__ import annotations

from collections import deque

import pytest

from activator.proxy.client.heads_in_progress import HeadBudget, HeadInProgress
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import RequestLimits
from tests.rows import naming

HEAD = b"GET /a?b HTTP/1.1\r\nHost: x\r\nX-Long: y\r\n\r\n"
LIMITS = RequestLimits(max_head=1000, max_target=100)


def head_in_progress() -> HeadInProgress:
    return HeadInProgress(LIMITS, HeadBudget(1 << 20), 0.0)


@pytest.mark.parametrize("before", [b"", b"\r\n"])
def test_a_head_is_handed_over_when_it_is_whole(before):
    wire = before + HEAD
    for size in range(1, len(HEAD) + 1):
        head = head_in_progress()
        pieces = [wire[at : at + size] for at in range(0, len(wire), size)]
        with naming(size):
            assert [head.feed(piece) for piece in pieces] == [b""] * (len(pieces) - 1) + [wire]


def test_what_stands_behind_a_head_comes_with_it():
    head = head_in_progress()
    assert head.feed(HEAD[:20]) == b""
    assert head.feed(HEAD[20:] + b"body") == HEAD + b"body"


@pytest.mark.parametrize(
    ("beginning", "status", "reason"),
    [
        (b"\x16\x03\x01", 400, "this is not HTTP"),
        (b"GET\t/ ", 400, "this is not HTTP"),
        (b"G" * 65, 400, "this is not HTTP"),
        (b"GET / HTTP/1.1\r\nHost: x\n", 400, "a bare LF"),
        (b"GET / HTTP/1.1\rH", 400, "a bare CR"),
        (b"GET / HTTP/1.1\r\nHost: x\r\r", 400, "a bare CR"),
        (b"GET / HTTP/1.1\r\nX: a\rb", 400, "a bare CR"),
        (b"\rGET", 400, "a bare CR"),
        (b"GET /" + b"a" * 200, 414, "the request target is too long"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 1000, 431, "the request head is too large"),
    ],
)
def test_what_cannot_become_a_head_is_refused_at_once(beginning, status, reason):
    for pieces in ([beginning], [bytes((byte,)) for byte in beginning]):
        head = head_in_progress()
        with pytest.raises(FramingError, match=reason) as raised:
            deque(map(head.feed, pieces), maxlen=0)
        assert raised.value.status == status


def test_a_head_beyond_the_limit_is_refused_though_it_is_whole():
    with pytest.raises(FramingError, match="too large"):
        head_in_progress().feed(b"GET / HTTP/1.1\r\nX: " + b"a" * 1000 + b"\r\n\r\n")
