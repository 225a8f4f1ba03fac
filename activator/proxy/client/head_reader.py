"""A request head that has not come to its end.

Collects it, looking at each byte once, and gives it up as soon as it cannot become a good one.
Knows no socket and no clock.
"""

from __future__ import annotations

import re

from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import RequestLimits

#: The beginning of anything that can become a request line.
_METHOD_BEGINS = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}(?: |\Z)|\r?\n?\Z")
#: Bytes of a request line besides its target: the longest method and the version.
_LINE_WITHOUT_TARGET = 80


class PartialHead:
    """What has come of one head.

    Attributes:
        since: when its first byte came, seconds.
        size: bytes that have come; counted: how many of them count in unfinished.UnfinishedHeads.
    """

    __slots__ = ("_bytes", "_limits", "counted", "since")

    def __init__(self, limits: RequestLimits, since: float) -> None:
        self._bytes = bytearray()
        self._limits = limits
        self.counted = 0
        self.since = since

    @property
    def size(self) -> int:
        """See above."""
        return len(self._bytes)

    def feed(self, data: bytes) -> bytes:
        """Add what came.

        Returns:
            All that has come, once that holds a whole head; else nothing.

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
