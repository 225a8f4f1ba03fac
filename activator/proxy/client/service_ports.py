"""Listens on the ports that belong to one plain Service each, as they come and go.

The scaler allots such a port, and makes the activator an endpoint of the Service there. So the port
alone names the Service. A port that cannot be bound is tried again and affects no other port.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from activator.proxy.client.listener import BindError, PausingListener, listen, service_listener
from activator.proxy.client.proxy import Proxy
from activator.proxy.exchange.lookup import ClientPort
from activator.records.change_log import identity
from throttler.model import RevisionID, ServiceRoute

logger = logging.getLogger(__name__)

_MAX_PORT: Final = 65_535
#: Seconds until a port that could not be bound is tried again.
RETRY: Final = 5.0
#: Seconds for which an HTTP/2 client with a stream open all the time keeps its connection, although
#: a new one would reach the pods.
PATIENCE: Final = 10.0
#: Seconds for which a port stays open after its slice is gone or has another port. The proxies of
#: nodes and ingresses follow slices late, and would have their clients refused.
LINGER: Final = 10.0


class ServicePort:
    """The port of one Service.

    Attributes:
        number: the port.
        port: the record of its connections.
        listener: None while it cannot be bound.
        error: why it cannot be bound, as logged; empty if it is.
        timer: when the port begins to insist on new connections.
        end: when the port closes; None while its Service has it.
    """

    def __init__(self, service: RevisionID, number: int) -> None:
        self.number = number
        self.port = ClientPort(str(service).encode("latin-1", "replace"))
        self.listener: PausingListener | None = None
        self.error = ""
        self.timer: asyncio.TimerHandle | None = None
        self.end: asyncio.TimerHandle | None = None

    def set_reconnect(self, on: bool) -> None:
        """Ask clients to reconnect from now on, or no more."""
        if on is self.port.reconnect:
            return
        self.port.reconnect = on
        self.port.insists = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if on:
            self.timer = asyncio.get_running_loop().call_later(PATIENCE, self._insist)

    def _insist(self) -> None:
        self.port.insists = True

    def close(self) -> None:
        """Accept no more clients; open connections stay."""
        for timer in (self.timer, self.end):
            if timer is not None:
                timer.cancel()
        if self.listener is not None:
            self.listener.close()


class ServicePorts:
    """The ports of all Services.

    Arguments:
        proxy: the objects that all connections share.
        host: the address to bind.

    Attributes:
        ports: the ports, by Service; only this class changes them.
    """

    def __init__(self, proxy: Proxy, host: str) -> None:
        self._proxy = proxy
        self._host = host
        self._routes: dict[RevisionID, ServiceRoute] = {}
        self.ports: dict[RevisionID, ServicePort] = {}
        self._ending: dict[int, ServicePort] = {}
        self._started = False
        self._retry: asyncio.TimerHandle | None = None

    def set_route(self, service: RevisionID, route: ServiceRoute) -> None:
        """Listen on the port of a Service; see driver.Driver.on_route.

        A port that a known Service no longer has stays open for ``LINGER`` seconds. Without hosts,
        the Service is unknown, and the port closes at once.
        """
        if 0 < route.port <= _MAX_PORT:
            self._routes[service] = route
        else:
            self._routes.pop(service, None)
        if self._started:
            self._apply(service, is_known=bool(route.hosts))

    def start(self) -> None:
        """Open all ports, because the activator is ready for requests."""
        self._started = True
        for service in self._routes:
            self._apply(service)

    def close(self) -> None:
        """Close all ports at once; open connections stay."""
        self._started = False
        for port in (*self.ports.values(), *self._ending.values()):
            port.close()
        self.ports.clear()
        self._ending.clear()
        if self._retry is not None:
            self._retry.cancel()

    def numbers(self) -> dict[RevisionID, int]:
        """Return the open ports."""
        return {id: port.number for id, port in self.ports.items() if port.listener is not None}

    def _apply(self, service: RevisionID, *, is_known: bool = True) -> None:
        """Open or close the port of a Service, as its route demands."""
        route, port = self._routes.get(service, ServiceRoute()), self.ports.get(service)
        if not is_known:
            self._close_all_ending(service)
        if port is not None and port.number != route.port:
            del self.ports[service]
            self._leave(port, LINGER if is_known else 0.0)
            port = None
        if port is None and route.port:
            port = self.ports[service] = self._take(service, route.port)
        if port is None:
            return
        if port.listener is None:
            self._open(service, port)
        port.set_reconnect(route.reconnect)

    def _leave(self, port: ServicePort, seconds: float) -> None:
        """Close a port later, so that connections that are on their way find it open."""
        if port.listener is None or not seconds:
            port.close()
            return
        port.set_reconnect(True)
        self._ending[port.number] = port
        port.end = asyncio.get_running_loop().call_later(seconds, self._close_ending, port.number)

    def _close_ending(self, number: int) -> None:
        self._ending.pop(number).close()

    def _close_all_ending(self, service: RevisionID) -> None:
        name = str(service).encode("latin-1", "replace")
        for number in [n for n, port in self._ending.items() if port.port.service == name]:
            self._close_ending(number)

    def _take(self, service: RevisionID, number: int) -> ServicePort:
        """Return the port of a Service; the same one again if it has not closed yet."""
        port = ServicePort(service, number)
        ending = self._ending.pop(number, None)
        if ending is None:
            return port
        if ending.port.service != port.port.service or ending.end is None:
            ending.close()
            return port
        ending.end.cancel()
        ending.end = None
        return ending

    def _open(self, service: RevisionID, port: ServicePort) -> None:
        about = identity(service)
        try:
            sock = listen(self._host, port.number, f"the port of service {service}")
        except BindError as error:
            if str(error) != port.error:
                port.error = str(error)
                logger.warning("%s; trying again every %g s", error, RETRY, extra=about)
            self._try_again()
            return
        logger.info("listening on port %d of service %s", port.number, service, extra=about)
        port.error = ""
        port.listener = service_listener(self._proxy, sock, port.port)

    def _try_again(self) -> None:
        if self._retry is None:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(RETRY, self._open_missing)

    def _open_missing(self) -> None:
        self._retry = None
        for service, port in self.ports.items():
            if port.listener is None:
                self._open(service, port)
