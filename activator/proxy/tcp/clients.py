"""Accepts the connections of TCP Services, and has the objects that all of them share."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

from activator.proxy.client.proxy import Proxy
from activator.proxy.tcp.connection import TcpConnection
from activator.proxy.tcp.side import Side
from activator.proxy.transport.peer_socket import PeerKind
from activator.proxy.transport.poller import Poller
from throttler.errors import RevisionNotFound
from throttler.model import RevisionID

logger = logging.getLogger(__name__)


@final
class TcpClients:
    """The objects that the connections of all TCP Services share.

    Arguments:
        proxy: what they share with the connections of HTTP.

    Attributes:
        poller: watches all sockets.
        resting: connections on which no bytes pass, of Services with ``keep-awake: bytes``.
    """

    __slots__ = (
        *("clock", "connect_timeout", "driver", "files", "poller", "pools", "proxy"),
        *("resting", "services"),
    )

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.services = proxy.services
        self.driver, self.pools, self.files = proxy.driver, proxy.pools, proxy.files
        self.clock: Callable[[], float] = proxy.clock
        self.connect_timeout = proxy.pools.resources.limits.connect_timeout
        self.poller = Poller()
        self.resting: set[TcpConnection] = set()
        self.driver.on_pods = self.end_idle

    def accept(self, service: RevisionID, client: socket.socket, peer: Any) -> None:
        """Begin a connection; beyond the limit of files, close it at once.

        Arguments:
            service: the Service of the port.
            client: the accepted socket, which does not block.
            peer: the address of the client.
        """
        proxy = self.proxy
        try:
            entry = self.driver.entries.of(service)
        except RevisionNotFound:
            client.close()
            return
        if not proxy.find_room():
            proxy.count_turned_away()
            with suppress(OSError):
                client.shutdown(socket.SHUT_WR)
            client.close()
            proxy.files.freed()
            return
        connection = TcpConnection(self, entry, client, peer)
        proxy.connections.add(connection)
        connection.begin()

    def side(self, connection: TcpConnection, sock: socket.socket, kind: PeerKind) -> Side:
        """Return one side of a connection."""
        return Side(connection, sock, kind, self.poller, self.pools.resources.splices)

    def end_idle(self, _service: RevisionID) -> None:
        """Close the connections without bytes whose pod ends; see driver.Driver.on_pods."""
        for connection in list(self.resting):
            connection.end_idle()
