"""A client as curl is one: a request on a connection of its own, and the whole answer.

Must not know what the answer should be.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

#: Seconds for a request and its answer; above any timeout that a scenario gives a revision.
PATIENCE = 60.0


class Reply(NamedTuple):
    """An answer.

    Attributes:
        headers: by lower-case name; of a repeated one the last.
        took: seconds from the dial to the last byte.
    """

    status: int
    headers: dict[str, str]
    body: str
    took: float = 0.0


async def fetch(
    ip: str,
    port: int,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Reply:
    """One request on a new connection, which the answer ends.

    Arguments:
        headers: in addition to those that curl sends, or in their place.

    Raises:
        OSError: no connection, no answer within `PATIENCE`, or none that is whole.
    """
    given = {"Host": f"{ip}:{port}", "Accept": "*/*", "Connection": "close", **(headers or {})}
    if body or method == "POST":
        given["Content-Length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection(ip, port)
        try:
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
            answer = await reader.read()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
    return parse_reply(answer)._replace(took=time.monotonic() - began)


def parse_reply(data: bytes) -> Reply:
    """Takes a whole answer apart.

    Raises:
        ConnectionError: it is not whole, its body is not as long as it says.
    """
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        raise ConnectionError(f"no whole answer: {data[:200]!r}")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if len(body) != int(headers.get("content-length", len(body))):
        raise ConnectionError(f"body of {len(body)} bytes, announced {headers['content-length']}")
    return Reply(int(first.split()[1]), headers, body.decode(errors="replace"))


async def open_and_close(ip: str, port: int) -> None:
    """Connect as a TCP probe does: no byte is sent.

    Raises:
        OSError: nobody listens.
    """
    async with asyncio.timeout(PATIENCE):
        _, writer = await asyncio.open_connection(ip, port)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
