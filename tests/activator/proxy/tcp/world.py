"""A proxy with one TCP Service, between clients and pods that send and receive plain bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from activator.proxy.client.connection import ClientPort
from activator.proxy.client.listener import listen, service_listener
from activator.proxy.tcp.clients import TcpClients
from tests.activator.proxy.world import NAME, NAMESPACE, Client, World, turns, until
from tests.ports import hold, port_of
from throttler.model import (
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    Policies,
    RevisionID,
    RevisionKind,
)
from throttler.request_policies import ConnectionPolicies
from throttler.revision import RevisionThrottler

SERVICE = RevisionID(NAMESPACE, NAME, RevisionKind.SERVICE)


class TcpPod:
    """A pod that records its connections; each is a ``Client`` at the other end.

    Attributes:
        on_connect: called with each new connection.
    """

    hole = False

    def __init__(self) -> None:
        self.connections: list[Client] = []
        self.on_connect: Callable[[Client], object] = lambda _: None
        self._place = hold()
        self.port = port_of(self._place)
        self._server: asyncio.Server | None = None

    @property
    def listening(self) -> bool:
        return self._server is not None

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"127.0.0.1:{self.port}", f"uid-{self.port}")

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept, "127.0.0.1", self.port, reuse_address=True
        )

    def _accept(self) -> Client:
        connection = _Accepted(self)
        self.connections.append(connection)
        return connection

    async def refuse(self) -> None:
        """Close the listener: the kernel refuses connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
            await turns()

    async def close(self) -> None:
        await self.refuse()
        self._place.close()
        for connection in self.connections:
            if hasattr(connection, "transport"):
                connection.transport.abort()


class _Accepted(Client):
    def __init__(self, pod: TcpPod) -> None:
        super().__init__()
        self._pod = pod

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._pod.on_connect(self)


class TcpWorld(World):
    """The proxy's world, and the port of a TCP Service; ``client`` connects to this port.

    Attributes:
        tcp: the objects of all connections.
        throttler: of the Service.
    """

    throttler: RevisionThrottler

    async def start(self, **settings: Any) -> None:
        await super().start(**settings)
        self.tcp = TcpClients(self.proxy)
        sock = listen("127.0.0.1", 0, "a test")
        self.port = sock.getsockname()[1]
        self._listener = service_listener(self.proxy, sock, ClientPort(b"ns/rev"))
        self._listener.accept = partial(self.tcp.accept, SERVICE)

    def set(
        self, *pods: TcpPod, connections: ConnectionPolicies | None = None, **spec: Any
    ) -> None:
        """Set the Service and its ready pods."""
        policies = spec.pop("policies", Policies())
        chosen = connections or ConnectionPolicies()
        self.throttler = self.serve(
            protocol=AppProtocol.TCP,
            policies=Policies(
                order=policies.order,
                hash_key=policies.hash_key,
                sticky=policies.sticky,
                requests=policies.requests,
                connections=chosen,
            ),
            **spec,
        )
        self.pods = [*self.pods, *pods]  # type: ignore[list-item] # they have all that is used
        self.put(*pods)

    def put(self, *pods: TcpPod, ending: tuple[TcpPod, ...] = ()) -> None:
        """List these pods."""
        ready, terminating = (frozenset(pod.endpoint for pod in each) for each in (pods, ending))
        listed = ListedEndpoints(ready, terminating=terminating)
        self.driver.set_endpoints(SERVICE, {AppProtocol.TCP: listed})

    async def up(self, pods: int = 1, **spec: Any) -> list[TcpPod]:
        """Set the Service, with pods that are healthy."""
        found = [TcpPod() for _ in range(pods)]
        for pod in found:
            await pod.listen()
        self.set(*found, **spec)
        await until(lambda: self.throttler.statistics().healthy == pods)
        return found

    async def asleep(self, **spec: Any) -> TcpPod:
        """Set the Service with no pod; return a pod that may start."""
        self.set(**spec)
        pod = TcpPod()
        self.pods.append(pod)  # type: ignore[arg-type] # it has all that is used
        return pod

    async def start_pod(self, pod: TcpPod) -> None:
        """Let a pod listen, and list it."""
        await pod.listen()
        self.put(pod)

    async def other(self) -> tuple[TcpPod, Client]:
        """Set another TCP Service, with one healthy pod; return the pod and a client."""
        pod = TcpPod()
        await pod.listen()
        self.pods.append(pod)  # type: ignore[arg-type] # it has all that is used
        throttler = self.serve(
            name="other",
            protocol=AppProtocol.TCP,
            policies=Policies(connections=ConnectionPolicies()),
        )
        listed = ListedEndpoints(frozenset((pod.endpoint,)))
        self.driver.set_endpoints(throttler.revision.id, {AppProtocol.TCP: listed})
        await until(lambda: throttler.statistics().healthy)
        sock = listen("127.0.0.1", 0, "a test")
        listener = service_listener(self.proxy, sock, ClientPort(b"ns/other"))
        listener.accept = partial(self.tcp.accept, throttler.revision.id)
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(Client, *sock.getsockname())
        self.clients.append(client)
        await until(lambda: pod.connections)
        listener.close()
        return pod, client

    @property
    def load(self) -> int:
        """The connections that count as load now."""
        return self.loads[SERVICE].now if SERVICE in self.loads else 0

    def outcomes(self) -> dict[str, int]:
        """Return the ended connections by outcome."""
        counts = self.driver.entries.of(SERVICE).counters.outcomes
        return {outcome: count for outcome, count in counts.items() if count}

    async def close(self) -> None:
        self._listener.close()
        await super().close()
        self.tcp.poller.close()
