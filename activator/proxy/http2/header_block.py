"""A header block that comes in pieces: HEADERS, then CONTINUATION (RFC 9113 section 4.3)."""

from __future__ import annotations

from typing import Final, final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode

#: Bytes of a header block, and frames that it may come in (VU#421644: a flood of CONTINUATION).
#: Four times what its fields may have (hpack.MAX_LIST_BYTES): one that is too large is decoded all
#: the same, and gets a response; 1 ms for 64 KiB.
MAX_BLOCK: Final = 256 << 10
MAX_BLOCK_FRAMES: Final = 64


@final
class HeaderBlock:
    """The header block that has begun on a connection.

    Attributes:
        stream: its stream; 0 while none has begun.
        ended: whether nothing follows it on the stream.
    """

    __slots__ = ("_pieces", "_size", "ended", "stream")

    def __init__(self) -> None:
        self.stream = 0
        self.ended = False
        self._pieces: list[bytes] = []
        self._size = 0

    def size(self) -> int:
        """Return its bytes so far; 0 while none has begun."""
        return self._size if self.stream else 0

    def begin(self, stream: int, piece: bytes, ended: bool) -> None:
        """Begin one with the first piece."""
        self.stream = stream
        self.ended = ended
        self._pieces = [piece]
        self._size = len(piece)

    def add(self, stream: int, piece: bytes) -> None:
        """Add a piece.

        Raises:
            ConnectionFault: it is no piece of this block, or the block is too large.
        """
        if stream != self.stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > MAX_BLOCK or len(self._pieces) > MAX_BLOCK_FRAMES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block without end")

    def end(self) -> bytes:
        """Return the whole block; none has begun after that."""
        whole = b"".join(self._pieces)
        self.stream = 0
        self._pieces = []
        return whole
