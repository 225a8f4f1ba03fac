"""HTTP/1 clients of `benchmarks.policies`: in a steady number, or with a steady rate.

`benchmarks.policy_http2` has the same for HTTP/2 and gRPC.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from time import monotonic

from benchmarks.pod import HEAD_END
from benchmarks.process import CannotMeasure

_POD = b"x-pod: "


@dataclass(frozen=True, slots=True)
class Response:
    """A response: its status, the IP address of its pod, and the seconds of its request."""

    status: int
    pod: str
    seconds: float


class Client:
    """Keep-alive connections to one host behind the activator.

    Arguments:
        port: of the activator; host: of the service.
    """

    def __init__(self, port: int, host: str) -> None:
        self._port = port
        self._host = host
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def beside(self) -> Client:
        """Return a client of another tenant."""
        return Client(self._port, self._host)

    async def get(self, field: str = "") -> Response:
        """Send a request, with one more field line, over a free connection or a new one."""
        began = monotonic()
        if self._free:
            reader, writer = self._free.pop()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        lines = f"{field}\r\n" if field else ""
        writer.write(f"GET / HTTP/1.1\r\nHost: {self._host}\r\n{lines}\r\n".encode())
        head = (await reader.readuntil(HEAD_END)).lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
        await reader.readexactly(length)
        self._free.append((reader, writer))
        pod = head.partition(_POD)[2].split(b"\r\n")[0].decode()
        return Response(int(head[9:12]), pod, monotonic() - began)

    async def good(self, field: str = "") -> Response:
        """Send a request as ``get``.

        Raises:
            CannotMeasure: its status is not 200.
        """
        response = await self.get(field)
        if response.status != 200:
            raise CannotMeasure(f"a response has status {response.status}")
        return response

    async def arrive(self, rate: float, seconds: float, field: str = "") -> list[Response]:
        """Send requests at random times, whether or not earlier ones have a response.

        Arguments:
            rate: requests a second; seconds: how long.
        """
        loop = asyncio.get_running_loop()
        began = due = loop.time()
        requests = []
        while (due := due + random.expovariate(rate)) < began + seconds:
            await asyncio.sleep(max(0.0, due - loop.time()))
            requests.append(loop.create_task(self.get(field)))
        return list(await asyncio.gather(*requests))

    def close(self) -> None:
        """Close all connections."""
        for _, writer in self._free:
            writer.close()
