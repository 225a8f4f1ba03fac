"""Clients of HTTP/2, gRPC and WebSocket, by the libraries that users have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import grpc
import httpx
from grpc.aio import Channel, insecure_channel
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from benchmarks.mixed.http1_client import NotComplete, Where, check
from benchmarks.mixed.kinds import RPC, WEB, Kind, authority
from benchmarks.mixed.pod_http2 import MESSAGE, MESSAGES
from benchmarks.mixed.record import PATIENCE, Sight, Wrong

#: Messages of a stream or a WebSocket, and seconds between them.
ECHOES, ECHOES_APART = 20, 0.15
LONGEST_POST: Final = 1 << 16
OK: Final = 200
_LONGEST_MESSAGE: Final = 1 << 12
#: The client must not repeat a call: this counts what the activator does.
_CHANNEL: Final = (("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1))


class Http2:
    """One connection of httpx with several requests at a time."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._to: Where | None = None
        self._client: httpx.AsyncClient

    async def use(self, to: Where) -> None:
        """Connect to an address, unless the present connection goes there."""
        if self._to != to:
            if self._to is not None:
                await self._client.aclose()
            self._client = httpx.AsyncClient(
                http1=False,
                http2=True,
                trust_env=False,
                timeout=PATIENCE,
                base_url=f"http://{to[0]}:{to[1]}",
            )
            self._to = to

    async def get(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Get the greeting."""
        check(await self._exchange("GET", kind, sight), b"hello\n")

    async def post(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Post a body and get it back."""
        body = self._random.randbytes(self._random.randrange(1, LONGEST_POST))
        check(await self._exchange("POST", kind, sight, body), body)

    async def _exchange(self, method: str, kind: Kind, sight: Sight, body: bytes = b"") -> bytes:
        headers = {"host": authority(kind.service), "x-request-id": sight.key}
        if method == "POST":
            headers["x-once"] = sight.key
        async with self._client.stream(method, "/", headers=headers, content=body) as response:
            sight.read(response.headers)
            came = await response.aread()
        if response.status_code != OK:
            raise NotComplete(f"{response.status_code}: {came[:100]!r}")
        return came


class Grpc:
    """One channel of grpcio."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._to: Where | None = None
        self._channel: Channel

    async def use(self, to: Where) -> None:
        """Connect to an address, unless the present channel goes there."""
        if self._to != to:
            if self._to is not None:
                await self._channel.close()
            options = (*_CHANNEL, ("grpc.default_authority", authority(RPC)))
            self._channel = insecure_channel(f"{to[0]}:{to[1]}", options=options)
            self._to = to

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()

    async def unary(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Call the echo."""
        sent = self._message()
        call = self._channel.unary_unary("/soak.Echo/Unary")(sent, **once(sight))
        async with _ends(call, sight):
            await self._named(call, sight)
            check(await call, sent)

    async def count(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Read a stream of messages."""
        call = self._channel.unary_stream("/soak.Echo/Count")(b"", **once(sight))
        async with _ends(call, sight):
            await self._named(call, sight)
            messages = [message async for message in call]
        if messages != [MESSAGE[5:]] * MESSAGES:
            raise Wrong(f"{len(messages)} messages")

    async def chat(self, to: Where, kind: Kind, sight: Sight) -> None:
        """Send messages one by one, and read each before the next one."""
        call = self._channel.stream_stream("/soak.Echo/Chat")(**once(sight))
        async with _ends(call, sight):
            await self._chat(call, sight)

    async def _chat(self, call: Any, sight: Sight) -> None:
        echoed = 0
        try:
            while echoed < ECHOES:
                sent = self._message()
                await call.write(sent)
                await self._named(call, sight)
                came = await call.read()
                if came is grpc.aio.EOF:
                    break
                check(came, sent)
                echoed += 1
                await asyncio.sleep(ECHOES_APART)
            await call.done_writing()
        except asyncio.InvalidStateError:  # the call ended between two messages
            pass
        if await call.code() is not grpc.StatusCode.OK:
            raise NotComplete(f"{await call.code()}: {await call.details()}")
        if echoed < ECHOES:
            raise Wrong(f"a good end after {echoed} messages")

    def _message(self) -> bytes:
        return self._random.randbytes(self._random.randrange(1, _LONGEST_MESSAGE))

    async def _named(self, call: Any, sight: Sight) -> None:
        if not sight.pod:
            metadata = await call.initial_metadata()
            sight.read({name: str(value) for name, value in metadata or ()})


@asynccontextmanager
async def _ends(call: Any, sight: Sight) -> AsyncIterator[None]:
    """Read the facts of an error response, which is nothing but trailers."""
    try:
        yield
    except (grpc.aio.AioRpcError, NotComplete):
        if not sight.pod:
            sight.read({name: str(value) for name, value in await call.trailing_metadata() or ()})
        raise


def once(sight: Sight) -> dict[str, Any]:
    """Return the options of a call that must arrive once."""
    metadata = (("x-request-id", sight.key.replace(" ", "-")), ("x-once", sight.key))
    return {"metadata": metadata, "timeout": PATIENCE}


async def websocket(to: Where, kind: Kind, sight: Sight) -> None:
    """Open a WebSocket, send messages one by one, and read each before the next one."""
    headers = {"x-once": sight.key, "x-request-id": sight.key}
    try:
        await _echoes(
            connect(
                f"ws://{authority(WEB)}/ws",
                host=to[0],
                port=to[1],
                additional_headers=headers,
                proxy=None,
                compression=None,
                open_timeout=PATIENCE,
            ),
            sight,
        )
    except InvalidStatus as refused:
        sight.read({name.lower(): value for name, value in refused.response.headers.raw_items()})
        raise


async def _echoes(handshake: connect, sight: Sight) -> None:
    async with handshake as tunnel:
        assert tunnel.response is not None
        sight.read(tunnel.response.headers)
        for number in range(ECHOES):
            await tunnel.send(f"message {number}")
            if (came := await tunnel.recv()) != f"message {number}":
                raise Wrong(f"message {number} came back as {came!r}")
            await asyncio.sleep(ECHOES_APART)
