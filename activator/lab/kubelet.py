"""Run pods as kubelet does: start, probe and restart their processes, and write their status.

Kubernetes' counterparts: pkg/kubelet, and its prober and kuberuntime.
"""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio import Task, TaskGroup
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final

from activator.lab import end_with_stdin
from activator.lab.addresses import AddressPool, PodPlace
from activator.lab.control_plane.api import PODS
from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.store import ObjectChange
from activator.lab.objects import Object, revision_of
from activator.lab.pod import PodOptions, parse_options, pod_arguments
from activator.lab.programs import fetch, open_and_close

#: Seconds between checks: the minimum of Kubernetes, whose default is 10.
PERIOD = 1.0
#: Seconds for one check.
TIMEOUT = 1.0


class KubeletReadiness(Enum):
    """How kubelet finds out whether a pod is ready."""

    #: The probe that Knative gives to queue-proxy.
    QUEUE_PROXY = "queue-proxy"
    #: A page of the application; any status from 200 to 399 is a success.
    HTTP = "httpGet"
    #: A connection to the port of requests.
    TCP = "tcpSocket"
    #: No probe: ready as soon as the process has been started.
    NONE = "none"


class ProbedContainer(Enum):
    """A container that has a liveness probe, and that kubelet restarts when the probe fails."""

    APPLICATION = "the application"
    SIDECAR = "the other container"
    #: The pod of a plain Deployment: it has no queue-proxy, so its only process is restarted.
    WHOLE = "the only container"


@dataclass(frozen=True, slots=True)
class Probes:
    """The probes of a pod.

    Attributes:
        period: seconds between checks.
        readiness: the probe of the pod's port for requests.
        path: the page of ``KubeletReadiness.HTTP``.
        exec_readiness, sidecar_readiness: probes that must pass in addition.
        liveness: the container that has a liveness probe, if any.
        failure_threshold: failed liveness checks in a row before a restart.
        restart_after: seconds from the decision until the new process runs. This includes the
            grace period of the old process.
        while_terminating: whether kubelet still probes a pod that terminates, and lists it as
            ready until the probe fails.
    """

    period: float = PERIOD
    readiness: KubeletReadiness = KubeletReadiness.QUEUE_PROXY
    path: str = "/healthz"
    exec_readiness: bool = False
    sidecar_readiness: bool = False
    liveness: ProbedContainer | None = None
    failure_threshold: int = 3
    restart_after: float = 1.0
    while_terminating: bool = False


def probed_switches(probes: Probes, *, blind: bool) -> frozenset[str]:
    """Return the names of the switches that have an effect: a probe or a request reads them.

    Arguments:
        blind: queue-proxy cannot run the application's readiness probe.
    """
    probed = {
        "Ready": not blind,
        "Live": probes.liveness in (ProbedContainer.APPLICATION, ProbedContainer.WHOLE),
        "Exec": probes.exec_readiness,
        "Running": True,  # by each request
        "SidecarReady": probes.sidecar_readiness,
        "SidecarLive": probes.liveness is ProbedContainer.SIDECAR,
    }
    return frozenset(name for name, has_effect in probed.items() if has_effect)


async def ask(ip: str, port: int, path: str, probe: str = "") -> int:
    """Send a GET as kubelet does, on a new connection; return the status, or 0 without a response.

    Arguments:
        probe: the value of ``K-Network-Probe``; empty for no such header.
    """
    headers = {"User-Agent": "kube-probe/1.34", **({"K-Network-Probe": probe} if probe else {})}
    try:
        return (await fetch(ip, port, path, headers=headers, patience=TIMEOUT)).status
    except (OSError, ValueError, IndexError):  # TimeoutError is an OSError
        return 0


#: Seconds from SIGTERM to SIGKILL.
TERMINATION_GRACE = 70.0
#: The same when the whole cluster ends: no client reads slow responses any more.
SHUTDOWN_GRACE = 2.0

#: A pod with queue-proxy's own probe and no other.
NO_EXTRA_PROBES = Probes()

#: Takes a pod or its name, an event's kind, and details by name.
Tell = Callable[..., None]


class KubeletStep(Enum):
    """A step of kubelet that a script can pause."""

    CHECK = "check"
    RESTART = "restart"


