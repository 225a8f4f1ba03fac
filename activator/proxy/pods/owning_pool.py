"""What connections to a pod, and attempts to open one, ask of the pool they belong to."""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from activator.proxy.exchange.sides import PodPool, PodSide, Requester
from activator.proxy.message.version import Version
from activator.proxy.pods.capacity import Capacity
from activator.proxy.pods.resources import Resources
from activator.proxy.pods.target import Target


class OwningPool(PodPool):
    """The pool of one pod.

    Attributes:
        resources: what the pools of all pods share.
        target: where the pod is; capacity: how many streams of HTTP/2 it takes.
        may_have_idle: whether ``resources`` searches it for idle connections.
        known_as: the only version of HTTP that the pod was found to speak; None for not known.
        speaks_http1: whether the pod has responded in HTTP/1, to a request or to a probe.
        gone: whether it keeps no connection, since the pod is gone or not trusted any more.
    """

    resources: Resources
    target: Target
    capacity: Capacity
    may_have_idle: bool
    known_as: Version | None
    speaks_http1: bool
    gone: bool

    @abstractmethod
    def opened(self, transport: asyncio.BaseTransport) -> None:
        """Count a new connection."""

    @abstractmethod
    def closed(self, connection: object) -> None:
        """Forget a connection that has closed."""

    @abstractmethod
    def put(self, side: PodSide) -> None:
        """Keep a connection in HTTP/1 for the next request, or close it where there are enough."""

    @abstractmethod
    def became_idle(self) -> None:
        """Record that no request is left on a connection in HTTP/2."""

    @abstractmethod
    def speaks(self, version: Version) -> None:
        """Record the only version of HTTP that the pod was found to speak."""

    @abstractmethod
    def closed_unsettled(self) -> None:
        """Record that the pod closed a connection in HTTP/2 before it sent its settings."""

    @abstractmethod
    def failed(self, error: str, version: Version) -> str:
        """Record that a connection could not be opened; return where and why, for people.

        Arguments:
            version: the version of HTTP that the connection was for.
        """

    @abstractmethod
    def take_idle(self, *, http2: bool) -> object | None:
        """Return a connection that can take a request now; None without one."""

    @abstractmethod
    def dialed(self) -> None:
        """Record that a connection in HTTP/1 was opened."""

    @abstractmethod
    def end_dial(self, connection: object | None) -> None:
        """Record that the attempt to open a connection in HTTP/2 is over.

        Arguments:
            connection: what it has opened; None where it has failed.
        """

    @abstractmethod
    def dial_shared(self, requester: Requester) -> None:
        """Open a connection in HTTP/2; all that ask meanwhile get the same."""
