"""A further port of the world's proxy: of one Service, or for proxies that ask for a pod."""

from __future__ import annotations

import asyncio
from typing import cast

from activator.proxy.client.connection import ClientPort
from activator.proxy.client.http1 import Http1ClientConnection
from tests.activator.proxy.http2.peers import Peer
from tests.activator.proxy.world import Client, World


class Bound:
    """A port and its clients."""

    def __init__(self, world: World, port: ClientPort) -> None:
        self.world = world
        self.port = port

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
        self.at = self._server.sockets[0].getsockname()[1]

    def _accept(self) -> asyncio.Protocol:
        return cast(asyncio.Protocol, Http1ClientConnection(self.world.proxy, self.port))

    async def client(self) -> Client:
        _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", self.at)
        self.world.clients.append(client)
        return client

    async def http2_client(self) -> Peer:
        peer = Peer(client=True)
        await asyncio.get_running_loop().create_connection(lambda: peer, "127.0.0.1", self.at)
        self.world.clients.append(peer)  # type: ignore[arg-type] # it has a transport
        return peer

    def close(self) -> None:
        self._server.close()
