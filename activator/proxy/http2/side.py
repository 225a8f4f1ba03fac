"""What is different at the two ends of an HTTP/2 connection: a client's, and a pod's."""

# ruff: noqa: B027 # methods without a body are for the other kind of end
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode
from activator.proxy.http2.stream import Stream
from activator.proxy.transport.unread import Peer


class ConnectionSide(ABC):
    """One end of a connection. A method with a body is for one kind of end alone."""

    __slots__ = ()

    # -- the connection -------------------------------------------------------------------------

    @abstractmethod
    def lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""

    @abstractmethod
    def on_full(self) -> None:
        """Handle a peer that does not read what is written."""

    @abstractmethod
    def on_backlog(self) -> None:
        """Handle a peer that does not read even control frames."""

    @abstractmethod
    def on_failed(self, fault: ConnectionFault) -> None:
        """Close: the peer has broken a rule, and was sent GOAWAY."""

    @abstractmethod
    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader: the peer takes nothing of what waits for the kernel."""

    # -- its streams ----------------------------------------------------------------------------

    @abstractmethod
    def is_idle(self, stream: int) -> bool:
        """Return whether a stream has never begun."""

    @abstractmethod
    def on_headers(self, stream: int, block: bytes, ended: bool) -> None:
        """Handle a whole header block."""

    @abstractmethod
    def on_data(self, stream: Stream, payload: bytes, trailers: bytes | None) -> None:
        """Handle payload; ``trailers`` is None as long as more follows."""

    @abstractmethod
    def on_reset(self, stream: Stream, owner: object | None, code: int) -> None:
        """Handle RST_STREAM for a stream, which was ``owner``'s and is over."""

    @abstractmethod
    def on_stream_error(self, stream: int, code: ErrorCode, reason: str) -> None:
        """See FrameHandler.stream_error."""

    @abstractmethod
    def on_stream_removed(self, stream: Stream) -> None:
        """Handle the end of a stream, however it ended."""

    @abstractmethod
    def end_stream_unread(self, stream: Stream) -> tuple[Peer, str]:
        """See unread.Reader: the peer takes nothing of a stream."""

    # -- for a client's end ---------------------------------------------------------------------

    def on_room(self) -> None:
        """Go on: the peer takes more again."""

    def on_incomplete_head(self, size: int) -> None:
        """Limit a header block that has begun, of so many bytes, or the connection's beginning."""

    def on_complete_head(self) -> None:
        """Forget the limit: the header block is whole."""

    def on_goaway_due(self) -> None:
        """Add GOAWAY to what is about to be written, if it still applies."""

    def on_half_closed(self, stream: Stream) -> None:
        """Handle a stream on which our side has ended and the peer has not."""

    def on_stray(self, stream: int) -> None:
        """Handle DATA or a header block for a stream that is over."""

    # -- for a pod's end ------------------------------------------------------------------------

    def made(self) -> None:
        """Begin: the connection is open."""

    def on_broken(self) -> None:
        """Read what the peer sent before it broke the connection."""

    def on_settings(self) -> None:
        """Record that the peer speaks HTTP/2."""

    def on_max_streams(self, count: int) -> None:
        """Open at most so many streams at a time."""

    def on_max_header_list(self, size: int) -> None:
        """Send no header section above so many bytes, counted as in RFC 9113 section 6.5.2."""

    def on_goaway(self, last_stream: int) -> None:
        """Open no more streams; requeue those behind ``last_stream``."""


@final
class _Gone(ConnectionSide):
    """The end of a connection that is lost: nothing is left to do for it."""

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


#: In the place of a connection's side when the connection is lost.
GONE: Final[ConnectionSide] = _Gone()
