"""Makes the inputs: each from its number and a seed alone, so that any one can be made again.

An input is a valid one of the corpus, often changed a little, at times joined with another, and
cut into pieces.
"""

from __future__ import annotations

import random
from typing import Final

from tests.fuzz.corpus import CORPUS
from tests.fuzz.parsers import PARSERS

#: Bytes that mean something to one parser or another.
_SPICE: Final = (
    *(b"\r\n", b"\r", b"\n", b"\0", b" ", b"\t", b":", b",", b";", b"\r\n\r\n", b"0\r\n\r\n"),
    *(b"_", b"#", b"\xff", b"\x80", b"\x00\x00\x00", b"\xff\xff\xff\xff", b"HTTP/1.0", b"Host: b"),
    *(b"\r\nTransfer-Encoding: chunked", b"\r\nContent-Length: 5", b"\r\nConnection: close, X-A"),
    *(b"ffffffffffffffff", b"4000000000000000", b"-1", b"99999999999999999999", b"a" * 300),
)


def made(seed: int, number: int) -> tuple[str, list[bytes]]:
    """Return the name of a parser (tests/fuzz/parsers.py) and the pieces of its input."""
    luck = random.Random(f"{seed}:{number}")
    name = luck.choice(tuple(PARSERS))
    _, corpus, in_pieces = PARSERS[name]
    data = luck.choice(CORPUS[corpus])
    if luck.random() < 0.15:
        data += luck.choice(CORPUS[corpus])
    for _ in range(luck.choice((0, 0, 1, 1, 1, 2, 3, 8))):
        data = _changed(data, luck)
    return name, _cut(data, luck) if in_pieces else [data]


def _changed(data: bytes, luck: random.Random) -> bytes:
    at = luck.randrange(len(data) + 1)
    to = min(len(data), at + luck.choice((1, 1, 2, 4, 16, 64)))
    middle = data[at:to]
    return data[:at] + luck.choice(_CHANGES)(middle, luck) + data[to:]


_CHANGES: Final = (
    lambda middle, luck: b"",
    lambda middle, luck: middle + middle,
    lambda middle, luck: middle + luck.choice(_SPICE),
    lambda middle, luck: luck.choice(_SPICE),
    lambda middle, luck: luck.randbytes(len(middle)),
    lambda middle, luck: bytes(byte ^ (1 << luck.randrange(8)) for byte in middle[:1]) + middle[1:],
    lambda middle, luck: middle.swapcase(),
    lambda middle, luck: middle[::-1],
)


def _cut(data: bytes, luck: random.Random) -> list[bytes]:
    """Cut data nowhere, at each byte, or in a few places."""
    way = luck.random()
    if way < 0.3:
        return [data]
    if way < 0.5:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(luck.randrange(len(data) + 1) for _ in range(luck.randrange(1, 8)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
