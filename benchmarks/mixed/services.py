"""Services and their pods, as Kubernetes runs and lists them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from time import monotonic

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
        ready: whether Endpoints lists it as ready.
        alive: whether its process runs.
        name: the name of the process; a restart changes it.
    """

    def __init__(self, name: str, ip: str, arrivals: Path) -> None:
        self._slot = name
        self._ip = ip
        self._arrivals = arrivals
        self._restarts = count(1)
        self._running = ExitStack()
        self.name = ""
        self.ready = False
        self.alive = False

    @property
    def listed(self) -> PodAddress:
        """Return the pod's entry in Endpoints."""
        return PodAddress(self._ip, POD_PORT, f"uid-of-{self._slot}", self._slot, self.ready)

    def start(self) -> None:
        """Start a process, and return when it listens."""
        self.name = f"{self._slot}.{next(self._restarts)}"
        arguments = self.name, f"{self._ip}:{POD_PORT}", str(self._arrivals)
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

    def terminate(self) -> None:
        """Begin its drain; it ends when it has no more requests."""
        self._helper.terminate()

    def drained(self) -> bool:
        """Wait for the end of its drain; return whether it ended by itself."""
        status = self._helper.ended(DRAIN_PATIENCE)
        self.close()
        return status == 0

    def close(self) -> None:
        """End the process at once."""
        if self.alive:
            self.kill()


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
        manifests: Path,
        address: Callable[[], str],
        arrivals: Path,
        *,
        h2c: bool = False,
    ) -> None:
        self.name = name
        self.pods: list[Pod] = []
        self.leaving: list[Pod] = []
        self._manifests = manifests
        self._address = address
        self._arrivals = arrivals
        self._h2c = h2c
        self._numbers = count(1)
        activator.write_revision(
            manifests, [], name=name, container_concurrency=CONTAINER_CONCURRENCY, h2c=h2c
        )

    def publish(self) -> None:
        """Write the Endpoints."""
        listed = [pod.listed for pod in self.pods]
        write_object(self._manifests, private_endpoints(self.name, listed, h2c=self._h2c))

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
