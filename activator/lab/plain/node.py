"""Run each pod of the API server as a process, and write its status, as kubelet does.

A pod's container has options of :mod:`activator.lab.pod` as its arguments. Its readiness probe is
that of the object. Kubernetes' counterpart: pkg/kubelet.
"""

from __future__ import annotations

import asyncio
from asyncio import Task, TaskGroup
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from activator.lab.addresses import AddressPool, PodPlace
from activator.lab.checks import KubeletReadiness, Probes
from activator.lab.control_plane.plane import ControlPlane
from activator.lab.control_plane.resources import PODS
from activator.lab.control_plane.store import ObjectChange
from activator.lab.kubelet import PodProcess
from activator.lab.pod import PodOptions, parse_options

Object = dict[str, Any]

#: Seconds before kubelet starts a container again that ended by itself; kubelet waits up to 5 min.
RESTART_AFTER: Final = 0.2

#: Takes an event's kind, the pod's name, and details by name.
Tell = Callable[..., object]


class _Pod(NamedTuple):
    """One pod, and where its process runs."""

    namespace: str
    name: str
    process: PodProcess
    place: PodPlace


class ToyNode:
    """The only node of the cluster.

    Attributes:
        restart_after: seconds before a container is started again that ended by itself.
    """

    def __init__(
        self,
        plane: ControlPlane,
        addresses: AddressPool,
        tasks: TaskGroup,
        tell: Tell = lambda kind, pod, **details: None,
        pace: float = 1.0,
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
        self._pods: dict[str, _Pod] = {}
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
        return {pod.name: pod.process for pod in self._pods.values()}

    def _on_change(self, change: ObjectChange) -> None:
        if change.resource != PODS:
            return
        known = self._pods.get(change.last["metadata"]["uid"])
        if change.old is None and change.last["spec"].get("nodeName"):
            self._start(change.last)
        elif known is not None and (
            change.new is None or "deletionTimestamp" in change.new["metadata"]
        ):
            known.process.stop()

    def _start(self, found: Object) -> None:
        metadata, place = found["metadata"], self._addresses.take()
        process = PodProcess(
            options_of(found, place),
            self._on_event,
            probes=probes_of(found, self._pace),
            uid=metadata["uid"],
        )
        pod = _Pod(metadata["namespace"], metadata["name"], process, place)
        self._pods[metadata["uid"]] = pod
        task = self._tasks.create_task(self._run(pod))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, pod: _Pod) -> None:
        place = pod.place
        try:
            self._write(pod, place=place)
            self._tell("started", pod.name, address=str(place), switches=place.switches)
            while not pod.process.stopping:
                await pod.process.run()
                self._write(pod)
                if not pod.process.stopping:
                    await asyncio.sleep(self.restart_after)
        finally:
            del self._pods[pod.process.uid]
            self._addresses.release(place)
        if self._object(pod) is not None:
            self._plane.store.delete(PODS, pod.namespace, pod.name)

    def _on_event(self, process: PodProcess, kind: str, **details: Any) -> None:
        pod = self._pods[process.uid]
        if kind in ("ready", "not ready"):
            self._write(pod, ready=process.ready)
        self._tell(kind, pod.name, **details)

    def _write(self, pod: _Pod, place: PodPlace | None = None, ready: bool = False) -> None:
        """Write a pod's status, unless its object is gone."""
        found = self._object(pod)
        if found is None:
            return
        status = dict(found.get("status") or {})
        if place is not None:
            status |= {"podIP": place.ip, "podIPs": [{"ip": place.ip}], "phase": "Running"}
            _set_port(found, place.port)
        status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
        if status != found.get("status"):
            self._plane.store.put(PODS, {**found, "status": status})

    def _object(self, pod: _Pod) -> Object | None:
        found = self._plane.store.get(PODS, pod.namespace, pod.name)
        is_same = found is not None and found["metadata"]["uid"] == pod.process.uid
        return found if is_same else None


def _set_port(pod: Object, number: int) -> None:
    """Set the number of a pod's port, which differs where pods share an address."""
    for port in pod["spec"]["containers"][0].get("ports") or ():
        port["containerPort"] = number


def options_of(pod: Object, place: PodPlace) -> PodOptions:
    """Return the options of a pod's process."""
    container = pod["spec"]["containers"][0]
    return replace(
        parse_options(container.get("args") or ()),
        name=pod["metadata"]["name"],
        address=place.ip,
        port=place.port,
        admin_port=place.admin_port,
        plain=True,
        report_requests=True,
    )


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
