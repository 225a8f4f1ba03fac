"""The demo: sample services that scale from zero, a short guide, and a line for each event.

It has a toy cluster and a folder with copies of its objects. The caller starts an activator that
watches `Demo.manifests`, and passes the activator's statistics to `Demo.on_stats`. A
`ToyAutoscaler` scales each revision of Knative. One service needs no Knative: it is a Deployment
that ``activator scale`` scales. This scaler is the real program, as a separate process.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import socket
import tempfile
import time
from asyncio import Future, TaskGroup
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from activator.lab import objects
from activator.lab.addresses import AddressPool
from activator.lab.cluster import NAMESPACE, PACE, ToyCluster
from activator.lab.control_plane.api import DEPLOYMENTS, SERVICES
from activator.lab.kubelet import PERIOD, Probes
from activator.lab.programs import DidNotStart, LocalScaler, own_command

#: Requests at a time for each pod of a service without a limit.
DEFAULT_TARGET = 10
#: The largest number of pods of a service.
MAX_PODS = 3
#: Tolerance for rounding errors of floating point numbers.
EPSILON = 1e-9


class ToyScaler:
    """The desired number of pods of one service, from its statistics."""

    def __init__(self, target: int, window: float) -> None:
        """
        Arguments:
            target: requests at a time that one pod should have; above 0.
            window: seconds without load after which a service scales to zero.
        """
        self._target = target
        self._window = window
        # Decreasing needs from oldest to newest. An older need that is not larger than a newer one
        # can never be the maximum again, so `observe` removes it.
        self.needs: deque[tuple[float, int]] = deque()

    def observe(self, now: float, concurrency: float, count: float) -> None:
        """Add a statistic: average concurrency of a period, and requests that arrived in it.

        A request shorter than the period has an average near 0 and still needs a pod.
        """
        need = math.ceil(concurrency / self._target - EPSILON)
        if count > 0 or concurrency > 0:
            need = max(need, 1)
        while self.needs and self.needs[-1][1] <= need:
            self.needs.pop()
        self.needs.append((now, need))

    def desired(self, now: float) -> int:
        """Return the desired number of pods now."""
        while self.needs and self.needs[0][0] + self._window <= now:
            self.needs.popleft()
        return min(self.needs[0][1], MAX_PODS) if self.needs else 0

    def next_change(self) -> float | None:
        """Return when `desired` may fall without a new statistic; None for never."""
        return self.needs[0][0] + self._window if self.needs else None


#: ((namespace, name), average concurrency, requests counted), as the activator reports them.
Stat = tuple[tuple[str, str], float, float]


@dataclass(frozen=True, slots=True)
class DemoService:
    """A service of the cluster; its revision has the same name.

    Attributes:
        container_concurrency: requests that one pod may have at a time; 0 is no limit.
        start_after: seconds from a pod's start to its listening.
        idle: seconds without requests before the service scales to zero.
        is_parked: whether its pod is parked then, instead of ended.
        listen_port: of a plain Service with protocol ``tcp``: its port; 0 for HTTP.
    """

    name: str
    container_concurrency: int = 0
    start_after: float = 1.5
    idle: float = 15.0
    is_parked: bool = False
    listen_port: int = 0


class DemoEvent(NamedTuple):
    """One event of a service or pod.

    Attributes:
        kind: one of queued, scaled, started, listening, listed, switched, probe passed,
            probe failed, ready, not ready, killing, restarted, responded, draining, stopped,
            parked, continues, ended by itself.
        pod: the pod's name; empty for an event of the service.
    """

    at: float
    service: DemoService
    kind: str
    pod: str
    details: dict[str, object]


Tell = Callable[[DemoEvent], object]


class ToyAutoscaler:
    """Scales one revision. It needs a running loop, and must be called on its thread."""

    def __init__(
        self, cluster: ToyCluster, service: DemoService, tell: Tell, period: float = PERIOD
    ) -> None:
        """Create the revision, without pods.

        Arguments:
            tell: called with each event; must return at once.
            period: seconds between kubelet's checks of a pod.
        """
        self._cluster = cluster
        self._service = service
        self._tell = tell
        concurrency = service.container_concurrency
        self._scaler = ToyScaler(concurrency or DEFAULT_TARGET, service.idle)
        self._timer: asyncio.TimerHandle | None = None
        found = objects.revision(service.name, container_concurrency=concurrency)
        options = {"start_after": service.start_after, "container_concurrency": concurrency}
        cluster.add_revision(found, Probes(period), options)

    def close(self) -> None:
        """Start and stop no pod any more."""
        if self._timer is not None:
            self._timer.cancel()

    def observe(self, concurrency: float, count: float) -> None:
        """Use the load that an activator reports: average concurrency, and new requests."""
        self._scaler.observe(time.monotonic(), concurrency, count)
        # Only without any pod is it certain that the request is queued. The activator probes pods
        # itself, so a pod that Kubernetes does not list as ready may have responded already.
        if concurrency > 0 and not self._running:
            self._happened("queued", concurrency=concurrency)
        self._reconcile()

    def waits(self, reason: str) -> None:
        """Note that the activator has begun to queue requests, with the reason."""
        # Without a pod, `observe` has reported this. A queue at capacity is normal: the service is
        # being scaled.
        if self._running and reason != "at-capacity":
            self._happened("queued", reason=reason)

    @property
    def _running(self) -> list[str]:
        return self._cluster.running(self._service.name)

    def _reconcile(self) -> None:
        """Start and stop pods, and come back when the desired number may change by itself."""
        now, running = time.monotonic(), self._running
        wanted = self._scaler.desired(now)
        if wanted != len(running):
            self._happened("scaled", pods=len(running), wanted=wanted)
        self._cluster.start_pods(self._service.name, wanted - len(running))
        for pod in running[wanted:]:
            self._cluster.stop_pod(pod)
        self.close()
        if (change := self._scaler.next_change()) is not None:
            delay = max(change - now, 0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._reconcile)

    def _happened(self, kind: str, **details: Any) -> None:
        self._tell(DemoEvent(time.monotonic(), self._service, kind, "", details))


#: A service without a limit, and one with two requests per pod, so that a queue is visible.
REVISIONS = (
    DemoService("hello"),
    DemoService("slow", container_concurrency=2, start_after=2.5),
)

#: The port of the service tcp, if it is free.
TCP_PORT: Final = 8014

#: Deployments with a Service, without Knative; one is reached by its port alone.
PLAIN = (
    DemoService("web"),
    DemoService("parked", is_parked=True),
    DemoService("tcp", listen_port=TCP_PORT),
)
#: Seconds before a pod that ended by itself starts again. This prevents a tight loop if it cannot
#: run.
RESTART_AFTER: Final = 1.0

Print = Callable[[str], object]


class Demo:
    """The demo's cluster and folder. Use it as a context manager, so that the folder is removed.

    Attributes:
        manifests: the folder.
        kubeconfig: a file for ``kubectl``; set by `start`.
        scaler_url: for reports of Services; set by `start`.
    """

    def __init__(
        self,
        services: Iterable[DemoService] = REVISIONS,
        *,
        plain: Iterable[DemoService] = PLAIN,
        addresses: AddressPool | None = None,
    ) -> None:
        """Create the manifests folder.

        Arguments:
            services: the services with a revision of Knative.
            plain: the services without Knative.

        Raises:
            OSError: the folder for temporary files is full or not writable.
        """
        self.manifests = Path(tempfile.mkdtemp(prefix="activator-demo-"))
        self.kubeconfig = Path()
        self.scaler_url = ""
        self._services = {each.name: each for each in services}
        self._plain = {
            each.name: replace(each, listen_port=each.listen_port and _free(each.listen_port))
            for each in plain
        }
        self._addresses = addresses or AddressPool()
        self._narrator = Narrator()
        self._print: Print = lambda line: None
        self._scaler = LocalScaler(())
        self._cluster: ToyCluster
        self._autoscalers: dict[tuple[str, str], ToyAutoscaler] = {}
        self._running: Future[None] | None = None

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the manifests folder; end the activator first, or it loses all revisions."""
        shutil.rmtree(self.manifests, ignore_errors=True)

    def on_stats(self, stats: Iterable[Stat]) -> None:
        """Take an activator's statistics: ((namespace, name), average concurrency, count) each.

        It returns at once. The caller must be on the thread of the loop, after `start`.
        """
        for revision, concurrency, count in stats:
            if found := self._autoscalers.get(revision):
                found.observe(concurrency, count)

    def on_queue(self, name: tuple[str, str], reason: str) -> None:
        """Note that requests of a service, (namespace, name), begin to wait, with the reason.

        The caller must be on the loop's thread, as for `on_stats`.
        """
        if found := self._autoscalers.get(name):
            found.waits(reason)
        elif name[0] != NAMESPACE or name[1] not in self._plain:
            return
        elif not any(_service_of(pod) == name[1] for pod in self._cluster.pods):
            self._happened("queued", deployment=name[1])
        elif reason != "at-capacity":
            self._happened("queued", deployment=name[1], reason=reason)

    @property
    def scaler_admin(self) -> str:
        """Host and port of the scaler's API."""
        return "{}:{}".format(*self._scaler.admin)

    async def start(self) -> None:
        """Start the cluster and the scaler.

        The caller must call `run` afterwards, and `stop` in the end.

        Raises:
            OSError: the scaler did not start, or a port is not available.
        """
        started: Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.ensure_future(self._run(started))
        await asyncio.wait([started, self._running], return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            _raise(self._running.exception())
        self.scaler_url = "ws://{}:{}".format(*self._scaler.reports)

    async def run(
        self, traffic: str = "127.0.0.1:8012", admin: str = "127.0.0.1:8080", print: Print = print
    ) -> None:
        """Print the guide, and each event until cancelled; return when a part has failed.

        Arguments:
            traffic: host and port where the activator takes requests.
            admin: host and port of its admin API.
            print: called with each line.
        """
        self._print = print
        tcp = sum(each.listen_port for each in self._plain.values())  # one service has a port
        paths = self.kubeconfig, self.manifests
        for line in guide(traffic, admin, self.scaler_admin, *paths, tcp or TCP_PORT):
            print(line)
        if self._running is not None:
            await asyncio.shield(self._running)

    async def stop(self) -> None:
        """End the scaler and all pods within seconds."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self, started: Future[None]) -> None:
        with TemporaryDirectory(prefix="activator-demo-") as folder:
            async with TaskGroup() as tasks:
                cluster = self._cluster = ToyCluster(
                    self._addresses, tasks, self._happened, PACE, folder=self.manifests
                )
                cluster.node.restart_after = RESTART_AFTER
                self._autoscalers = {
                    (NAMESPACE, name): ToyAutoscaler(cluster, each, self._tell)
                    for name, each in self._services.items()
                }
                try:
                    await cluster.start()
                    self.kubeconfig = cluster.server.write_kubeconfig(Path(folder))
                    self._scaler = LocalScaler(("--kubeconfig", str(self.kubeconfig)))
                    await self._scaler.start()
                    self._create_plain()
                    started.set_result(None)
                    await asyncio.get_running_loop().create_future()
                finally:
                    for each in self._autoscalers.values():
                        each.close()
                    await self._scaler.close()
                    await cluster.close()

    def _create_plain(self) -> None:
        for shown in self._plain.values():
            options = [f"--start-after={shown.start_after:g}"]
            made = objects.deployment(shown.name, probe=objects.TCP_PROBE, arguments=options)
            annotations = {"enabled": "true", "idle-seconds": f"{shown.idle:g}"}
            if shown.listen_port:
                annotations |= {"protocol": "tcp", "listen-port": str(shown.listen_port)}
            if shown.is_parked:
                annotations["waker"] = "resize"
                made["spec"]["template"]["spec"]["containers"][0]["resources"] = objects.CPU
            self._cluster.create(DEPLOYMENTS, made)
            self._cluster.create(SERVICES, objects.service(shown.name, annotations=annotations))

    def _happened(self, kind: str, pod: str = "", **details: Any) -> None:
        at = float(details.pop("at", time.monotonic()))
        name = _service_of(pod) or details.get("deployment", "")
        shown = self._services.get(name) or self._plain.get(name)
        if shown is not None:
            self._tell(DemoEvent(at, shown, kind, pod, details))

    def _tell(self, event: DemoEvent) -> None:
        for line in self._narrator.lines(event, datetime.now()):
            self._print(line)


def _free(port: int) -> int:
    """Return a port of this machine: the given one unless it is in use."""
    try:
        found = socket.create_server(("127.0.0.1", port))
    except OSError:
        found = socket.create_server(("127.0.0.1", 0))
    with found:
        return int(found.getsockname()[1])


def _service_of(pod: str) -> str:
    return pod.rpartition("-")[0]


def _raise(error: BaseException | None) -> None:
    """Raise the errors that a start may have, without the group of a TaskGroup around them."""
    if isinstance(error, ExceptionGroup) and (found := error.subgroup((OSError, DidNotStart))):
        raise OSError("; ".join(map(str, found.exceptions)))
    if error is not None:
        raise error


#: Lines about responses per second and service; one line counts the rest.
MAX_RESPONSES_PER_SECOND = 5


_LINES: Final = {
    "scaled": "pods: {pods} -> {wanted}",
    "started": "pod {pod} starts at {address} and needs about {delay:g} s to listen; its switches "
    "are at http://{switches}/",
    "listening": "pod {pod} listens",
    "probe passed": "pod {pod} passed the activator's probe",
    "probe failed": "pod {pod} failed the activator's probe: {status}",
    "ready": "pod {pod} is ready for Kubernetes as well, which checks less often",
    "not ready": "pod {pod} is no longer ready for Kubernetes",
    "draining": "pod {pod} stops: it finishes its requests",
    "stopped": "pod {pod} stopped",
    "parked": "pod {pod} is parked: it keeps its memory, and gives its CPU away",
    "continues": "pod {pod} has its CPU back",
    "ended by itself": "pod {pod} ended by itself, status {status}",
}


class Narrator:
    """Makes lines from the events of all services, in their order."""

    def __init__(self) -> None:
        self._queued_since: dict[str, float] = {}
        self._responses: dict[str, tuple[float, int]] = {}

    def lines(self, event: DemoEvent, clock: datetime) -> list[str]:
        """Return the lines to print for an event; none if it adds nothing.

        Arguments:
            clock: the time of day, for the start of each line.
        """
        service = event.service.name
        match event.kind:
            case "responded":
                lines = self._on_response(event)
            case "queued":
                lines = self._on_queued(event)
            case kind:
                words = {"pod": event.pod, "delay": event.service.start_after, **event.details}
                lines = [_LINES[kind].format(**words)] if kind in _LINES else []
        stamp = f"{clock:%H:%M:%S}.{clock.microsecond // 1000:03d}"
        if event.service.listen_port:
            lines = [text.replace(" request", " connection") for text in lines]
        return [f"{stamp}  {service:<8} {text}" for text in lines]

    def _on_queued(self, event: DemoEvent) -> list[str]:
        """Return a line for the first queued request; none for others until its response."""
        name = event.service.name
        if name in self._queued_since:
            return []
        self._queued_since[name] = event.at
        lack = "no pod can take it" if "reason" in event.details else "there is no pod"
        return [f"a request arrives and {lack}: the activator queues it"]

    def _on_response(self, event: DemoEvent) -> list[str]:
        name, details = event.service.name, event.details
        since = self._queued_since.pop(name, None)
        if since is not None:
            waited = (event.at - since) * 1000
            after = f"{waited:,.0f} ms after its arrival"
            return [f"{event.pod} responds to the first queued request, {after}"]
        since, count = self._responses.get(name, (event.at, 0))
        lines = []
        if event.at - since >= 1:
            if count > MAX_RESPONSES_PER_SECOND:
                lines.append(f"… and {count - MAX_RESPONSES_PER_SECOND:,} more responses")
            since, count = event.at, 0
        self._responses[name] = since, count + 1
        if count < MAX_RESPONSES_PER_SECOND:
            took = float(str(details["took"])) * 1000
            path, status = details["path"], details["status"]
            lines.append(f"{event.pod} responds to {path} with {status} in {took:,.0f} ms")
        return lines


def guide(
    traffic: str, admin: str, scaler: str, kubeconfig: Path, manifests: Path, tcp: int = TCP_PORT
) -> list[str]:
    """Return commands to try, as lines of text.

    Arguments:
        traffic, admin, scaler: host and port for requests, of the activator's API, and of the
            scaler's API.
        kubeconfig: for the API server of the service without Knative.
        tcp: port of the service tcp.
    """
    hello = f"curl -H 'Host: hello.default.svc.cluster.local' http://{traffic}"
    web = f"curl -H 'Host: web.default.svc.cluster.local' http://{traffic}"
    revision = "-H 'Knative-Serving-Namespace: default' -H 'Knative-Serving-Revision: slow'"
    slow = f"curl {revision} 'http://{traffic}/sleep?ms=1000'"
    explain = f"{own_command()} explain"
    return [
        "",
        "Five services are scaled to zero: hello; slow, whose pods take 2 requests at a time; web,",
        "a Deployment with a Service, which needs no Knative; parked, whose pod stays; and tcp,",
        "which is reached by a port of its own.",
        "In another terminal, try:",
        "",
        "  # the request waits while a pod starts; a second request gets its response at once",
        f"  {hello}/",
        "",
        "  # eight requests of one second each: a queue, then more pods; after 15 s no pod again",
        f"  for i in 1 2 3 4 5 6 7 8; do {slow} & done; wait",
        "",
        "  # without Knative: `activator scale` starts a pod of web. It stops the pod after 15 s",
        "  # without requests. In the first minute of the demo it stops no pod. See why:",
        f"  {web}/",
        f"  {explain} web --admin-url http://{admin} --scaler-admin-url http://{scaler}",
        f"  curl http://{scaler}/api/v1/services    # what the scaler knows, as JSON",
        f"  kubectl --kubeconfig {kubeconfig} get deployments,pods,endpointslices",
        "",
        "  # the pod of parked is paused 15 s after its last request: nothing deletes it, and it",
        "  # keeps its memory. After the line 'pod parked-1 is parked', send a second request, and",
        "  # compare the times",
        f"  {web.replace('web', 'parked')}/",
        "  # the same for connections of any protocol: a port names the Service, and no host does",
        f"  curl http://{traffic.rpartition(':')[0]}:{tcp}/",
        "",
        "  # start a pod of hello; wait for a line 'pod hello-N is ready for Kubernetes as well';",
        f"  {hello}/",
        "  # then, within 15 s, make the pod not ready, and send a request, which waits",
        f"  {hello}/toggleReady; sleep 2; {hello}/ &",
        "  # make it ready again; SWITCHES is the address in the first line of hello-N",
        "  curl http://SWITCHES/toggleReady",
        "",
        "  # show pods, queues and capacity, and why a request waits",
        f"  {own_command()} status --admin-url http://{admin}",
        f"  {explain} hello --admin-url http://{admin}",
        f"  curl http://{admin}/api/v1/revisions    # the same as JSON; /metrics for Prometheus",
        "",
        "  # the same in a browser, live",
        f"  http://{admin}/",
        "",
        f"Manifests: {manifests}    Ctrl-C ends the demo.",
        f"`{own_command()} demo --log-level info` also prints the activator's own log lines.",
        "Events:",
        "",
    ]
