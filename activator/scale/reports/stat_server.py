"""Receives the reports of the activators: the server side of Knative's stat WebSocket.

Knative's counterpart: pkg/autoscaler/statserver. As there, a kubelet probe on the port gets 200,
text frames and messages without a stat are ignored, and the end of the server is announced by
close code 1012.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hmac import compare_digest
from http import HTTPStatus
from itertools import count
from math import inf
from typing import Final

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from activator.autoscaler.concurrency import Stat
from activator.autoscaler.token import bearers
from activator.autoscaler.wire import decoding
from activator.knative.words import KUBELET_AGENT
from activator.scale.reports.load import Loads, Report, ServiceName
from throttler.model import RevisionKind

logger = logging.getLogger(__name__)

#: Bytes of a frame: a report about 10,000 Services with long names has 2.2 MiB.
MOST_BYTES: Final = 3 << 20
#: Connections at a time; each activator has one.
MOST_CONNECTIONS: Final = 1000
#: Close code by which a peer knows that it should connect again (RFC 6455 section 7.4).
_RESTARTING: Final = 1012
#: Seconds between two log lines about refused tokens.
_LOG_AGAIN: Final = 60.0
#: How the User-Agent of kubelet's probes begins.
_KUBELET: Final = KUBELET_AGENT.decode()
#: Seconds between two pings, and to the pong.
_PING: Final = 10.0


class StatServer:
    """Listens for activators.

    Arguments:
        loads: records the reports.
        clock: seconds, monotonic.
        is_leader: returns whether this process decides. While it does not, activators are refused
            with 503, and connect again.
        on_busy: called with the Services of a report that have requests.
        token_file: an activator must send one of its tokens; empty for none.
        on_routes: called with the name of an activator's pod, and its reports of route objects.

    Attributes:
        garbled: frames that cannot be decoded as reports.
    """

    def __init__(
        self,
        loads: Loads,
        clock: Callable[[], float],
        is_leader: Callable[[], bool],
        on_busy: Callable[[list[ServiceName]], None],
        token_file: str = "",
        on_routes: Callable[[str, list[Report]], None] | None = None,
    ) -> None:
        self._on_routes = on_routes
        self._loads = loads
        self._clock = clock
        self._is_leader = is_leader
        self._on_busy = on_busy
        self._token_file = token_file
        self._refused_at = -inf
        self._numbers = count(1)
        self._server: Server | None = None
        self.garbled = 0

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port.

        Raises:
            OSError: the address is in use, or not an address of this machine.
        """
        self._server = await serve(
            self._serve,
            host,
            port,
            process_request=self._admit,
            compression=None,
            max_size=MOST_BYTES,
            max_queue=1,
            ping_interval=_PING,
            ping_timeout=_PING,
            close_timeout=1.0,
            server_header=None,
        )
        return int(next(iter(self._server.sockets)).getsockname()[1])

    async def close(self) -> None:
        """Close the listener and all connections, so that the activators find the next leader."""
        if self._server is not None:
            self.disconnect_all()
            self._server.close()
            await self._server.wait_closed()

    def disconnect_all(self) -> None:
        """End all connections: this process no longer decides."""
        for connection in list(self._server.connections) if self._server else ():
            asyncio.get_running_loop().create_task(connection.close(_RESTARTING, "Restarting"))

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return the response that refuses a connection; None to accept it."""
        if any(each.startswith(_KUBELET) for each in request.headers.get_all("User-Agent")):
            return connection.respond(HTTPStatus.OK, "ok\n")
        if self._token_file and (problem := self._problem_of(request)):
            if self._clock() - self._refused_at > _LOG_AGAIN:
                self._refused_at = self._clock()
                peer = connection.remote_address[0]
                logger.warning("%s: refused with 401 on the port for activators: %s", peer, problem)
            return connection.respond(HTTPStatus.UNAUTHORIZED, "a valid token is required\n")
        if not self._is_leader():
            return connection.respond(
                HTTPStatus.SERVICE_UNAVAILABLE, "this scaler is not the leader\n"
            )
        if self._loads.activators >= MOST_CONNECTIONS:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections\n")
        return None

    def _problem_of(self, request: Request) -> str:
        """Return why the token of a request is not accepted; empty if it is."""
        sent = ", ".join(request.headers.get_all("Authorization")).encode(errors="replace")
        try:
            if any(compare_digest(sent, each) for each in bearers(self._token_file)):
                return ""
        except OSError as error:
            return f"no token is accepted: {error}"
        return f"{'its token is none' if sent else 'it sent none'} of {self._token_file}"

    async def _serve(self, connection: ServerConnection) -> None:
        number = next(self._numbers)
        self._loads.connected(number, self._clock(), str(connection.remote_address[0]))
        try:
            async for frame in connection:
                if isinstance(frame, bytes):
                    await self._record(number, frame, connection)
        except ConnectionClosed:
            logger.debug("an activator's connection broke", exc_info=True)
        finally:
            self._loads.disconnected(number, self._clock())

    async def _record(self, number: int, frame: bytes, connection: ServerConnection) -> None:
        """Record the reports of a frame, in steps; other tasks run between them."""
        steps: list[list[Stat]] = []
        pods: set[str] = set()
        try:
            for stats, names in decoding(frame):
                if steps:
                    await asyncio.sleep(0)
                steps.append(stats)
                pods |= names
        except ValueError as error:
            self.garbled += 1
            if self.garbled == 1:
                peer = connection.remote_address[0]
                logger.warning("%s: a frame cannot be decoded as a report: %s", peer, error)
            return
        pod = min(pods, default="")
        for stats in steps or [[]]:
            services: list[Report] = []
            routes: list[Report] = []
            for (namespace, name, kind), concurrency, requests in stats:
                report = Report.of(ServiceName(namespace, name), concurrency, requests)
                (routes if kind is RevisionKind.HTTP_ROUTE else services).append(report)
            busy = self._loads.record(number, pod, services, self._clock())
            if busy:
                self._on_busy(busy)
            if routes and self._on_routes is not None:
                self._on_routes(pod, routes)
            if len(steps) > 1:
                await asyncio.sleep(0)
