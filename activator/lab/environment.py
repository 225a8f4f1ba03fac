"""The environment of a scenario: a toy cluster, an activator in front of it, and clients.

Everything is real: processes on loopback addresses, HTTP. A scenario of Knative has an ``activator
local``, which reads a folder. One without Knative has ``activator run`` and ``activator scale``,
which use the API server of the cluster. By this module, a script changes pods, sends requests and
checks results. The environment records the timeline. It waits for events and responses, never for
time alone.
"""

from __future__ import annotations

import asyncio
import signal
import time
from asyncio import Task, TaskGroup
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from activator.lab import programs, timeline
from activator.lab.addresses import AddressPool, PodPlace
from activator.lab.cluster import PACE, ToyCluster
from activator.lab.control_plane.api import DEPLOYMENTS, EVENTS, PODS, SERVICES, SLICES
from activator.lab.control_plane.plane import KUBECONFIG
from activator.lab.controllers import CONTROLLER, MANAGED_BY, SERVICE_NAME
from activator.lab.handles import PATIENCE, AppHandle, Overdue, View
from activator.lab.kubelet import Probes, probed_switches
from activator.lab.objects import CPU, TCP_PROBE, Object, deployment, revision, service
from activator.lab.timeline import Timeline, TimelineEntry, Who

#: Seconds by which events may be late: the activator sends them ten times a second at most.
EVENTS_LATE = 0.15
#: Seconds between kubelet's checks: a tenth of Kubernetes' minimum, to keep scenarios short.
PERIOD = 0.1
#: The default probes of a revision's pods.
QUICK = Probes(PERIOD)
#: The Service of the activators.
ACTIVATORS: Final = "activator-service"
#: Seconds without a request before a draining pod stops listening: short enough for a scenario.
QUIET_PERIOD: Final = 0.1

_HEALTHY = {0: "the activator knows the revision, without a pod", 1: "its pod is healthy"}


#: Timelines leave out log lines with these beginnings: of the start, or reported by events too.
_LEFT_OUT = (
    *("activator ", "open files: ", "listening: "),
    *("autoscaler connected", "scaler connected"),
    *("pod ", "requests can be sent: ", "no request can be sent: "),
)


