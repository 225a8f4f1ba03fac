"""Ends a client's HTTP/2 connection: GOAWAY, then its last bytes, then the close.

``client.goaway`` decides which GOAWAY is due.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import final

from activator.proxy.client.connection import ClientConnection
from activator.proxy.client.goaway import ANNOUNCED, CLOSE_PLANNED, LAST_SENT, GoawaySteps
from activator.proxy.http2 import frames
from activator.proxy.http2.connection import CLOSE_SECONDS, ENDING, GOAWAY_DUE, OPEN, Connection
from activator.proxy.http2.frames import ConnectionFault, ErrorCode
from activator.proxy.transport import peer_socket


@final
class Http2End:
    """The end of one connection.

    Arguments:
        base: the common part of all client connections.
        link: the common part of all HTTP/2 connections.

    Attributes:
        goaway: which GOAWAY frames the client has got, and which is due.
    """

    __slots__ = ("_base", "_clock", "_link", "goaway")

    def __init__(self, base: ClientConnection, link: Connection) -> None:
        self._base = base
        self._link = link
        self._clock = base.proxy.clock
        self.goaway = GoawaySteps()

    # -- GOAWAY ---------------------------------------------------------------------------------

    def plan_close(self) -> None:
        """Close the connection of a client beyond the limit soon.

        A client that has sent one request gets GOAWAY in one write with its response, before it
        can begin another one. A client that has sent several gets each response first. It gets
        GOAWAY within a second, even if it begins more requests until then.
        """
        steps = self.goaway
        self._link.move(GOAWAY_DUE if steps.advance(CLOSE_PLANNED, self._clock()) else OPEN)
        self._base.arm(steps.due_at)

    def shutdown(self) -> None:
        """Finish the open streams, because the server stops.

        GOAWAY waits until the last stream ends, or until the client begins another one. The
        Python library h2, and so httpx, treats GOAWAY as the end of the connection, and loses each
        incomplete response.
        """
        self._base.stopping = True
        self.announce_if_idle()

    def on_last_stream_ended(self) -> None:
        """Plan GOAWAY after the last stream has ended, on a connection that is to end.

        A client with one stream at a time gets GOAWAY before its next request, in one write with
        the end of that stream. httpx loses responses to concurrent requests if it reads a GOAWAY
        together with them. So a client with concurrent requests has a second to read them. During a
        lame duck it keeps its connection while the ports are open.
        """
        if not self.goaway.multiplexed:
            self._link.move(GOAWAY_DUE)
        if self._base.stopping or self._base.port.reconnect:
            self.goaway.wait_for_request(self._clock())
            self._base.arm(self.goaway.due_at)

    def on_goaway_due(self) -> None:
        """Send GOAWAY in the write that is about to happen.

        Unread bytes of the client may contain its next request. Then GOAWAY waits for the end of
        that request, or for a second when the server stops.
        """
        self._link.move(OPEN)
        if not peer_socket.count_unread(self._link.transport):
            self.announce_if_idle()

    def announce_if_idle(self) -> None:
        """Announce the end to a client that has no stream open."""
        if not (self._link.streams or self._link.is_ending()):
            self.announce()

    def announce(self) -> None:
        """Ask the client to open no more streams."""
        if not self._link.is_ending() and self.goaway.advance(ANNOUNCED, self._clock()):
            self._link.write(frames.goaway(frames.MAX_31_BITS, ErrorCode.NO_ERROR))
            self._base.arm(self.goaway.due_at)

    def send_last(self, code: ErrorCode = ErrorCode.NO_ERROR, reason: bytes = b"") -> None:
        """Send the GOAWAY that names the last stream.

        Arguments:
            code: the error code.
            reason: the debug data, for people.
        """
        if not self._link.is_ending() and self.goaway.advance(LAST_SENT, self._clock()):
            self._link.write(frames.goaway(self._link.last_stream, code, reason))

    def on_time(self, now: float) -> float:
        """Send the GOAWAY that is due; return when to call this again, seconds."""
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
        """Close at the end of this turn of the loop, behind its last bytes."""
        self._link.move(ENDING)
        asyncio.get_running_loop().call_soon(self.flush_and_close)

    def flush_and_close(self) -> None:
        """Write all bytes that wait, and close."""
        self._link.flush()
        self.watch_unsent()
        self._linger()

    def watch_unsent(self) -> None:
        """Watch the bytes that wait for a client that does not read, or whose connection ends."""
        self._base.watch_unsent_http2(ended=self._link.is_ending())

    def fail(self, fault: ConnectionFault) -> None:
        """Close after an error. Input is discarded first, so that the client gets the GOAWAY."""
        self._base.stop_watching()
        self._linger()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self._link.transport.abort)

    def _linger(self) -> None:
        if not self._link.transport.is_closing():
            self._base.linger()
