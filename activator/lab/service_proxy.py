"""Forward the connections to a Service to its endpoints, as kube-proxy does.

It listens on a loopback port instead of a ClusterIP. It chooses an endpoint for each connection,
and never moves a connection. It knows a change of the slices only after a delay. Without an
endpoint it refuses the connection. Kubernetes' counterpart: pkg/proxy/topology.go.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from contextlib import suppress
from typing import Any, Final

from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.resources import SLICES
from activator.lab.control_plane.store import ObjectChange
from activator.lab.controllers import service_of

Object = dict[str, Any]
Address = tuple[str, int]

#: Seconds from a change of a slice to its effect: kube-proxy's least interval between writes.
DELAY: Final = 1.0
_READ_BYTES: Final = 64 * 1024


class ServiceProxy:
    """The proxy of one port of one Service. It needs a running loop.

    Attributes:
        host, port: where it listens; the port is set by `start`.
        delay: seconds from a change of a slice to its effect.
        refused: how many connections found no endpoint, or one that refused them.
    """

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        service: str,
        port_name: str,
        delay: float = DELAY,
    ) -> None:
        self.host, self.port = "127.0.0.1", 0
        self.delay = delay
        self.refused = 0
        self._plane = plane
        self._namespace = namespace
        self._service = service
        self._port_name = port_name
        self._endpoints: list[Address] = []
        self._timer: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen, with the present endpoints.

        Raises:
            OSError: the kernel has no free port.
        """
        self._sync()
        self._plane.store.listen(self._on_change)
        self._server = await asyncio.start_server(self._serve, self.host, 0, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and break all connections."""
        self._plane.store.remove(self._on_change)
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def where(self) -> Address:
        """Host and port for clients."""
        return self.host, self.port

    @property
    def endpoints(self) -> list[Address]:
        """The addresses to which connections go now."""
        return list(self._endpoints)

    def _on_change(self, change: ObjectChange) -> None:
        is_seen = change.resource == SLICES and service_of(change.last) == self._service
        if is_seen and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.delay, self._sync)

    def _sync(self) -> None:
        self._timer = None
        slices = self._plane.store.select(
            SLICES, self._namespace, lambda found: service_of(found) == self._service
        )
        self._endpoints = endpoints_of(slices, self._port_name)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._forward(reader, writer)
        except OSError:
            _reset(writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._endpoints:
            self.refused += 1
            _reset(writer)
            return
        try:
            there, onward = await asyncio.open_connection(*random.choice(self._endpoints))
        except OSError:
            self.refused += 1
            raise
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, onward))
                both.create_task(_copy(there, writer))
        except* OSError:
            _reset(writer)
        finally:
            onward.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Break a connection, so that its client sees a reset instead of an end."""
    found = writer.get_extra_info("socket")
    with suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_READ_BYTES):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


def endpoints_of(slices: list[Object], port_name: str) -> list[Address]:
    """Return the addresses of ready endpoints; without one, of terminating endpoints that serve.

    Arguments:
        slices: of one Service, by any author.
        port_name: the name of the Service's port.
    """
    ready: list[Address] = []
    leaving: list[Address] = []
    for found in slices:
        number = _number(found, port_name)
        for endpoint in found["endpoints"] or () if number else ():
            conditions = endpoint.get("conditions") or {}
            addresses = [(address, number) for address in endpoint["addresses"]]
            if conditions.get("ready", True):
                ready += addresses
            elif conditions.get("serving") and conditions.get("terminating"):
                leaving += addresses
    return sorted(set(ready or leaving))


def _number(slice_: Object, port_name: str) -> int:
    for port in slice_["ports"] or ():
        if port["name"] == port_name:
            return int(port["port"])
    return 0
