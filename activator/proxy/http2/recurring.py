"""Header blocks that come again, with what was read from them.

A block of nothing but references to the tables has the same meaning as long as the tables are the
same. That saves half of what a request costs, where a client repeats itself. Responses and trailers
of gRPC nearly always do; requests through an ingress, with ids of their own, do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from activator.proxy.http2.hpack import Decoder, Field
from activator.proxy.http2.section import SENSITIVE

_Meaning = TypeVar("_Meaning")

#: Blocks that are remembered for a connection, and bytes of one and of its fields: 64 KiB in all,
#: and nothing that is not in the connection's table as well.
MOST: Final = 16
MOST_REFERENCES: Final = 64
MOST_BYTES: Final = 4096


class Recurring(Generic[_Meaning]):
    """Reads one kind of section on one connection.

    Arguments:
        decoder: the connection's; others may read with it.
        read: returns the meaning of fields; it is shared and never changes.
    """

    __slots__ = ("_decoder", "_generation", "_known", "_read")

    def __init__(self, decoder: Decoder, read: Callable[[list[Field]], _Meaning]) -> None:
        self._decoder = decoder
        self._generation = decoder.generation
        self._known: dict[bytes, _Meaning] = {}
        self._read = read

    def read(self, block: bytes) -> _Meaning:
        """Return the meaning of a whole header block.

        Raises:
            ConnectionFault, FramingError: see Decoder.decode.
            FramingError: as the function that reads.
        """
        generation = self._decoder.generation
        if generation != self._generation:
            self._generation = generation
            self._known.clear()
        elif (known := self._known.get(block)) is not None:
            return known
        fields = self._decoder.decode(block)
        meaning = self._read(fields)
        # One byte per field: each is an indexed reference, so the table is unchanged.
        if len(block) == len(fields) <= MOST_REFERENCES:
            self._remember(block, fields, meaning)
        return meaning

    def _remember(self, block: bytes, fields: list[Field], meaning: _Meaning) -> None:
        if sum(len(name) + len(value) for name, value in fields) > MOST_BYTES:
            return
        if not SENSITIVE.isdisjoint(name for name, _ in fields):
            return
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[block] = meaning
