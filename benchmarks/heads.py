"""CPU time for parsing the head of an HTTP/1 request and response."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time

from activator.proxy.message.request import RequestLimits, read_request
from activator.proxy.message.response import read_response
from benchmarks.instructions import HTTP1
from benchmarks.report import Row, middle

#: Turns are short, so that some of them are undisturbed on a shared machine.
TURNS = 15
HEADS = 3000

_SMALL_ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sat, 21 Nov 2026 22:22:44 GMT\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 6\r\nConnection: keep-alive\r\n\r\n"
)
_LARGE_ANSWER = _SMALL_ANSWER.replace(
    b"\r\n\r\n",
    b"\r\nvary: accept-encoding\r\netag: W/4f1c2d3e\r\ncache-control: no-store\r\n"
    b"x-frame-options: DENY\r\nx-content-type-options: nosniff\r\nreferrer-policy: origin\r\n"
    b"strict-transport-security: max-age=31536000\r\nx-request-id: 4f1c2d3e-5a6b-7c8d\r\n"
    b"set-cookie: session=0123456789abcdef; Secure; HttpOnly\r\n\r\n",
)


def measure() -> Iterator[Row]:
    """Yield one row for each kind of head."""
    limits = RequestLimits()

    def request(head: bytes) -> object:
        return read_request(head, limits)

    def response(head: bytes) -> object:
        return read_response(head, to_head=False)

    for load in HTTP1[:2]:
        assert isinstance(load.request, bytes)
        yield _row(f"read_request: {load.what}", request, load.request)
    yield _row("read_response: 5 fields", response, _SMALL_ANSWER)
    yield _row("read_response: 14 fields", response, _LARGE_ANSWER)


def _row(what: str, read: Callable[[bytes], object], head: bytes) -> Row:
    turns = [_time(read, head) for _ in range(TURNS)]
    return Row(what, f"{middle(turns) * 1e6:.2f} µs", details={"turns": turns, "bytes": len(head)})


def _time(read: Callable[[bytes], object], head: bytes) -> float:
    """Return the seconds of CPU that one head takes."""
    began = process_time()
    for _ in range(HEADS):
        read(head)
    return (process_time() - began) / HEADS
