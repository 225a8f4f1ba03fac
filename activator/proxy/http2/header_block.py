"""Collects a header block from HEADERS and CONTINUATION frames (RFC 9113 section 4.3)."""

from __future__ import annotations

from typing import Final, final

from activator.proxy.http2.errors import ConnectionFault, ErrorCode

#: Most bytes and most frames of a header block (VU#421644: a flood of CONTINUATION). The bytes are
#: four times the limit of its fields (hpack.MAX_LIST_BYTES). A block above that limit is still
#: decoded, at 1 ms for 64 KiB, and gets a response.
MAX_BLOCK: Final = 256 << 10
MAX_BLOCK_FRAMES: Final = 64


@final
class HeaderBlock:
    """The header block in progress on a connection.

    Attributes:
        stream: its stream; 0 while no block is in progress.
        ended: whether the block ends its stream.
    """

    __slots__ = ("_pieces", "_size", "ended", "stream")

    def __init__(self) -> None:
        self.stream = 0
        self.ended = False
        self._pieces: list[bytes] = []
        self._size = 0

    def size(self) -> int:
        """Return the bytes so far; 0 while no block is in progress."""
        return self._size if self.stream else 0

    def begin(self, stream: int, piece: bytes, ended: bool) -> None:
        """Begin a block with its first piece."""
        self.stream = stream
        self.ended = ended
        self._pieces = [piece]
        self._size = len(piece)

    def add(self, stream: int, piece: bytes) -> None:
        """Add a piece.

        Raises:
            ConnectionFault: the piece belongs to another stream, or the block is too large.
        """
        if stream != self.stream:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > MAX_BLOCK or len(self._pieces) > MAX_BLOCK_FRAMES:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "the header block is too large")

    def end(self) -> bytes:
        """Return the whole block, and reset this object for the next one."""
        whole = b"".join(self._pieces)
        self.stream = 0
        self._pieces = []
        return whole
