"""Random choice: each request goes to any listed pod at once, as with kube-proxy."""

from __future__ import annotations

from random import Random
from typing import final

from benchmarks.simulation.pods import Pod
from benchmarks.simulation.requests import Network, Request
from throttler.model import ListedEndpoints


@final
class RandomChoice:
    """One proxy without limits. It queues requests only while no pod is listed as ready."""

    def __init__(self, network: Network, random: Random) -> None:
        self._network = network
        self._random = random.random
        self._addresses: list[str] = []
        self._waiting: list[Request] = []

    def arrived(self, request: Request) -> None:
        """See Activator."""
        if self._addresses:
            self.assigned(request)
        else:
            self._waiting.append(request)
            self._network.began_waiting(request)

    def assigned(self, request: Request) -> None:
        """See Activator."""
        chosen = self._addresses[int(self._random() * len(self._addresses))]
        self._network.send(request, chosen)

    def expired(self, request: Request) -> None:
        """See Activator."""
        self._network.failed(request)

    def ended(self, request: Request, pod: Pod) -> None:
        """See Activator."""

    def refused(self, request: Request, pod: Pod) -> None:
        """See Activator."""
        self._network.failed(request)

    rejected = lost = refused

    def set_endpoints(self, listed: ListedEndpoints) -> None:
        """See Activator."""
        self._addresses = sorted(endpoint.address for endpoint in listed.ready)
        if self._addresses:
            waiting, self._waiting = self._waiting, []
            for request in waiting:
                self.assigned(request)

    def set_activators(self, addresses: frozenset[str]) -> None:
        """See Activator."""
