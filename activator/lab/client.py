"""An HTTP client like curl: each request has its own connection, and the response is read whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

#: Seconds for a request and its response; more than the time-out of any scenario's revision.
PATIENCE = 60.0


class ClientResponse(NamedTuple):
    """A response as the client received it.

    Attributes:
        headers: by lower-case name; the last value of a repeated header.
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
) -> ClientResponse:
    """Send one request on a new connection, and return the response, which ends the connection.

    Arguments:
        headers: added to the headers that curl sends; the same name replaces one of them.

    Raises:
        OSError: no connection, or no complete response within `PATIENCE` seconds.
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
    return parse_response(answer)._replace(took=time.monotonic() - began)


def parse_response(data: bytes) -> ClientResponse:
    """Parse a complete response.

    Raises:
        ConnectionError: the head is incomplete, or the body does not match Content-Length.
    """
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        raise ConnectionError(f"incomplete response: {data[:200]!r}")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if len(body) != int(headers.get("content-length", len(body))):
        raise ConnectionError(f"body of {len(body)} bytes, announced {headers['content-length']}")
    return ClientResponse(int(first.split()[1]), headers, body.decode(errors="replace"))


async def open_and_close(ip: str, port: int) -> None:
    """Open a connection and close it without sending a byte, as a TCP probe does.

    Raises:
        OSError: no process listens there.
    """
    async with asyncio.timeout(PATIENCE):
        _, writer = await asyncio.open_connection(ip, port)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
