"""Long answers in small pieces: between two of them, requests pass.

Admin and traffic share one thread. Ten thousand revisions of ten pods make 30 MB of JSON: in one
go that would hold up every request for half a second. Must not know what it sends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

import msgspec

#: Bytes of a piece of JSON: makes one of about a millisecond.
PIECE = 64 << 10


async def in_turns(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Pass ``pieces`` on, with a turn of the loop for everybody else after each.

    A producer that has nothing to send yet, but wants to pause, gives an empty piece.
    """
    for piece in pieces:
        if piece:
            yield piece
        await asyncio.sleep(0)


def json_pieces(
    name: str, elements: Iterable[Mapping[str, Any]], rest: Mapping[str, Any]
) -> Iterator[bytes]:
    """Yield an object of JSON: an array called ``name``, made bit by bit, and the fields of
    ``rest``, of which there is at least one."""
    buffer = bytearray(b"{" + encode(name) + b":[")
    separator = b""
    for element in elements:
        buffer += separator
        buffer += encode(element)
        separator = b","
        if len(buffer) >= PIECE:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer) + b"]," + encode(rest)[1:]


def encode(value: object) -> bytes:
    """Return JSON in UTF-8."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # Half a surrogate pair in a manifest is no UTF-8, but JSON has an escape for it.
        return json.dumps(value).encode()
