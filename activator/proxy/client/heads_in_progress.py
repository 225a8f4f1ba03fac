"""Collects request heads that arrive in pieces, and limits the bytes of all of them together.

Each head has limits of its own (``request.RequestLimits``), but nothing else limits how many heads
are in progress. A head that arrives in one piece is not counted, since it does not stay in memory.
Nearly all do. Pure. Knative has no counterpart.
"""

from __future__ import annotations

import re
from typing import Final, final

from activator.proxy.message.grammar import FramingError
from activator.proxy.message.request import RequestLimits
from throttler.request_policies import RESERVED

#: Bytes of a small head. The last part of the budget, of the size that the queue reserves, is only
#: for small heads. nginx and Apache limit one line to 8 KiB. At the default setting it takes
#: 1,024 clients to use up this reserve.
SMALL: Final = 8 << 10


@final
class HeadBudget:
    """The bytes of all in-progress heads.

    Attributes:
        bytes: the current number; only ``HeadCharge`` changes it.
        most: the limit.
    """

    __slots__ = ("bytes", "most")

    def __init__(self, most: int) -> None:
        self.bytes = 0
        self.most = most


@final
class HeadCharge:
    """The part of a HeadBudget that one connection uses."""

    __slots__ = ("_counted", "_heads")

    def __init__(self, heads: HeadBudget) -> None:
        self._heads = heads
        self._counted = 0

    def grow(self, size: int) -> bool:
        """Count a head of ``size`` bytes.

        Returns:
            Whether the budget has space. If not, nothing has changed. The caller then refuses the
            head, and calls ``release``.
        """
        heads, most = self._heads, self._heads.most
        room = most if size <= SMALL else most - most // RESERVED
        total = heads.bytes - self._counted + size
        if total > room and size > self._counted:
            return False
        heads.bytes, self._counted = total, size
        return True

    def release(self) -> None:
        """Release all bytes; do nothing the second time."""
        self._heads.bytes -= self._counted
        self._counted = 0


#: Any beginning of a request line.
_METHOD_BEGINS: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}(?: |\Z)|\r?\n?\Z")
#: Bytes of a request line without its target: the longest method and the version.
_LINE_WITHOUT_TARGET: Final = 80


@final
class HeadInProgress:
    """A request head of HTTP/1, as far as it has arrived.

    It examines each byte once, and fails as soon as the head cannot be well-formed any more.

    Arguments:
        limits: the limits of a head.
        heads: the budget for the bytes of all such heads.
        since: when the first byte arrived, seconds.
    """

    __slots__ = ("_bytes", "_charge", "_limits", "since")

    def __init__(self, limits: RequestLimits, heads: HeadBudget, since: float) -> None:
        self._bytes = bytearray()
        self._limits = limits
        self._charge = HeadCharge(heads)
        self.since = since

    def count(self) -> bool:
        """Count the bytes so far against the budget; return whether it has space."""
        return self._charge.grow(len(self._bytes))

    def release(self) -> None:
        """Release the bytes: the head is complete, refused or not needed."""
        self._charge.release()

    def feed(self, data: bytes) -> bytes:
        """Add bytes.

        Returns:
            All bytes so far, once they contain a complete head; else empty.

        Raises:
            FramingError: the head is malformed or too large.
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
        # A regular expression with a lookbehind takes ten times as long: 1 ms for 64 KiB.
        before = max(0, known - 1)
        ends = head.count(b"\r\n", before)
        if head.count(b"\n", known) != ends:
            raise FramingError("a bare LF")
        if head.count(b"\r", before, len(head) - 1) != ends:  # the last byte may still get its LF
            raise FramingError("a bare CR")
        longest = limits.max_target + _LINE_WITHOUT_TARGET
        if len(head) > longest and head.find(b"\r\n", 0, longest) < 0:
            raise FramingError("the request target is too long", 414)