class Environment:
    """The environment of one scenario; see `set_up`.

    Attributes:
        manifests: the folder of the activator's objects, or of the kubeconfig.
        cluster: API server, controllers and pods.
        activator, scaler: the present programs; only an environment without Knative has a scaler.
        apps: the handles of all services so far.
        changed: set by each event of pods and objects.
        live: called at once with each entry of the timeline.
        log_moments: the time of each line in the activator's log, in time.monotonic().
    """

    def __init__(
        self,
        folder: Path,
        timeline: Timeline,
        addresses: AddressPool,
        tasks: TaskGroup,
        *,
        is_plain: bool = False,
    ) -> None:
        """
        Arguments:
            is_plain: the environment of a scenario without Knative.
        """
        self.manifests = folder
        self.tasks = tasks
        self.changed = asyncio.Event()
        self.apps: list[AppHandle] = []
        self.live: Callable[[TimelineEntry], object] = lambda entry: None
        self.log_moments: list[float] = []
        self._addresses = addresses
        self._timeline = timeline
        self._clocks_apart = time.time() - time.monotonic()
        self._is_plain = is_plain
        mirrored = None if is_plain else folder
        self.cluster = ToyCluster(addresses, tasks, self._happened, PACE, folder=mirrored)
        self._is_ready = False
        self._place: PodPlace | None = None
        self.scaler = programs.LocalScaler((), self._on_scaler_line)
        local = ("local", "--manifests", str(folder), "--admit-port", "0")
        self.activator = self.new_activator(local)

    async def start(self) -> None:
        """Start the programs; return when all are ready.

        Raises:
            DidNotStart: a program did not start.
        """
        if self._is_plain:
            await self.cluster.start()
            self.cluster.server.write_kubeconfig(self.manifests)
            self.cluster.plane.store.listen(lambda change: self.changed.set())
            self._create_system()
            await self.start_scaler()
            self._place = self._addresses.take()
            self.activator = self.plain_activator(self._place, "activator-1")
        await self.activator.start()
        self._is_ready = True

    async def close(self) -> None:
        """End all processes."""
        await self.activator.close()
        await self.scaler.close()
        await self.cluster.close()
        if self._place is not None:
            self._addresses.release(self._place)

    def new_activator(
        self, arguments: Sequence[str], settings: Mapping[str, str] | None = None
    ) -> programs.LocalActivator:
        """Return an activator that is not started; its log and events come into the timeline.

        Arguments:
            arguments, settings: see `LocalActivator`.
        """
        return programs.LocalActivator(arguments, self._on_log_line, self._on_event, settings)

    # -- the timeline ---------------------------------------------------------------------------

    def note(self, who: Who, what: str, at: float | None = None) -> None:
        """Add an event to the timeline; ``at`` is in time.monotonic(), by default now."""
        if entry := self._timeline.note(time.monotonic() if at is None else at, who, what):
            self.live(entry)

    def expect(self, what: str, passed: object, seen: object = "") -> None:
        """Add a check to the timeline. The script continues even if the check failed.

        Arguments:
            what: the expectation as a sentence.
            passed: whether it is met.
            seen: the observed value, for the text of a failed check.
        """
        self.live(
            self._timeline.check(time.monotonic(), what, bool(passed), timeline.of_value(seen))
        )

    def expect_equal(self, what: str, seen: object, wanted: object) -> None:
        """Add the check that a value is the wanted one."""
        self.expect(what, seen == wanted, seen)

    def expect_200(self, what: str, response: programs.ClientResponse) -> None:
        """Add the check that a response has status 200."""
        self.expect(what, response.status == 200, response)

    def expect_response(
        self, what: str, response: programs.ClientResponse, status: int, **headers: str
    ) -> None:
        """Add the check of a response's status and headers, with underscores in their names."""
        seen = {name: response.headers.get(name.replace("_", "-")) for name in headers}
        self.expect(what, (response.status, seen) == (status, headers), response)

    def expect_all_200(self, what: str, responses: Sequence[programs.ClientResponse]) -> None:
        """Add the check that each response has status 200."""
        self.expect(what, all(each.status == 200 for each in responses), responses[:3])

    def expect_only_200(self, what: str, load: programs.SteadyTraffic, method: str = "GET") -> None:
        """Add the check that each response to traffic of a method has status 200."""
        statuses = load.statuses(method)
        self.expect(what, set(statuses) == {200}, statuses)

    def expect_used_early(self, view: View) -> None:
        """Add the check that the activator uses the only pod before Kubernetes lists it as ready.

        Arguments:
            view: of the service, as the activator's API shows it.
        """
        known = [view["pods"][0][key] for key in ("kubernetes", "decision", "decidedBy")]
        what = "the API shows: Kubernetes not-ready, use, probe-passed"
        self.expect_equal(what, known, ["not-ready", "use", "probe-passed"])

    def _on_log_line(self, line: Mapping[str, Any]) -> None:
        moment = self.moment(line.get("timestamp"))
        self.log_moments.append(time.monotonic() if moment is None else moment)
        message = str(line["message"])
        # The events also have the changes of pods and capacity.
        if not message.startswith(_LEFT_OUT):
            self.note(Who.ACTIVATOR, message, at=moment)

    def _on_event(self, kind: str, data: Mapping[str, Any]) -> None:
        if words := timeline.of_activator_event(kind, data):
            self.note(Who.ACTIVATOR, words, at=self.moment(data.get("time")))

    def moment(self, written: object) -> float | None:
        """Return the time of a text in a log line or event, in time.monotonic(); None for none."""
        try:  # nanoseconds are more than Python takes
            wall = datetime.fromisoformat(f"{str(written).rstrip('Z')[:26]}+00:00")
        except ValueError:
            return None
        return wall.timestamp() - self._clocks_apart

    async def settle(self) -> None:
        """Return when the timeline has all events of the activator up to now."""
        await asyncio.sleep(EVENTS_LATE)

    # -- waiting --------------------------------------------------------------------------------

    async def until(
        self, is_so: Callable[[], object], what: str, patience: float = PATIENCE
    ) -> None:
        """Return when events of pods or kubelet have made a condition true.

        Arguments:
            is_so: the condition; evaluated after each event.
            what: the condition in words, for the error.

        Raises:
            Overdue: the condition was not true within so many seconds.
        """
        try:
            async with asyncio.timeout(patience):
                while not is_so():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise Overdue(f"timed out while waiting for: {what}") from None

    # -- services -------------------------------------------------------------------------------

    async def deploy(
        self,
        name: str = "app",
        pods: int = 1,
        *,
        probes: Probes = QUICK,
        pod: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> AppHandle:
        """Create a revision and start its pods; return when the activator uses all of them.

        Arguments:
            probes: the probes that kubelet runs on the pods.
            pod: further fields of `PodOptions`.
            settings: arguments of `activator.lab.objects.revision`.
        """
        options = {"quiet_period": QUIET_PERIOD, **(pod or {})}
        switches = probed_switches(probes, blind=bool(options.get("blind")))
        app = AppHandle(self, name, switches, is_plain=False)
        self.apps.append(app)
        self.cluster.add_revision(revision(name, **settings), probes, options)
        app.start_pods(pods)
        await app.until_ready()
        await app.until_view(
            _HEALTHY.get(pods, f"its {pods} pods are healthy"),
            lambda view: sum(_in_use(each) for each in view["pods"]) == pods,
        )
        return app

    async def deploy_service(
        self,
        name: str = "web",
        replicas: int = 0,
        *,
        probe: Object | None = None,
        arguments: Sequence[str] = (f"--quiet-period={QUIET_PERIOD}",),
        annotations: Mapping[str, str] | None = None,
    ) -> AppHandle:
        """Create a Deployment and its Service; return when the activator uses all its pods.

        Arguments:
            probe: the readiness probe; None for one that only connects.
            arguments: options of the pods' processes.
            annotations: of the Service, without their prefix; ``enabled`` is set. The Service that
                ``pods-service`` names is created, too.
        """
        switches = frozenset({"Ready"} if probe and "httpGet" in probe else ())
        handle = AppHandle(self, name, switches, is_plain=True)
        self.apps.append(handle)
        made = deployment(name, replicas=replicas, probe=probe or TCP_PROBE, arguments=arguments)
        asked = {"enabled": "true", **(annotations or {})}
        if "waker" in asked:
            made["spec"]["template"]["spec"]["containers"][0]["resources"] = CPU
        self.cluster.create(DEPLOYMENTS, made)
        found = service(name, annotations=asked)
        if front := asked.get("pods-service"):
            handle.pods_service = front
            behind = service(front)
            behind["spec"]["selector"] = found["spec"].pop("selector")
            self.cluster.create(SERVICES, behind)
        self.cluster.create(SERVICES, found)
        await handle.until_listed(replicas)
        await handle.until_usable(replicas, "the activator knows the Service")
        return handle

    def roll_out(self, handle: AppHandle) -> None:
        """Change the template of a Deployment, as a new image does."""
        self.note(Who.KUBERNETES, f"Deployment {handle.name}: the template changes")
        labels = {"metadata": {"labels": {"version": "b"}}}
        self.cluster.patch(DEPLOYMENTS, handle.name, {"spec": {"template": labels}})

    def events(self, service: str) -> list[str]:
        """Return the reasons of all Events on a Service."""
        found = self.cluster.plane.store.select(
            EVENTS, "default", lambda each: each["regarding"]["name"] == service
        )
        return [str(each["reason"]) for each in found]

    # -- clients --------------------------------------------------------------------------------

    async def request(
        self,
        app: AppHandle | str,
        target: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        where: programs.Where | None = None,
        *,
        is_noted: bool = True,
    ) -> programs.ClientResponse:
        """Send a request; return the response, with status 0 for none.

        Arguments:
            where: host and port to connect to; None for the activator.
            is_noted: the response comes into the timeline.
        """
        name = app if isinstance(app, str) else app.name
        given = {"Host": f"{name}.default.svc.cluster.local", **(headers or {})}
        began, place = time.monotonic(), where or self.activator.traffic
        try:
            response = await programs.fetch(*place, target, method, given, body)
        except OSError as error:
            why = str(error) or type(error).__name__
            response = programs.ClientResponse(0, {}, why, time.monotonic() - began)
        if is_noted:
            self.note(Who.CLIENT, timeline.of_response(method, target, response))
        return response

    def start_request(
        self, app: AppHandle, target: str = "/", method: str = "GET", **more: Any
    ) -> Task[programs.ClientResponse]:
        """Begin a request; the script awaits the returned task later.

        Arguments:
            more: as `request` has them.
        """
        self.note(Who.CLIENT, f"{method} {target}: sent")
        return self.tasks.create_task(self.request(app, target, method, **more))

    @asynccontextmanager
    async def load(
        self,
        app: AppHandle,
        rate: float,
        posts: int = 0,
        where: programs.Where | None = None,
        target: str = "/",
    ) -> AsyncIterator[programs.SteadyTraffic]:
        """Send steady traffic while the block runs; the end of the block awaits all responses.

        Arguments:
            rate: requests per second.
            posts: one request in so many is a POST; 0 for none.
            where: host and port to connect to; None for the activator.
            target: path and query of each request.
        """

        async def send(method: str, request_id: str) -> programs.ClientResponse:
            fields = {"x-request-id": request_id}
            return await self.request(app, target, method, fields, where=where, is_noted=False)

        load = programs.SteadyTraffic(send, rate, posts, target)
        self.note(Who.CLIENT, f"begins to send {rate:g} requests a second")
        load.start(self.tasks)
        try:
            yield load
        finally:
            await load.stop()
            self.note(Who.CLIENT, f"ends: {load.summary()}")

    # -- the programs of an environment without Knative -----------------------------------------

    async def start_scaler(self) -> None:
        """Start a scaler that listens at the address of the first one, if there was one.

        Raises:
            DidNotStart: it did not start.
        """
        port = self.scaler.reports[1]
        options = ["--kubeconfig", self._kubeconfig, "--stat-port", str(port)]
        self.scaler = programs.LocalScaler(options, self._on_scaler_line)
        await self.scaler.start()

    async def stop_scaler(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the scaler by a signal; the default is a crash."""
        self.note(Who.FAULT, f"the scaler gets {number.name}")
        await self.scaler.close(number)

    def cut_api_server(self) -> None:
        """Break all connections to the API server, and refuse new ones."""
        self.note(Who.FAULT, "the API server is away")
        self.cluster.plane.go_away()

    def restore_api_server(self) -> None:
        """End the effect of `cut_api_server`."""
        self.note(Who.FAULT, "the API server is back")
        self.cluster.plane.come_back()

    @property
    def _kubeconfig(self) -> str:
        return str(self.manifests / KUBECONFIG)

    def plain_activator(self, place: PodPlace, name: str) -> programs.LocalActivator:
        """List an activator as ready in its Service, and return it, which is not started.

        Arguments:
            place: its address and port for requests.
            name: of its pod.
        """
        self._list_activator(place)
        arguments = [
            *("run", "--dialect", "services", "--kubeconfig", self._kubeconfig),
            *("--scaler-url", "ws://{}:{}".format(*self.scaler.reports)),
            *("--bind", place.ip, "--http-port", str(place.port)),
            *("--https-port", "0", "--profiling-port", "0"),
        ]
        settings = {"POD_NAME": name, "POD_IP": place.ip, "SYSTEM_NAMESPACE": programs.SYSTEM}
        return self.new_activator(arguments, settings)

    def _create_system(self) -> None:
        """Create the objects that a cluster has of activator and scaler themselves."""
        metadata = {"name": programs.SCALER_POD, "labels": {"app": "activator-scale"}}
        pod = {"metadata": metadata, "spec": {"containers": [{"name": "scale"}]}}
        self.cluster.plane.act("create", PODS, programs.SYSTEM, "", pod)

    def _list_activator(self, place: PodPlace) -> None:
        """List an activator as a ready endpoint of the activators' Service."""
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
        self.cluster.plane.act("create", SLICES, programs.SYSTEM, "", listed)

    # -- events ---------------------------------------------------------------------------------

    def _happened(self, kind: str, pod: str = "", **details: Any) -> None:
        at = float(details.pop("at", time.monotonic()))
        for each in self.apps:
            if pod.rpartition("-")[0] == each.name:
                each.happened(kind, pod, details)
        if words := timeline.of_pod_event(kind, pod, details):
            self.note(*words, at=at)
        self.changed.set()

    def _on_scaler_line(self, line: Mapping[str, Any]) -> None:
        message = str(line["message"])
        if self._is_ready and not message.startswith(("activator ", "listening: ")):
            self.note(Who.SCALER, message)
        self.changed.set()


def _in_use(pod: View) -> bool:
    return bool(pod["usable"] and pod["kubernetes"] == "ready")


@asynccontextmanager
async def set_up(
    timeline: Timeline, addresses: AddressPool, *, is_plain: bool = False
) -> AsyncIterator[Environment]:
    """Provide an environment whose programs are ready; all its processes end with the block.

    Arguments:
        is_plain: the environment of a scenario without Knative.

    Raises:
        DidNotStart: a program did not start.
    """
    with TemporaryDirectory(prefix="activator-lab-") as folder:
        async with TaskGroup() as tasks:
            found = Environment(Path(folder), timeline, addresses, tasks, is_plain=is_plain)
            try:
                await found.start()
                yield found
            finally:
                await found.close()
