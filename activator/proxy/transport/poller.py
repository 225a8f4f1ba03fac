"""Watches sockets by an epoll of its own, which the loop watches.

The loop's readers would take six times as many calls of the kernel. And the loop watches no socket
for others that has a transport.
"""

from __future__ import annotations

import asyncio
import select
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any, Final, final

# Not every system has epoll; see tcp.clients.TcpClients.
READ: Final[int] = getattr(select, "EPOLLIN", 1)
WRITE: Final[int] = getattr(select, "EPOLLOUT", 4)
#: The kernel always reports both.
ERROR: Final[int] = getattr(select, "EPOLLERR", 8)
ENDED: Final[int] = getattr(select, "EPOLLHUP", 16)
#: Sockets that are served in one turn of the loop; others wait for the next turn.
_PER_TURN: Final = 64


class Watched(ABC):
    """Handles the events of a socket.

    Attributes:
        fd: the number of the socket.
    """

    __slots__ = ("fd",)

    fd: int

    @abstractmethod
    def ready(self, events: int) -> None:
        """Handle events of the socket; see Poller."""


@final
class Poller:
    """Watches the sockets of many connections, from the first one on, each for one owner."""

    __slots__ = ("_added", "_epoll", "_loop", "_watched")

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        # uvloop's remove_reader returns None; a compiled class would insist on its declared bool.
        self._loop: Any = None
        self._watched: dict[int, Watched] = {}
        self._added: set[int] = set()

    def watch(self, watched: Watched, events: int) -> None:
        """Call ``ready`` for these events of a socket, and for errors, from now on."""
        epoll, fd = self._epoll, watched.fd
        if epoll is None:
            epoll = self._epoll = select.epoll()
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(epoll.fileno(), self._on_ready)
        if self._watched.get(fd) is watched:
            epoll.modify(fd, events)
        else:
            epoll.register(fd, events)
            self._watched[fd] = watched
            self._added.add(fd)

    def remove(self, watched: Watched) -> None:
        """Remove a socket that is closed next: the kernel then removes it too."""
        self._watched.pop(watched.fd, None)

    def ignore(self, watched: Watched) -> None:
        """Report nothing about a socket until it is watched again; it may be closed already."""
        if self._epoll is not None and self._watched.get(watched.fd) is watched:
            del self._watched[watched.fd]
            with suppress(OSError):
                self._epoll.unregister(watched.fd)

    def close(self) -> None:
        """Watch no more."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None
            self._watched.clear()

    def _on_ready(self) -> None:
        epoll, watched = self._epoll, self._watched
        if epoll is None:
            return
        self._added.clear()
        for fd, events in epoll.poll(0, _PER_TURN):
            # An earlier one may have closed the socket, and another may have its number now.
            found = None if fd in self._added else watched.get(fd)
            if found is not None:
                found.ready(events)
