"""Declares the connections to pods, as abstract classes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from activator.proxy.exchange.pod_side import PodSide, Requester
from activator.proxy.message.request import Request
from activator.proxy.transport.files import FileBudget
from activator.proxy.transport.peer_socket import UnreadBytes
from throttler.pod import PodTracker


class PodPool(ABC):
    """The connections to one pod."""

    @abstractmethod
    def side_for(self, request: Request, *, fresh: bool) -> PodSide | None:
        """Return an idle connection or a stream for a request; None without one.

        Arguments:
            request: the request.
            fresh: whether no idle HTTP/1 connection may be used.
        """

    @abstractmethod
    def dial_for(self, requester: Requester, request: Request) -> None:
        """Open a connection for a request. ``on_connected`` or ``on_dial_failed`` follows."""

    @abstractmethod
    def count_responses(self) -> int:
        """Return how many HTTP/2 responses the pod has sent."""


class PodPools(ABC):
    """The connections to all pods.

    Attributes:
        files: the budget of open files.
        unread: the count of bytes that peers do not read.
    """

    files: FileBudget
    unread: UnreadBytes

    @abstractmethod
    def of(self, pod: PodTracker) -> PodPool:
        """Return the connections to a pod that requests use."""
