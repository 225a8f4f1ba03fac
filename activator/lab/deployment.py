"""The pods of one revision, with the Revision and Endpoints objects that describe them.

It starts and stops pods on request, and writes the Endpoints when kubelet's view of a pod changes.
Knative's counterpart: a Revision's Deployment, and the ServerlessService's private Endpoints
(pkg/reconciler/serverlessservice).
"""

from __future__ import annotations

from asyncio import Task, TaskGroup
from collections.abc import Callable
from pathlib import Path

from activator.lab.addresses import AddressPool, PodPlace
from activator.lab.kubelet import PodProcess, Probes
from activator.lab.objects import Object, PodAddress, private_endpoints, write_object
from activator.lab.pod import PodOptions

#: Takes an event's kind, the pod's name (empty for an event of no pod), and details.
Tell = Callable[..., None]


class Deployment:
    """One revision's pods.

    Attributes:
        pods: each pod with a process, and its address.
        tasks: the task of each of these pods; cancelling it ends the process.
    """

    def __init__(self, folder: Path, revision: Object, tell: Tell, addresses: AddressPool) -> None:
        """Write the Revision, and Endpoints without pods, into the existing folder.

        Arguments:
            tell: called with each event: kind, pod, details by name; must return at once.

        Raises:
            OSError: the folder cannot be written to.
        """
        metadata = revision["metadata"]
        self.name: str = metadata["name"]
        self._namespace: str = metadata["namespace"]
        self._uid: str = metadata["uid"]
        self._folder = folder
        self._tell = tell
        self._addresses = addresses
        self._started = 0
        self._published: tuple[PodAddress, ...] | None = None
        self.pods: dict[PodProcess, PodPlace] = {}
        self.tasks: dict[PodProcess, Task[None]] = {}
        write_object(folder, revision)
        self.publish()

    @property
    def running(self) -> list[PodProcess]:
        """The pods that are not stopping."""
        return [pod for pod in self.pods if not pod.stopping]

    def start_pod(
        self,
        tasks: TaskGroup,
        probes: Probes,
        options: Callable[[str, PodPlace], PodOptions],
        ended: Callable[[PodProcess], None] = lambda pod: None,
    ) -> PodProcess:
        """Start one more pod; the caller must call `publish` after the last one.

        Arguments:
            tasks: gets the task that runs the pod.
            probes: the probes that kubelet runs on the pod.
            options: returns the pod's options for its name and place.
            ended: called when the pod's process has ended, for any cause.
        """
        place = self._addresses.take()
        self._started += 1
        made = options(f"{self.name}-{self._started}", place)
        pod = PodProcess(made, self._on_pod_event, probes=probes)
        self.pods[pod] = place
        self._tell("started", made.name, address=str(place), switches=place.switches)
        self.tasks[pod] = tasks.create_task(self._accompany(pod, ended))
        return pod

    async def _accompany(self, pod: PodProcess, ended: Callable[[PodProcess], None]) -> None:
        try:
            await pod.run()
        finally:
            self._addresses.release(self.pods.pop(pod))
            del self.tasks[pod]
            ended(pod)
            self.publish()

    def _on_pod_event(self, pod: PodProcess, kind: str, **details: object) -> None:
        if kind in ("ready", "not ready"):
            self.publish()
        self._tell(kind, pod.options.name, **details)

    def publish(self) -> None:
        """Write the Endpoints if they have changed."""
        listed = tuple(
            PodAddress(place.ip, place.port, pod.uid, pod.options.name, pod.ready)
            for pod, place in self.pods.items()
            if not pod.stopping
        )
        if listed == self._published:
            return
        self._published = listed
        found = private_endpoints(
            self.name, listed, namespace=self._namespace, revision_uid=self._uid
        )
        write_object(self._folder, found)
        ready = [pod.name for pod in listed if pod.ready]
        self._tell("listed", "", ready=ready, not_ready=[p.name for p in listed if not p.ready])
