"""How a client's HTTP/2 connection ends: GOAWAY, then its last bytes, then the close.

Sends what ``proxy.client.goaway`` decides.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import final

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.goaway import ANNOUNCED, DISMISSED, LAST_SENT, GoawaySteps
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import CLOSE_SECONDS, Connection
from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.states import ENDING, GOAWAY_DUE, OPEN
from activator.proxy.transport import peer_socket


@final
class Http2End:
    """The end of one connection.

    Arguments:
        base: what every client connection has; link: what every HTTP/2 connection has.

    Attributes:
        goaway: which GOAWAY is due, and what the client knows.
    """

    __slots__ = ("_base", "_clock", "_link", "goaway")

    def __init__(self, base: ClientConnection, link: Connection) -> None:
        self._base = base
        self._link = link
        self._clock = base.proxy.clock
        self.goaway = GoawaySteps()

    # -- GOAWAY ---------------------------------------------------------------------------------

    def dismiss(self) -> None:
        """Close, before long, the connection of a client for which there is no room.

        A client that has sent one request gets GOAWAY in one write with its response, so that it
        begins no other request. A client that has sent more gets each response first, and GOAWAY
        within a second, even if it begins more until then.
        """
        steps = self.goaway
        self._link.move(GOAWAY_DUE if steps.advance(DISMISSED, self._clock()) else OPEN)
        self._base.arm(steps.due_at)

    def shutdown(self) -> None:
        """The server stops: finish the streams that are open.

        GOAWAY waits for the end of the last stream, or for a client that begins another one. To
        some clients (the Python library h2, and so httpx) GOAWAY is the end of the connection:
        they lose each response that is not complete by then.
        """
        self._base.stopping = True
        self.announce_if_idle()

    def on_last_stream_ended(self) -> None:
        """The last stream has ended while the server drains or stops.

        A client that has one stream at a time gets GOAWAY in one write with the end of that stream:
        it knows before its next request. httpx loses responses to concurrent requests by a GOAWAY
        that it reads together with them. It has a second to read them, and while the ports are
        open its connection goes on.
        """
        if not self.goaway.multiplexed:
            self._link.move(GOAWAY_DUE)
        if self._base.stopping:
            self.goaway.wait_for_request(self._clock())
            self._base.arm(self.goaway.due_at)

    def on_goaway_due(self) -> None:
        """Send GOAWAY with what is about to be written.

        If bytes of the client are not read yet, its next request may be among them. Then GOAWAY
        waits for the end of that, or for a second when the server stops.
        """
        self._link.move(OPEN)
        if not peer_socket.count_unread(self._link.transport):
            self.announce_if_idle()

    def announce_if_idle(self) -> None:
        """Announce the end to a client that has no stream open."""
        if not (self._link.streams or self._link.is_ending()):
            self.announce()

    def announce(self) -> None:
        """Have the client open no more streams."""
        if not self._link.is_ending() and self.goaway.advance(ANNOUNCED, self._clock()):
            self._link.write(frames.goaway(frames.MAX_31_BITS, ErrorCode.NO_ERROR))
            self._base.arm(self.goaway.due_at)

    def send_last(self, code: ErrorCode = ErrorCode.NO_ERROR, reason: bytes = b"") -> None:
        """Send the number of the last stream that is served, and why."""
        if not self._link.is_ending() and self.goaway.advance(LAST_SENT, self._clock()):
            self._link.write(frames.goaway(self._link.last_stream, code, reason))

    def on_time(self, now: float) -> float:
        """Take the step that is due; return when to look again."""
        step = self.goaway.due(now, idle=not self._link.streams)
        if self._link.is_ending():
            return inf
        if step is ANNOUNCED:
            self.announce()
        elif step is LAST_SENT:
            self.send_last()
            if not self._link.streams:
                self.close()
        return self.goaway.due_at

    # -- the close ------------------------------------------------------------------------------

    def close(self) -> None:
        """Close behind what this turn of the loop still writes."""
        self._link.move(ENDING)
        asyncio.get_running_loop().call_soon(self.flush_and_close)

    def flush_and_close(self) -> None:
        """Write what is to be sent, and close."""
        self._link.flush()
        self.watch_unsent()
        self._linger()

    def watch_unsent(self) -> None:
        """Watch over what waits for a client that does not take it, or whose connection ends."""
        self._base.watch_all_unsent(ended=self._link.is_ending())

    def fail(self, fault: ConnectionFault) -> None:
        """Close behind an error; what the client still sends must not lose it our GOAWAY."""
        self._base.watch_no_more()
        self._linger()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._link.transport.abort)

    def _linger(self) -> None:
        if not self._link.transport.is_closing():
            self._base.linger()