class PodProcess:
    """One pod of the toy cluster.

    Attributes:
        ready: kubelet's last result; Endpoints lists the pod accordingly.
        restarts: how often kubelet has restarted a container.
        is_parked: whether the process is stopped, as one with very little CPU.
    """

    def __init__(
        self,
        options: PodOptions,
        tell: Tell,
        *,
        probes: Probes = NO_EXTRA_PROBES,
        namespace: str = "",
        uid: str = "",
    ) -> None:
        """
        Arguments:
            tell: called with this pod, an event's kind and its details; must return at once.
            namespace, uid: of the pod's object; empty without one.
        """
        self.options = options
        self.namespace, self.uid = namespace, uid
        self.ready = False
        self.stopping = False
        self.restarts = 0
        self.is_parked = False
        self._tell = tell
        self._probes = probes
        self._failed = 0
        self._stop = asyncio.Event()
        self._listening = asyncio.Event()
        self._free = {step: asyncio.Event() for step in KubeletStep}
        self._process: Process | None = None
        self._comes_back: asyncio.Event | None = None
        self._is_over = False
        for step in KubeletStep:
            self.resume(step)

    def stop(self) -> None:
        """Begin to end the pod: SIGTERM, and SIGKILL after `TERMINATION_GRACE`.

        It is not ready from now on, unless its probes go on while it terminates.
        """
        self.stopping = True
        self.park(False)  # a stopped process does not see SIGTERM
        self.ready = self.ready and self._probes.while_terminating
        self._stop.set()
        if self._comes_back is not None:
            self._comes_back.set()

    def kill(self) -> None:
        """Kill the pod's process, as the kernel does when memory is short."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def park(self, is_parked: bool) -> None:
        """Stop the process, or let it continue; nothing happens if it does already."""
        if self._process is not None and is_parked != self.is_parked:
            self.is_parked = is_parked
            self._tell(self, "parked" if is_parked else "continues")
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGSTOP if is_parked else signal.SIGCONT)

    def pause(self, step: KubeletStep) -> None:
        """Delay kubelet's next step of that kind until `resume`."""
        self._free[step].clear()

    def resume(self, step: KubeletStep) -> None:
        """Let kubelet continue with steps of that kind."""
        self._free[step].set()

    async def run(self) -> None:
        """Run the pod until it ends; cancelling ends it within `SHUTDOWN_GRACE` seconds."""
        self._is_over = False
        async with asyncio.TaskGroup() as tasks:
            checking = tasks.create_task(self._check_until_stopped())
            while await self._run_once():
                pass
            checking.cancel()

    async def _run_once(self) -> bool:
        """Run one process from start to end; return whether it is being restarted."""
        arguments = pod_arguments(self.options)
        self._process = process = await end_with_stdin.start(
            "activator.lab.pod", *arguments, stdout=PIPE, stderr=DEVNULL
        )
        again = False
        try:
            await self._accompany(process)
            if self._comes_back is not None:  # it is restarted as soon as it may start
                await self._comes_back.wait()
                self._comes_back = None
                again = not self.stopping
            return again
        finally:
            self._listening.clear()
            self._is_over = not again
            self.ready = self.ready and again
            await _end(process, SHUTDOWN_GRACE)

    async def _accompany(self, process: Process) -> None:
        async with asyncio.TaskGroup() as tasks:
            stopping = tasks.create_task(self._stop_on_request(process))
            await self._read_events(process)
            stopping.cancel()
        status = await process.wait()
        if self._comes_back is None:
            self._tell(self, "stopped" if self.stopping else "ended by itself", status=status)

    async def _read_events(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            with suppress(ValueError):  # an incomplete line of a killed process
                details: dict[str, Any] = json.loads(line)
                event = details.pop("event")
                if event == "listening":
                    self._listening.set()
                if event != "stopped":  # `_accompany` reports it when the process has ended
                    self._tell(self, event, **details)

    async def _stop_on_request(self, process: Process) -> None:
        await self._stop.wait()
        await _end(process, TERMINATION_GRACE)

    async def _check_until_stopped(self) -> None:
        if self._probes.readiness is KubeletReadiness.NONE:
            self._set_ready(True)
        await self._listening.wait()
        while self._is_probed():
            # The first check comes a whole period after the start: the worst case of a cluster.
            await asyncio.sleep(self._probes.period)
            await self._free[KubeletStep.CHECK].wait()
            self._set_ready(await self.passes() and self._is_probed())
            if await self.is_dead() and not self.stopping:
                await self._restart()

    async def passes(self) -> bool:
        """Return whether all readiness probes of the pod pass."""
        probes = self._probes
        if not await self._is_port_ready():
            return False
        if probes.exec_readiness and await self._asked("/exec") != 200:
            return False
        return not probes.sidecar_readiness or await self._asked("/sidecarReady") == 200

    async def _is_port_ready(self) -> bool:
        where = self.options.where
        match self._probes.readiness:
            case KubeletReadiness.QUEUE_PROXY:
                return await ask(*where, "/", probe="queue") == 200
            case KubeletReadiness.HTTP:
                return 200 <= await ask(*where, self._probes.path) < 400
            case KubeletReadiness.TCP:
                try:
                    await open_and_close(*where, patience=TIMEOUT)
                except OSError:
                    return False
        return True

    async def is_dead(self) -> bool:
        """Run the liveness probe; return whether it has failed often enough for a restart."""
        if self._probes.liveness is None:
            return False
        is_sidecar = self._probes.liveness is ProbedContainer.SIDECAR
        lives = await self._asked("/sidecarLive" if is_sidecar else "/live") == 200
        self._failed = 0 if lives else self._failed + 1
        if self._failed < self._probes.failure_threshold:
            return False
        self._failed = 0
        return True

    async def _asked(self, path: str) -> int:
        """Return the status of the pod's admin port, as `ask` does."""
        return await ask(*self.options.switches, path)

    def _is_probed(self) -> bool:
        return not self._is_over and (self._probes.while_terminating or not self.stopping)

    def _set_ready(self, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            self._tell(self, "ready" if ready else "not ready")

    async def _restart(self) -> None:
        """Restart the container with the liveness probe; do not probe the pod meanwhile.

        During the grace period of the application, the pod stays listed as ready, as in a
        cluster. A sidecar ends at once, so the pod becomes not ready at once.
        """
        container = self._probes.liveness
        self._tell(self, "killing", container=container.value if container else "")
        await self._kill(container)
        await asyncio.sleep(self._probes.restart_after)
        await self._free[KubeletStep.RESTART].wait()
        await self._start(container)
        self.restarts += 1
        self._tell(self, "restarted", container=container.value if container else "")
        self._set_ready(False)

    async def _kill(self, container: ProbedContainer | None) -> None:
        if container is ProbedContainer.APPLICATION:
            await self._asked("/kill")
        elif container is ProbedContainer.SIDECAR:
            self._set_ready(False)
        else:
            self._comes_back = asyncio.Event()
            self.kill()

    async def _start(self, container: ProbedContainer | None) -> None:
        if container is ProbedContainer.APPLICATION:
            await self._asked("/start")
        elif container is ProbedContainer.SIDECAR:
            await self._asked("/startSidecar")
        elif self._comes_back is not None:
            self._listening.clear()
            self._comes_back.set()
            await self._listening.wait()


async def _end(process: Process, grace: float) -> None:
    """Send SIGTERM, and SIGKILL after `grace` seconds; do nothing if the process has ended."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


#: Seconds before kubelet starts a container again that ended by itself; kubelet waits up to 5 min.
RESTART_AFTER: Final = 0.2


class ToyNode:
    """The only node of the cluster: runs each pod of the API server, and writes its status.

    The arguments of a pod's container are options of :mod:`activator.lab.pod`. The readiness probe
    of a pod without Knative is that of the object.

    Attributes:
        restart_after: seconds before a container is started again that ended by itself.
        probes: the probes of pods of Knative, by the name of the Revision. Its objects have fewer.
    """

    def __init__(
        self, plane: ControlPlane, addresses: AddressPool, tasks: TaskGroup, tell: Tell, pace: float
    ) -> None:
        """
        Arguments:
            tasks: gets a task for each pod; the caller cancels them by `close`.
            tell: called with each event of a pod; must return at once.
            pace: the duration of a second in the objects, in seconds.
        """
        self._plane = plane
        self._addresses = addresses
        self._tasks = tasks
        self._tell = tell
        self._pace = pace
        self.restart_after = RESTART_AFTER
        self.probes: dict[str, Probes] = {}
        self._pods: dict[str, PodProcess] = {}
        self._running: set[Task[None]] = set()
        plane.store.listen(self._on_change)

    def close(self) -> None:
        """End all pods within seconds, and start none."""
        self._plane.store.remove(self._on_change)
        for task in self._running:
            task.cancel()

    @property
    def pods(self) -> dict[str, PodProcess]:
        """The pods with a process, by name, in the order of their start."""
        return {pod.options.name: pod for pod in self._pods.values()}

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource != PODS:
            return
        known = self._pods.get(change.last["metadata"]["uid"])
        if change.old is None and change.last["spec"].get("nodeName"):
            self._start(change.last)
        elif known is not None and (
            change.new is None or "deletionTimestamp" in change.new["metadata"]
        ):
            known.stop()
        elif known is not None and change.new is not None:
            known.park(_is_parked(change.new))

    def _start(self, found: Object) -> None:
        metadata, place = found["metadata"], self._addresses.take()
        pod = PodProcess(
            options_of(found, place),
            self._on_event,
            probes=self.probes.get(revision_of(found)) or probes_of(found, self._pace),
            namespace=metadata["namespace"],
            uid=metadata["uid"],
        )
        self._pods[pod.uid] = pod
        task = self._tasks.create_task(self._run(pod, place))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        self._tell("started", pod.options.name, address=str(place), switches=place.switches)

    async def _run(self, pod: PodProcess, place: PodPlace) -> None:
        try:
            self._write(pod, place=place)
            while not pod.stopping:
                await pod.run()
                self._write(pod)
                if not pod.stopping:
                    await asyncio.sleep(self.restart_after)
        finally:
            del self._pods[pod.uid]
            self._addresses.release(place)
        if self._object(pod) is not None:
            self._plane.store.delete(PODS, pod.namespace, pod.options.name)

    def _on_event(self, pod: PodProcess, kind: str, **details: Any) -> None:
        if kind in ("ready", "not ready"):
            self._write(pod, ready=pod.ready)
        self._tell(kind, pod.options.name, **details)

    def _write(self, pod: PodProcess, place: PodPlace | None = None, ready: bool = False) -> None:
        """Write a pod's status, unless its object is gone."""
        found = self._object(pod)
        if found is None:
            return
        status = dict(found.get("status") or {})
        if place is not None:
            status |= {"podIP": place.ip, "podIPs": [{"ip": place.ip}], "phase": "Running"}
            # The number of the port differs where pods share an address.
            for port in found["spec"]["containers"][0].get("ports") or ():
                port["containerPort"] = place.port
        status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
        if status != found.get("status"):
            self._plane.store.put(PODS, {**found, "status": status})

    def _object(self, pod: PodProcess) -> Object | None:
        found = self._plane.store.get(PODS, pod.namespace, pod.options.name)
        return found if found and found["metadata"]["uid"] == pod.uid else None


def options_of(pod: Object, place: PodPlace) -> PodOptions:
    """Return the options of a pod's process."""
    container = pod["spec"]["containers"][0]
    return replace(
        parse_options(container.get("args") or ()),
        name=pod["metadata"]["name"],
        address=place.ip,
        port=place.port,
        admin_port=place.admin_port,
        plain=not revision_of(pod),
        report_requests=True,
    )


def _is_parked(pod: Object) -> bool:
    """Return whether the container of a pod has at most 10 thousandths of a CPU."""
    limit = (pod["spec"]["containers"][0].get("resources") or {}).get("limits", {}).get("cpu", "")
    return bool(limit.endswith("m")) and int(limit[:-1]) <= 10


def probes_of(pod: Object, pace: float) -> Probes:
    """Return the probes of a pod's first container.

    Arguments:
        pace: the duration of a second in the object, in seconds.
    """
    probe = pod["spec"]["containers"][0].get("readinessProbe") or {}
    period = probe.get("periodSeconds", 10) * pace
    found = Probes(period, KubeletReadiness.NONE, while_terminating=True)
    if "httpGet" in probe:
        return replace(found, readiness=KubeletReadiness.HTTP, path=probe["httpGet"]["path"])
    if "tcpSocket" in probe:
        return replace(found, readiness=KubeletReadiness.TCP)
    return replace(found, exec_readiness="exec" in probe)
