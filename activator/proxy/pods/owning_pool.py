"""Declares the methods of a pool that its own connections and dials call."""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from activator.proxy.exchange.pod_pools import PodPool
from activator.proxy.exchange.pod_side import PodSide, Requester
from activator.proxy.message.fields import Version
from activator.proxy.pods.capacity import Capacity
from activator.proxy.pods.resources import Resources
from activator.proxy.pods.target import Target


class OwningPool(PodPool):
    """The pool of one pod.

    Attributes:
        resources: limits and budgets that the pools of all pods share.
        target: the pod's address; capacity: how many HTTP/2 streams the pod accepts.
        may_have_idle: whether ``resources`` searches this pool for idle connections.
        known_as: the only version of HTTP that the pod speaks; None if unknown.
        speaks_http1: whether the pod has responded in HTTP/1, to a request or to a probe.
        gone: whether the pool keeps no connections, because its pod is gone or no longer trusted.
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
        """Remove a connection that has closed."""

    @abstractmethod
    def put(self, side: PodSide) -> None:
        """Keep a connection in HTTP/1 for the next request; close it if there are enough."""

    @abstractmethod
    def became_idle(self) -> None:
        """Record that a connection in HTTP/2 has no request left."""

    @abstractmethod
    def speaks(self, version: Version) -> None:
        """Record that the pod speaks only this version of HTTP."""

    @abstractmethod
    def closed_early(self) -> None:
        """Record that the pod closed a connection in HTTP/2 before it sent its settings."""

    @abstractmethod
    def failed(self, error: str, version: Version) -> str:
        """Record that a connection failed to open; return the error for people.

        Arguments:
            error: the cause.
            version: the version of HTTP of the connection.
        """

    @abstractmethod
    def take_idle(self, *, http2: bool) -> object | None:
        """Return a connection that can carry a request now; None without one."""

    @abstractmethod
    def dialed(self) -> None:
        """Record that a connection in HTTP/1 is open."""

    @abstractmethod
    def end_dial(self, connection: object | None) -> None:
        """Record the end of an attempt to open a connection in HTTP/2.

        Arguments:
            connection: the open connection; None if the attempt failed.
        """

    @abstractmethod
    def dial_shared(self, requester: Requester) -> None:
        """Open a connection in HTTP/2; all requesters that call this meanwhile share it."""
