"""A request head in progress: a part of it has arrived.

Collects the head, looks at each byte once, and fails as soon as no good head can come of it.
Knows no socket and no clock.
"""

from __future__ import annotations

import re
from typing import Final, final

from activator.proxy.client.head_budget import HeadBudget, HeadCharge
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import RequestLimits

#: The beginning of anything that can become a request line.
_METHOD_BEGINS: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}(?: |\Z)|\r?\n?\Z")
#: Bytes of a request line besides its target: the longest method and the version.
_LINE_WITHOUT_TARGET: Final = 80


@final
class HeadInProgress:
    """What has arrived of one head.

    Arguments:
        heads: counts the bytes of all such heads.

    Attributes:
        since: when its first byte arrived, seconds.
    """

    __slots__ = ("_bytes", "_limits", "_share", "since")

    def __init__(self, limits: RequestLimits, heads: HeadBudget, since: float) -> None:
        self._bytes = bytearray()
        self._limits = limits
        self._share = HeadCharge(heads)
        self.since = since

    def count(self) -> bool:
        """Count what has arrived; return whether there is room for it."""
        return self._share.grow(len(self._bytes))

    def end(self) -> None:
        """Count nothing any more: the head is complete, refused or of no use."""
        self._share.end()

    def feed(self, data: bytes) -> bytes:
        """Add bytes.

        Returns:
            All bytes so far, once they hold a whole head; else nothing.

        Raises:
            FramingError: no good head can begin like this.
        """
        head = self._bytes
        known = max(0, len(head) - 3)
        head += data
        end = head.find(b"\r\n\r\n", known)
        if 0 <= end <= self._limits.max_head:
            return bytes(head)
        self._check(known)
        return b""

    def _check(self, known: int) -> None:
        head, limits = self._bytes, self._limits
        if len(head) > limits.max_head:
            raise FramingError("the request head is too large", 431)
        beginning = _LINE_WITHOUT_TARGET
        if known < beginning and _METHOD_BEGINS.match(head.lstrip(b"\r\n")[:beginning]) is None:
            raise FramingError("this is not HTTP")
        # An expression that looks behind takes ten times as long: 1 ms for 64 KiB.
        before = max(0, known - 1)
        ends = head.count(b"\r\n", before)
        if head.count(b"\n", known) != ends:
            raise FramingError("a bare LF")
        if head.count(b"\r", before, len(head) - 1) != ends:  # the last may get its LF yet
            raise FramingError("a bare CR")
        longest = limits.max_target + _LINE_WITHOUT_TARGET
        if len(head) > longest and head.find(b"\r\n", 0, longest) < 0:
            raise FramingError("the request target is too long", 414)
