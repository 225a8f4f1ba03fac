"""The demo's service without Knative: a Deployment that ``activator scale`` scales.

The scaler is the real program, as a separate process. The lab's API server has the objects. The
demo's folder has copies for the activator.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Future, TaskGroup
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from activator.lab.addresses import AddressPool
from activator.lab.cluster import DemoEvent, DemoService
from activator.lab.control_plane.resources import DEPLOYMENTS, SERVICES, SLICES
from activator.lab.control_plane.store import ObjectChange
from activator.lab.controllers import Mirror
from activator.lab.local_activator import DidNotStart, LocalScaler
from activator.lab.objects import TCP_PROBE, deployment, service
from activator.lab.plain.cluster import PlainCluster

#: The duration of a second in probes of pods: kubelet's 10 s become 1 s.
PACE: Final = 0.1
#: The namespace of the scaler's Lease.
SYSTEM: Final = "activator"


class Showcase:
    """The plain cluster and the scaler of the demo. Call `start`, `wait`, and `close`.

    Attributes:
        kubeconfig: a file for ``kubectl``; set by `start`.
    """

    def __init__(
        self,
        folder: Path,
        shown: DemoService,
        tell: Callable[[DemoEvent], None],
        addresses: AddressPool,
    ) -> None:
        """
        Arguments:
            folder: gets the objects.
            shown: the service; its name, and the seconds until its pods listen.
            tell: called with each event; must return at once.
        """
        self._folder = folder
        self._service = shown
        self._tell = tell
        self._addresses = addresses
        self.kubeconfig = Path()
        self._scaler = LocalScaler((), _ignore, {})
        self._cluster: PlainCluster | None = None
        self._running: Future[None] | None = None

    async def start(self) -> str:
        """Start the API server and the scaler; return the URL for the activator's reports.

        Raises:
            OSError: the scaler did not start, or a port is not available.
        """
        started: Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.ensure_future(self._run(started))
        await asyncio.wait([started, self._running], return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            _raise(self._running.exception())
        return "ws://{}:{}".format(*self._scaler.reports)

    @property
    def admin(self) -> str:
        """Host and port of the scaler's API."""
        return "{}:{}".format(*self._scaler.admin)

    async def wait(self) -> None:
        """Return when a part has failed."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def close(self) -> None:
        """End the scaler and all pods within seconds."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    def on_queue(self, reason: str) -> None:
        """Note that requests begin to wait, with the reason."""
        if self._cluster is None or not self._cluster.pods:
            self._happened("queued")
        elif reason != "at-capacity":
            self._happened("queued", reason=reason)

    async def _run(self, started: Future[None]) -> None:
        with TemporaryDirectory(prefix="activator-demo-") as folder:
            async with TaskGroup() as tasks:
                cluster = PlainCluster(self._addresses, tasks, self._happened, PACE)
                self._cluster = cluster
                mirror = Mirror(cluster.plane.store, self._folder, (DEPLOYMENTS, SERVICES, SLICES))
                cluster.plane.store.listen(self._on_change)
                try:
                    await cluster.start()
                    self.kubeconfig = cluster.server.write_kubeconfig(Path(folder))
                    await self._start_scaler()
                    self._create(cluster)
                    started.set_result(None)
                    await asyncio.get_running_loop().create_future()
                finally:
                    mirror.close()
                    await self._scaler.close()
                    await cluster.close()

    async def _start_scaler(self) -> None:
        settings = {"SYSTEM_NAMESPACE": SYSTEM, "POD_NAME": "scale-1"}
        self._scaler = LocalScaler(("--kubeconfig", str(self.kubeconfig)), _ignore, settings)
        try:
            await self._scaler.start()
        except DidNotStart as error:
            raise OSError(str(error)) from None

    def _create(self, cluster: PlainCluster) -> None:
        shown = self._service
        options = [f"--start-after={shown.start_after:g}"]
        cluster.create(DEPLOYMENTS, deployment(shown.name, probe=TCP_PROBE, arguments=options))
        annotations = {"enabled": "true", "idle-seconds": f"{shown.idle:g}"}
        cluster.create(SERVICES, service(shown.name, annotations=annotations))

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource == DEPLOYMENTS and change.old and change.new:
            before, after = (each["spec"]["replicas"] for each in (change.old, change.new))
            if before != after:
                self._happened("scaled", pods=before, wanted=after)

    def _happened(self, kind: str, pod: str = "", **details: Any) -> None:
        at = float(details.pop("at", time.monotonic()))
        self._tell(DemoEvent(at, self._service, kind, pod, details))


def _raise(error: BaseException | None) -> None:
    """Raise the errors of the operating system, without the group of a TaskGroup around them."""
    if isinstance(error, ExceptionGroup) and (found := error.subgroup(OSError)):
        raise OSError("; ".join(map(str, found.exceptions)))
    if error is not None:
        raise error


def _ignore(line: dict[str, Any]) -> None:
    pass
