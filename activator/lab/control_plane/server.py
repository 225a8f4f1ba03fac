"""Serves a control plane on a loopback socket, over HTTP/1.1."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.reads import PlaneWatch
from activator.lab.control_plane.status import PlaneResponse
from activator.lab.http1 import BadRequest, PodRequest, RequestParser, render_chunk, render_head

#: The file's name in the folder of `Server.write_kubeconfig`.
KUBECONFIG: Final = "kubeconfig"
_READ_BYTES: Final = 256 * 1024


class PlaneServer:
    """The sockets of one control plane.

    Attributes:
        host, port: where it listens; the port is set by `start`.
    """

    def __init__(self, plane: ControlPlane, host: str = "127.0.0.1", port: int = 0) -> None:
        self.host = host
        self.port = port
        self._plane = plane
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        plane.on_away(self._abort_all)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is in use.
        """
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and break all connections."""
        if self._server is not None:
            self._server.close()
        self._abort_all()
        if self._server is not None:
            await self._server.wait_closed()

    def write_kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig for this server into a folder, and return its path.

        It is JSON, which is YAML too.

        Raises:
            OSError: the folder cannot be written to.
        """
        path = folder / KUBECONFIG
        path.write_text(json.dumps(kubeconfig(f"http://{self.host}:{self.port}")))
        return path

    def _abort_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._plane.faults.is_away:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, BadRequest):
            writer.transport.abort()
        except asyncio.CancelledError:  # at the end of the program
            # Python 3.11 would report a cancelled task as an error of the loop.
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = RequestParser()
        while data := await reader.read(_READ_BYTES):
            for request in parser.feed(data):
                response = await self._plane.send(
                    request.method,
                    request.target,
                    request.body,
                    request.header("content-type"),
                    request.header("user-agent"),
                )
                if isinstance(response, PlaneWatch):
                    await self._stream(response, reader, writer)
                    return
                writer.write(_rendered(request, response))
                await writer.drain()

    async def _stream(
        self, watch: PlaneWatch, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send a watch until it ends or the client closes the connection."""
        head = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
        writer.write(render_head(200, [*head, ("Connection", "close")]))
        leaving = asyncio.ensure_future(_closed(reader, watch))
        try:
            async for line in watch.lines():
                if writer.is_closing():
                    return
                writer.write(render_chunk(line))
                await writer.drain()
            if not writer.is_closing():
                writer.write(render_chunk(b""))
        finally:
            self._plane.released(watch)
            leaving.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await leaving


async def _closed(reader: asyncio.StreamReader, watch: PlaneWatch) -> None:
    """End a watch when its client closes the connection."""
    try:
        while await reader.read(_READ_BYTES):
            pass
    finally:
        watch.close()


def _rendered(request: PodRequest, response: PlaneResponse) -> bytes:
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        *([("Retry-After", str(response.retry_after))] if response.retry_after else ()),
    ]
    return render_head(response.status, headers) + response.body


def kubeconfig(url: str) -> Mapping[str, Any]:
    """Return a kubeconfig for an API server without authentication."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": url}}],
        "users": [{"name": "lab", "user": {"token": "lab"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    }
