"""The environment of a scenario without Knative: a plain cluster, an activator and a scaler.

Activator and scaler are the real programs, ``activator run`` and ``activator scale``. They have an
API server on a loopback socket. Everything else is as in :mod:`activator.lab.environment`.
"""

from __future__ import annotations

import asyncio
import signal
import time
from asyncio import TaskGroup
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from activator.lab import environment, phrases
from activator.lab.addresses import AddressPool
from activator.lab.control_plane.resources import DEPLOYMENTS, EVENTS, PODS, SERVICES, SLICES
from activator.lab.control_plane.server import KUBECONFIG
from activator.lab.control_plane.store import ObjectChange
from activator.lab.controllers import CONTROLLER, MANAGED_BY, SERVICE_NAME
from activator.lab.environment import Environment
from activator.lab.handles import View
from activator.lab.local_activator import LocalActivator, LocalScaler
from activator.lab.objects import TCP_PROBE, Object, deployment, service
from activator.lab.plain.cluster import PlainCluster
from activator.lab.plain.handles import ServiceHandle
from activator.lab.timeline import Timeline, Who

#: The duration of a second in probes of pods: kubelet's 10 s become 1 s.
PACE: Final = 0.1
#: The namespace of activator and scaler.
SYSTEM: Final = "activator"
#: The Service of the activators.
ACTIVATORS: Final = "activator-service"
#: The name of the pods' arguments for a drain that is short enough for a scenario.
SHORT_DRAIN: Final = "--quiet-period=0.1"


