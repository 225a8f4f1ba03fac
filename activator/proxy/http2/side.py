"""Declares the methods that differ between HTTP/2 connections of clients and to pods."""

# ruff: noqa: B027 # methods without a body are for the other kind of connection
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.stream import Stream
from activator.proxy.transport.unread import Peer


class ConnectionSide(ABC):
    """One kind of connection. Methods without ``abstractmethod`` are for one kind only."""

    __slots__ = ()

    # -- the connection -------------------------------------------------------------------------

    @abstractmethod
    def lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""

    @abstractmethod
    def on_full(self) -> None:
        """Handle a peer that does not read payload: the transport is full."""

    @abstractmethod
    def on_backlog(self) -> None:
        """Handle a peer that does not read even control frames."""

    @abstractmethod
    def on_failed(self, fault: ConnectionFault) -> None:
        """Close: the peer broke a rule, and GOAWAY is written."""

    @abstractmethod
    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader: the peer reads no bytes of the connection."""

    # -- its streams ----------------------------------------------------------------------------

    @abstractmethod
    def is_idle(self, stream: int) -> bool:
        """Return whether a stream has never begun."""

    @abstractmethod
    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        """Handle a whole header block."""

    @abstractmethod
    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """Handle payload.

        Arguments:
            trailers: None unless the payload is the last; then the header block of trailers.
        """

    @abstractmethod
    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """Handle RST_STREAM of the peer; ``owner`` had the stream, which has ended."""

    @abstractmethod
    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See FrameHandler.stream_error."""

    @abstractmethod
    def on_stream_removed(self, stream: Stream) -> None:
        """Handle the removal of a stream, however it ended."""

    @abstractmethod
    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See unread.Reader: the peer reads no bytes of a stream."""

    # -- connections of clients -----------------------------------------------------------------

    def on_room(self) -> None:
        """Continue: the transport accepts payload again."""

    def on_incomplete_head(self, size: int) -> None:
        """Handle a header block in progress, of ``size`` bytes so far, or an incomplete preface."""

    def on_complete_head(self) -> None:
        """Handle the end of a header block that was in progress."""

    def on_goaway_due(self) -> None:
        """Add GOAWAY to the frames of this turn, if it still applies."""

    def on_half_closed(self, stream: Stream) -> None:
        """Handle a stream that this side has ended and the peer has not."""

    def on_stray(self, stream: int) -> None:
        """Handle DATA or a header block for a stream that has ended."""

    # -- connections to pods --------------------------------------------------------------------

    def made(self) -> None:
        """Send the first frames: the connection is open."""

    def on_broken(self) -> None:
        """Read the bytes that the peer sent before it broke the connection."""

    def on_settings(self) -> None:
        """Record that the peer speaks HTTP/2."""

    def on_max_streams(self, count: int) -> None:
        """Limit the streams that are open at a time."""

    def on_max_header_list(self, size: int) -> None:
        """Limit header sections to ``size`` bytes, counted as in RFC 9113 section 6.5.2."""

    def on_goaway(self, last_stream: int) -> None:
        """Open no more streams; requeue requests on streams after ``last_stream``."""


@final
class _Gone(ConnectionSide):
    """The side of a lost connection: does nothing."""

    __slots__ = ()

    def lost(self, exc: Exception | None) -> None:
        """See ConnectionSide."""

    def on_full(self) -> None:
        """See ConnectionSide."""

    def on_backlog(self) -> None:
        """See ConnectionSide."""

    def on_failed(self, fault: ConnectionFault) -> None:
        """See ConnectionSide."""

    def end_unread(self) -> tuple[Peer, str]:
        """See ConnectionSide."""
        return Peer.CLIENT, ""

    def is_idle(self, stream: int) -> bool:
        """See ConnectionSide."""
        return False

    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        """See ConnectionSide."""

    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """See ConnectionSide."""

    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """See ConnectionSide."""

    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See ConnectionSide."""

    def on_stream_removed(self, stream: Stream) -> None:
        """See ConnectionSide."""

    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See ConnectionSide."""
        return Peer.CLIENT, ""


#: The side of each lost connection.
GONE: Final[ConnectionSide] = _Gone()
