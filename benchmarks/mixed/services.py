"""Services and their pods, as Kubernetes runs and lists them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Protocol

from activator.lab.objects import PodAddress, private_endpoints, write_object
from benchmarks import activator
from benchmarks.helpers import helper
from benchmarks.mixed.verdict import Kill

POD_PORT = 8012
CONTAINER_CONCURRENCY = 50
#: Seconds for a pod to drain; the longest request takes less.
DRAIN_PATIENCE = 60.0


class Pod:
    """One pod: an address, and its present process.

    Attributes:
        ip: its address.
        ready: whether Endpoints lists it as ready.
        alive: whether its process runs.
        name: the name of the process; a restart changes it.
    """

    def __init__(self, name: str, ip: str, arrivals: Path) -> None:
        self._slot = name
        self.ip = ip
        self._arrivals = arrivals
        self._restarts = count(1)
        self._running = ExitStack()
        self.name = ""
        self.ready = False
        self.alive = False

    @property
    def listed(self) -> PodAddress:
        """Return the pod's entry in Endpoints."""
        return PodAddress(self.ip, POD_PORT, f"uid-of-{self._slot}", self._slot, self.ready)

    def start(self) -> None:
        """Start a process, and return when it listens."""
        self.name = f"{self._slot}.{next(self._restarts)}"
        arguments = self.name, f"{self.ip}:{POD_PORT}", str(self._arrivals)
        self._helper = self._running.enter_context(
            helper("mixed.pod", *arguments, log=f"pod-{self._slot}")
        )
        self._helper.receive()
        self.alive = True

    def kill(self) -> Kill:
        """Kill the process, and return when it is gone."""
        began = monotonic()
        self._helper.kill()
        self.alive = False
        self._running.close()
        return Kill(self.name, began, monotonic())

    def command(self, line: str) -> None:
        """Send a command, see :mod:`benchmarks.mixed.pod`; a dead pod gets none."""
        if self.alive:
            self._helper.send(line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, such as SIGSTOP."""
        if self.alive:
            self._helper.signal(number)

    def terminate(self) -> None:
        """Begin its drain; it ends when it has no more requests."""
        self._helper.terminate()

    def drained(self) -> bool:
        """Wait for the end of its drain; return whether it ended by itself."""
        status = self._helper.ended(DRAIN_PATIENCE)
        self.close()
        return status == 0

    def ended(self) -> float | None:
        """Return when the process ended, after its drain; None while it runs."""
        if self._helper.ended(0.0) is None:
            return None
        facts = self._helper.kill()
        return float(facts[-1]) if facts else monotonic()

    def close(self) -> None:
        """End the process at once."""
        if self.alive:
            self.kill()


class Publisher(Protocol):
    """Writes the objects of revisions."""

    def create(self, name: str, *, h2c: bool) -> None:
        """Write a revision without pods."""

    def publish(self, name: str, pods: Sequence[PodAddress], *, h2c: bool) -> None:
        """Write the Endpoints of a revision."""


class ManifestFolder:
    """Writes the objects into a folder, for `activator local`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, name: str, *, h2c: bool) -> None:
        """See `Publisher`."""
        activator.write_revision(
            self._folder, [], name=name, container_concurrency=CONTAINER_CONCURRENCY, h2c=h2c
        )

    def publish(self, name: str, pods: Sequence[PodAddress], *, h2c: bool) -> None:
        """See `Publisher`."""
        write_object(self._folder, private_endpoints(name, pods, h2c=h2c))


class Service:
    """One revision with its pods.

    Arguments:
        address: returns an address that no other pod has.
        arrivals: the file in which pods record requests that must arrive once.

    Attributes:
        pods: the pods in Endpoints.
        leaving: the pods that drain.
    """

    def __init__(
        self,
        name: str,
        publisher: Publisher,
        address: Callable[[], str],
        arrivals: Path,
        *,
        h2c: bool = False,
    ) -> None:
        self.name = name
        self.pods: list[Pod] = []
        self.leaving: list[Pod] = []
        self._publisher = publisher
        self._address = address
        self._arrivals = arrivals
        self._h2c = h2c
        self._numbers = count(1)
        publisher.create(name, h2c=h2c)

    def publish(self) -> None:
        """Write the Endpoints."""
        self._publisher.publish(self.name, [pod.listed for pod in self.pods], h2c=self._h2c)

    def start_pod(self) -> Pod:
        """Start a pod; it is listed as not ready with the next `publish`."""
        pod = Pod(f"{self.name}-{next(self._numbers)}", self._address(), self._arrivals)
        pod.start()
        self.pods.append(pod)
        return pod

    def set_ready(self, pod: Pod, ready: bool = True) -> None:
        """List a pod as ready, or not."""
        pod.ready = ready
        self.publish()

    def remove(self, pod: Pod) -> None:
        """Remove a pod from the Endpoints, then begin its drain."""
        self.pods.remove(pod)
        self.publish()
        pod.terminate()
        self.leaving.append(pod)

    def mend(self) -> None:
        """Start all pods that do not run, and make all ready; `publish` lists them."""
        for pod in self.pods:
            if not pod.alive:
                pod.start()
            pod.ready = True

    def empty(self) -> int:
        """Remove all pods; return how many did not finish their drain."""
        for pod in list(self.pods):
            self.remove(pod)
        return sum([not pod.drained() for pod in self.leaving])

    def close(self) -> None:
        """End all processes at once."""
        for pod in (*self.pods, *self.leaving):
            pod.close()
