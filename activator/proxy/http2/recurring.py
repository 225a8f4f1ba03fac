"""Remembers recurring header blocks with the objects that were read from them.

A block of table references only has the same fields while the tables are the same. That saves half
of the cost of a request whose client sends the same head again. gRPC responses and trailers nearly
always repeat. Requests through an ingress do not, because of their ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from activator.proxy.http2.hpack import Decoder, Field
from activator.proxy.http2.section import SENSITIVE

_Meaning = TypeVar("_Meaning")

#: Most blocks of a connection, most bytes of one block, and most bytes of its fields: 64 KiB in
#: total. The connection's table has the same fields.
MOST: Final = 16
MOST_REFERENCES: Final = 64
MOST_BYTES: Final = 4096


class Recurring(Generic[_Meaning]):
    """Reads one kind of section on one connection.

    Arguments:
        decoder: the decoder of the connection, which other readers share.
        read: returns an object for fields; callers share it and never change it.
    """

    __slots__ = ("_decoder", "_generation", "_known", "_read")

    def __init__(self, decoder: Decoder, read: Callable[[list[Field]], _Meaning]) -> None:
        self._decoder = decoder
        self._generation = decoder.generation
        self._known: dict[bytes, _Meaning] = {}
        self._read = read

    def read(self, block: bytes) -> _Meaning:
        """Return the object for a whole header block.

        Raises:
            ConnectionFault, FramingError: see Decoder.decode.
            FramingError: see the argument ``read``.
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
