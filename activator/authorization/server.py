"""Holds the connections to one authorization server, and the requests that wait for one of them.

A request costs O(1), however many wait. A server that hangs occupies only its own connections.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from activator.authorization.sub_request import BROKEN, LONGEST, UNREADY, Connection, cause
from activator.process.named_host import connected

if TYPE_CHECKING:  # they hold each other
    from activator.authorization.authorizer import Authorizer, Check

#: Scheme, host and port of a server: URLs with the same ones share its limits.
Origin = tuple[str, str, int]

#: Most connections to one server, and to all servers. Each carries one sub-request. A server may
#: have as many as the others leave free.
MOST_AT_ONCE: Final = 32
MOST_CONNECTIONS: Final = 128
#: Seconds until an idle connection closes.
_IDLE: Final = 15.0


class Server:
    """The server at one address.

    Arguments:
        authorizer: has the limits of all servers, and decides.
        origin: the address.

    Attributes:
        authorizer: see above.
        bytes: of the requests without a decision.
        connections: the open ones.
    """

    def __init__(self, authorizer: Authorizer, origin: Origin) -> None:
        self.authorizer = authorizer
        self._origin = origin
        self._waiting: OrderedDict[Check, None] = OrderedDict()
        self._dialing = 0
        self._idle: list[Connection] = []
        self.connections: set[Connection] = set()
        self.bytes = 0

    def add(self, check: Check) -> None:
        """Send a sub-request as soon as a connection is free."""
        self._waiting[check] = None
        self._go_on()

    def remove(self, check: Check) -> None:
        """Forget a request. A connection that has its sub-request closes."""
        self._waiting.pop(check, None)
        if check.connection is not None and check.connection.check is check:
            check.connection.transport.abort()
        self._go_on()

    def _go_on(self) -> None:
        """Send what idle connections can carry, and open connections for the rest.

        The number of attempts grows with each that succeeds. So a server that is gone costs few,
        and its name is looked up once at a time.
        """
        waiting, authorizer = self._waiting, self.authorizer
        while waiting and self._idle:
            check, _ = waiting.popitem(last=False)
            if not authorizer.knows(check):
                self._idle.pop().send(check)
        own = len(self.connections)
        while len(waiting) > self._dialing <= own and own + self._dialing < min(
            MOST_AT_ONCE, MOST_CONNECTIONS - authorizer.connections
        ):
            self._dialing += 1
            authorizer.connections += 1
            authorizer.tasks.start(self._dial())
        if not (own or self._dialing or self.bytes):
            authorizer.servers.pop(self._origin, None)

    async def _dial(self) -> None:
        """Open a connection; if the server has no other, a failure decides about its requests."""
        scheme, host, port = self._origin
        connection, failure = Connection(self), UNREADY
        tls: dict[str, Any] = {}
        try:
            if scheme == "https":
                tls = {"ssl": await self.authorizer.trusted(), "server_hostname": host}
                tls |= {"ssl_handshake_timeout": LONGEST, "ssl_shutdown_timeout": LONGEST}
            failure = BROKEN
            async with asyncio.timeout(LONGEST):
                sock = await connected(host, port)
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection, sock=sock, **tls)
        except (OSError, ValueError) as error:
            failure = UNREADY if failure is UNREADY else cause(error)
        finally:
            self._dialing -= 1
            if not connection.is_made:
                self.authorizer.connections -= 1
        if connection in self.connections:
            self.released(connection)
            return
        while self._waiting and not self.connections:
            check, _ = self._waiting.popitem(last=False)
            self.authorizer.decide(check, failure)
        self._go_on()

    def released(self, connection: Connection) -> None:
        """Use a connection for the next request, or keep it for a while."""
        self._idle.append(connection)
        self._go_on()
        if connection.check is None:
            connection.expire_in(_IDLE)

    def closed(self, connection: Connection, check: Check | None, *, again: bool) -> None:
        """Count a connection that has closed.

        Arguments:
            connection: the connection.
            check: the request on it; None without one.
            again: whether the request may be sent again.
        """
        self.connections.discard(connection)
        self.authorizer.connections -= 1
        if connection in self._idle:
            self._idle.remove(connection)
        if check is not None and not again:
            self.authorizer.decide(check, BROKEN)
        elif check is not None and check.owner is not None:
            self._waiting[check] = None
            self._waiting.move_to_end(check, last=False)
        self._go_on()
