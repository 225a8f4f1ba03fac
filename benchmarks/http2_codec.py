"""CPU time for decoding an HTTP/2 header section, compared with the library hpack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from time import process_time
from typing import Any

import hpack

from activator.proxy.http2.fields import read_request
from activator.proxy.http2.hpack import Decoder
from benchmarks.report import Row, middle

Block = bytes
Decode = Callable[[Block], Any]

BLOCKS = 300
#: Turns are short, so that some of them are undisturbed on a shared machine.
TURNS = 15
#: Parts of the library's time for decoding.
GOALS = {"decoded": 0.2, "decoded, checked and written for a pod": 0.35}


def measure() -> Iterator[Row]:
    """Yield rows for requests with new fields in each, and for repeated requests."""
    for new in (3, 0):
        blocks = _blocks(new)
        for what, goal in GOALS.items():
            yield _row(what, goal, new, blocks)


def _row(what: str, goal: float, new: int, blocks: list[Block]) -> Row:
    ours = _decode if what == "decoded" else _read
    _time(blocks, ours()), _time(blocks, _library())  # the first turn warms up
    pairs = [(_time(blocks, ours()), _time(blocks, _library())) for _ in range(TURNS)]
    took, beside = (middle([pair[i] for pair in pairs]) for i in (0, 1))
    ratio = middle([mine / other for mine, other in pairs])
    return Row(
        f"http2: a block of 12 fields, {new or 'none'} of them new, {what}",
        f"{took * 1e6:.1f} µs",
        f"hpack, decoded {beside * 1e6:.1f} µs",
        ratio,
        f"<= {goal} ×",
        ratio <= goal,
        {"pairs": pairs, "bytes": middle([len(block) for block in blocks])},
    )


def _decode() -> Decode:
    return Decoder().decode


def _read() -> Decode:
    decode = Decoder().decode
    return lambda block: read_request(decode(block))


def _library() -> Decode:
    decoder = hpack.Decoder()
    return lambda block: decoder.decode(block, raw=True)


def _time(blocks: list[Block], decode: Decode) -> float:
    """Return the seconds of CPU for one block."""
    began = process_time()
    for block in blocks:
        decode(block)
    return (process_time() - began) / len(blocks)


def _blocks(new: int) -> list[Block]:
    """Return one connection's blocks, encoded as Go does: Huffman code, all fields indexed."""
    random = Random(1)
    encoder = hpack.Encoder()
    return [encoder.encode(_request(random if new else Random(1))) for _ in range(BLOCKS)]


def _request(random: Random) -> list[tuple[bytes, bytes]]:
    """Return a request as Envoy sends it, with a new path, request id and trace."""

    def digits(count: int) -> bytes:
        return b"%0*x" % (count, random.getrandbits(4 * count))

    identity = b"-".join(map(digits, (8, 4, 4, 4, 12)))
    return [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":authority", b"hello.default.svc.cluster.local"),
        (b":path", b"/api/v1/items/" + b"-".join(map(digits, (8, 4, 4, 4, 12)))),
        (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0.0.0"),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"gzip, deflate, br"),
        (b"x-forwarded-for", b"10.1.2.3"),
        (b"x-forwarded-proto", b"http"),
        (b"x-envoy-external-address", b"10.1.2.3"),
        (b"x-request-id", identity),
        (b"traceparent", b"00-%b-%b-01" % (digits(32), digits(16))),
    ]
