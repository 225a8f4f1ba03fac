"""The pods of one revision as Kubernetes keeps them, and the objects that speak of them.

Starts and stops pods when told to, and keeps the Endpoints object equal to what kubelet says of
them. How many there should be is decided elsewhere. Knative's counterpart: a Revision's Deployment
with the ServerlessService's private Endpoints (pkg/reconciler/serverlessservice).
"""

from __future__ import annotations

from asyncio import Task, TaskGroup
from collections.abc import Callable
from pathlib import Path

from activator.lab.addresses import AddressPool, Place
from activator.lab.checks import Probes
from activator.lab.kubelet import PodProcess
from activator.lab.objects import Object, PodAddress, private_endpoints, write_object
from activator.lab.pod import PodOptions

#: Takes the name of what happened, the pod's name (empty if it is of none), and details.
Tell = Callable[..., None]


class Deployment:
    """One revision's pods.

    Attributes:
        pods: those whose processes live, with where they listen.
        tasks: of each such pod; cancelling one ends its process.
    """

    def __init__(self, folder: Path, revision: Object, tell: Tell, addresses: AddressPool) -> None:
        """Writes the Revision, and Endpoints without pods, into the existing folder.

        Arguments:
            tell: called with (what happened, pod, details by name); must return at once.

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
        self.pods: dict[PodProcess, Place] = {}
        self.tasks: dict[PodProcess, Task[None]] = {}
        write_object(folder, revision)
        self.publish()

    @property
    def running(self) -> list[PodProcess]:
        """The pods that are not told to stop."""
        return [pod for pod in self.pods if not pod.stopping]

    def start_pod(
        self,
        tasks: TaskGroup,
        probes: Probes,
        options: Callable[[str, Place], PodOptions],
        ended: Callable[[PodProcess], None] = lambda pod: None,
    ) -> PodProcess:
        """Starts one more pod; the caller must `publish` when it has started all.

        Arguments:
            options: makes the pod's options of its name and place.
            ended: called when its process has ended, however that came.
        """
        place = self._addresses.take()
        self._started += 1
        made = options(f"{self.name}-{self._started}", place)
        pod = PodProcess(made, self._pod_told, probes=probes)
        self.pods[pod] = place
        self._tell("started", made.name, address=str(place), switches=place.switches)
        self.tasks[pod] = tasks.create_task(self._accompany(pod, ended))
        return pod

    async def _accompany(self, pod: PodProcess, ended: Callable[[PodProcess], None]) -> None:
        try:
            await pod.run()
        finally:
            self._addresses.give_back(self.pods.pop(pod))
            del self.tasks[pod]
            ended(pod)
            self.publish()

    def _pod_told(self, pod: PodProcess, kind: str, **details: object) -> None:
        if kind in ("ready", "not ready"):
            self.publish()
        self._tell(kind, pod.options.name, **details)

    def publish(self) -> None:
        """Writes the Endpoints, if they are not as they were."""
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
