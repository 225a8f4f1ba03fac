"""Split long responses into small pieces, so that requests pass between two pieces.

Admin port and traffic share one thread. Ten thousand revisions of ten pods make 30 MB of JSON. In
one piece, this would delay every request by half a second. Must not know the content.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from heapq import merge
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

#: Bytes of a piece of JSON; it takes half a millisecond.
PIECE = 64 << 10
#: Elements that are sorted at once; this takes a quarter of a millisecond.
BLOCK = 500


async def in_turns(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces, with a turn of the event loop after each.

    A producer yields an empty piece to pause without data.
    """
    for piece in pieces:
        if piece:
            yield piece
        await asyncio.sleep(0)


def in_order(items: Sequence[T], key: Callable[[T], str]) -> Iterator[T | None]:
    """Yield ``items`` sorted; before them some None, where the caller may pause.

    To sort 10,000 revisions at once takes 5 ms.
    """
    blocks = []
    for start in range(0, len(items), BLOCK):
        blocks.append(sorted(items[start : start + BLOCK], key=key))
        yield None
    yield from merge(*blocks, key=key)


def json_pieces(
    name: str, elements: Iterable[Mapping[str, Any] | None], rest: Mapping[str, Any]
) -> Iterator[bytes]:
    """Yield a JSON object in pieces.

    Arguments:
        name: key of the array of ``elements``; a None among them is a pause.
        rest: the other fields, at least one.
    """
    buffer = bytearray(b"{" + encode(name) + b":[")
    separator = b""
    for element in elements:
        if element is None:
            yield b""
            continue
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
        # A lone surrogate in a manifest has no UTF-8, but an escape in JSON.
        return json.dumps(value).encode()


def iso(seconds: float) -> str:
    """Return a time, in seconds since 1970, in RFC 3339, UTC, with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