class PlainEnvironment:
    """The environment of one scenario; see `set_up`.

    Attributes:
        base: timeline, waiting and clients.
        cluster: API server, controllers and pods.
        scaler: the present scaler.
        services: all handles so far.
    """

    def __init__(self, base: Environment) -> None:
        self.base = base
        self.cluster = PlainCluster(base.addresses, base.tasks, self._happened, PACE)
        self.services: list[ServiceHandle] = []
        self._is_ready = False
        self._places = [base.addresses.take()]
        self._second: LocalActivator | None = None
        self.scaler = LocalScaler((), self._on_scaler_line, {})

    async def start(self) -> None:
        """Start API server, scaler and activator; return when all are ready.

        Raises:
            DidNotStart: a program did not start.
        """
        await self.cluster.start()
        self.cluster.server.write_kubeconfig(self.base.manifests)
        self.cluster.plane.store.listen(self._on_change)
        self._create_system()
        await self.start_scaler()
        self._list_activator()
        self.base.activator = self._new_activator()
        await self.base.activator.start()
        self._is_ready = True

    async def close(self) -> None:
        """End all processes."""
        for each in self.services:
            await each.close()
        for activator in filter(None, (self._second, self.base.activator)):
            await activator.close()
        await self.scaler.close()
        await self.cluster.close()
        for place in self._places:
            self.base.addresses.release(place)

    async def start_second(self) -> LocalActivator:
        """Start a second activator, which the activators' Service lists; return it when ready.

        Raises:
            DidNotStart: it did not start.
        """
        self._places.append(self.base.addresses.take())
        self._list_activator()
        self._second = self._new_activator()
        await self._second.start()
        return self._second

    async def start_scaler(self) -> None:
        """Start a scaler that listens at the address of the first one, if there was one.

        Raises:
            DidNotStart: it did not start.
        """
        port = self.scaler.reports[1]
        options = ["--kubeconfig", self._kubeconfig, "--stat-port", str(port)]
        settings = {"SYSTEM_NAMESPACE": SYSTEM, "POD_NAME": "scale-1"}
        self.scaler = LocalScaler(options, self._on_scaler_line, settings)
        await self.scaler.start()

    async def stop_scaler(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the scaler by a signal; the default is a crash."""
        self.base.note(Who.FAULT, f"the scaler gets {number.name}")
        await self.scaler.close(number)

    def cut_api_server(self) -> None:
        """Break all connections to the API server, and refuse new ones."""
        self.base.note(Who.FAULT, "the API server is away")
        self.cluster.plane.go_away()

    def restore_api_server(self) -> None:
        """End the effect of `cut_api_server`."""
        self.base.note(Who.FAULT, "the API server is back")
        self.cluster.plane.come_back()

    async def deploy(
        self,
        name: str = "web",
        replicas: int = 0,
        *,
        probe: Object | None = None,
        arguments: Sequence[str] = (SHORT_DRAIN,),
        annotations: Mapping[str, str] | None = None,
    ) -> ServiceHandle:
        """Create a Deployment and its Service; return when the activator uses all its pods.

        Arguments:
            probe: the readiness probe; None for one that only connects.
            arguments: options of the pods' processes.
            annotations: of the Service, without their prefix; ``enabled`` is set. The Service that
                ``pods-service`` names is created, too.
        """
        switches = frozenset({"Ready"} if probe and "httpGet" in probe else ())
        handle = ServiceHandle(self, name, switches)
        self.services.append(handle)
        self.base.apps.append(handle)
        made = deployment(name, replicas=replicas, probe=probe or TCP_PROBE, arguments=arguments)
        self.cluster.create(DEPLOYMENTS, made)
        asked = {"enabled": "true", **(annotations or {})}
        found = service(name, annotations=asked)
        if front := asked.get("pods-service"):
            handle.pods_service = front
            behind = service(front)
            behind["spec"]["selector"] = found["spec"].pop("selector")
            self.cluster.create(SERVICES, behind)
        self.cluster.create(SERVICES, found)
        await handle.until_listed(replicas)
        await handle.until_view(
            "the activator knows the Service",
            lambda view: sum(pod["usable"] for pod in view["pods"]) == replicas,
        )
        return handle

    def roll_out(self, handle: ServiceHandle, version: str) -> None:
        """Change the template of a Deployment, as a new image does."""
        self.base.note(Who.KUBERNETES, f"Deployment {handle.name}: the template changes")
        labels = {"metadata": {"labels": {"version": version}}}
        self.cluster.patch(DEPLOYMENTS, handle.name, {"spec": {"template": labels}})

    async def until_scaler(self, handle: ServiceHandle, what: str, key: str, value: object) -> View:
        """Wait until a field of the scaler's view of a Service has a value; return the view.

        Raises:
            Overdue: it did not within `PATIENCE` seconds.
        """
        end = time.monotonic() + environment.PATIENCE
        found: View = {}
        while time.monotonic() < end:
            try:
                found = await handle.scaler_view()
            except ConnectionError:
                found = {}
            if found.get(key) == value:
                self.base.note(Who.SCALER, f"{handle.name}: {what}")
                return found
            await asyncio.sleep(environment.POLL_PERIOD)
        raise environment.Overdue(f"the scaler did not reach: {handle.name}: {what}; {found}")

    async def until_event(self, service: str, reason: str) -> list[str]:
        """Return the reasons of all Events on a Service once it has one of this reason.

        The scaler writes an Event a moment after its API shows the reason. Returns after `PATIENCE`
        seconds in any case.
        """
        end = time.monotonic() + environment.PATIENCE
        while reason not in (found := self.events(service)) and time.monotonic() < end:  # noqa: ASYNC110 # the store has no event
            await asyncio.sleep(environment.POLL_PERIOD)
        return found

    def events(self, service: str) -> list[str]:
        """Return the reasons of all Events on a Service."""
        found = self.cluster.plane.store.select(
            EVENTS, "default", lambda each: each["regarding"]["name"] == service
        )
        return [str(each["reason"]) for each in found]

    # -- parts ----------------------------------------------------------------------------------

    @property
    def _kubeconfig(self) -> str:
        return str(self.base.manifests / KUBECONFIG)

    def _new_activator(self) -> LocalActivator:
        place, number = self._places[-1], len(self._places)
        arguments = [
            *("run", "--dialect", "services", "--kubeconfig", self._kubeconfig),
            *("--scaler-url", "ws://{}:{}".format(*self.scaler.reports)),
            *("--bind", place.ip, "--http-port", str(place.port)),
            *("--https-port", "0", "--profiling-port", "0"),
        ]
        settings = {
            "POD_NAME": f"activator-{number}",
            "POD_IP": place.ip,
            "SYSTEM_NAMESPACE": SYSTEM,
        }
        return self.base.new_activator(arguments, settings)

    def _create_system(self) -> None:
        """Create the objects that a cluster has of activator and scaler themselves."""
        act = self.cluster.plane.act
        pod: Object = {
            "metadata": {"name": "scale-1", "labels": {"app": "activator-scale"}},
            "spec": {"containers": [{"name": "scale"}]},
        }
        act("create", PODS, SYSTEM, "", pod)

    def _list_activator(self) -> None:
        """List the last activator as a ready endpoint of the activators' Service."""
        place = self._places[-1]
        endpoint = {
            "addresses": [place.ip],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": "laptop",
        }
        labels = {SERVICE_NAME: ACTIVATORS, MANAGED_BY: CONTROLLER}
        listed = {
            "metadata": {"name": f"{ACTIVATORS}-{place.ip}", "labels": labels},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": place.port}],
            "endpoints": [endpoint],
        }
        self.cluster.plane.act("create", SLICES, SYSTEM, "", listed)

    # -- events ---------------------------------------------------------------------------------

    def _happened(self, kind: str, pod: str = "", **details: Any) -> None:
        at = float(details.pop("at", time.monotonic()))
        for each in self.services:
            if pod.rpartition("-")[0] == each.name:
                each.happened(kind, pod, details)
        if words := phrases.of_pod_event(kind, pod, details):
            self.base.note(*words, at=at)
        self.base.changed.set()

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource == DEPLOYMENTS and change.old and change.new:
            before, after = (each["spec"]["replicas"] for each in (change.old, change.new))
            if before != after:
                name = change.new["metadata"]["name"]
                self.base.note(Who.KUBERNETES, f"Deployment {name}: replicas {before} -> {after}")
        self.base.changed.set()

    def _on_scaler_line(self, line: Mapping[str, Any]) -> None:
        message = str(line["message"])
        if self._is_ready and not message.startswith(("activator ", "listening: ")):
            self.base.note(Who.SCALER, message)
        self.base.changed.set()


@asynccontextmanager
async def set_up(timeline: Timeline, addresses: AddressPool) -> AsyncIterator[PlainEnvironment]:
    """Provide an environment whose programs are ready; all processes end with the block.

    Raises:
        DidNotStart: a program did not start.
    """
    with TemporaryDirectory(prefix="activator-lab-") as folder:
        async with TaskGroup() as tasks:
            found = PlainEnvironment(Environment(Path(folder), timeline, addresses, tasks))
            try:
                await found.start()
                yield found
            finally:
                await found.close()
