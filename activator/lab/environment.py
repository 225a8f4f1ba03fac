"""The environment of a scenario: revisions with pods, an activator in front, and clients.

Everything is real: processes on loopback addresses, a folder of manifests, HTTP. By this module,
a script changes pods, sends requests and checks results. The environment records the timeline. It
waits for events and responses, never for time alone.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Task, TaskGroup
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from activator.lab import phrases
from activator.lab.addresses import AddressPool
from activator.lab.client import ClientResponse, SteadyTraffic, fetch
from activator.lab.handles import AppHandle, PodHandle, View
from activator.lab.kubelet import Probes
from activator.lab.local_activator import LocalActivator, Where
from activator.lab.objects import revision
from activator.lab.timeline import Timeline, TimelineEntry, Who

#: Most seconds to wait for an expected event, on a busy machine.
PATIENCE = 30.0
#: Seconds between two polls of the admin API, for changes that cause no event.
POLL_PERIOD = 0.01
#: Seconds by which events may be late: the activator sends them ten times a second at most.
EVENTS_LATE = 0.15
#: Seconds between kubelet's checks: a tenth of Kubernetes' minimum, to keep scenarios short.
PERIOD = 0.1
#: The default probes of an environment's pods.
QUICK = Probes(PERIOD)


_HEALTHY = {0: "the activator knows the revision, without a pod", 1: "its pod is healthy"}


class Viewed(Protocol):
    """A revision or a Service that the activator's API shows."""

    @property
    def name(self) -> str:
        """The name of its object."""

    @property
    def probed_switches(self) -> frozenset[str]:
        """The switches of its pods that have an effect."""

    @property
    def pods(self) -> list[PodHandle]:
        """All its pods that were started, in order."""

    async def view(self) -> View:
        """Return it as the API shows it.

        Raises:
            OSError: no response, or the activator does not know it yet.
        """


class Overdue(Exception):
    """An expected event did not come within `PATIENCE` seconds; the text names it."""


#: Timelines leave out log lines with these beginnings: of the start, or reported by events too.
_LEFT_OUT = (
    *("activator ", "open files: ", "listening: "),
    *("autoscaler connected", "scaler connected"),
    *("pod ", "requests can be sent: ", "no request can be sent: "),
)


class Environment:
    """The environment of one scenario; see `set_up`.

    Attributes:
        live: called at once with each entry of the timeline.
        log_moments: the time of each line in the activator's log, in time.monotonic().
    """

    def __init__(
        self, manifests: Path, timeline: Timeline, addresses: AddressPool, tasks: TaskGroup
    ) -> None:
        self.manifests = manifests
        self.addresses = addresses
        self.tasks = tasks
        self.pod_tasks: list[Task[None]] = []
        self.changed = asyncio.Event()
        self.apps: list[Viewed] = []
        self.live: Callable[[TimelineEntry], object] = lambda entry: None
        self.log_moments: list[float] = []
        self._timeline = timeline
        self._clocks_apart = time.time() - time.monotonic()
        self.activator = self.new_activator(
            ("local", "--manifests", str(manifests), "--admit-port", "0")
        )

    def new_activator(
        self, arguments: Sequence[str], settings: Mapping[str, str] | None = None
    ) -> LocalActivator:
        """Return an activator that is not started; its log and events come into the timeline.

        Arguments:
            arguments, settings: see `LocalActivator`.
        """
        return LocalActivator(arguments, self._on_log_line, self._on_event, settings)

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
            self._timeline.check(time.monotonic(), what, bool(passed), phrases.of_value(seen))
        )

    def _on_log_line(self, line: Mapping[str, Any]) -> None:
        moment = self._moment(line.get("timestamp"))
        self.log_moments.append(time.monotonic() if moment is None else moment)
        message = str(line["message"])
        # The events also have the changes of pods and capacity.
        if not message.startswith(_LEFT_OUT):
            self.note(Who.ACTIVATOR, message, at=moment)

    def _on_event(self, kind: str, data: Mapping[str, Any]) -> None:
        if words := phrases.of_activator_event(kind, data):
            self.note(Who.ACTIVATOR, words, at=self._moment(data.get("time")))

    def _moment(self, written: object) -> float | None:
        try:  # nanoseconds are more than Python takes
            wall = datetime.fromisoformat(f"{str(written).rstrip('Z')[:26]}+00:00")
        except ValueError:
            return None
        return wall.timestamp() - self._clocks_apart

    async def settle(self) -> None:
        """Return when the timeline has all events of the activator up to now."""
        await asyncio.sleep(EVENTS_LATE)

    # -- waiting --------------------------------------------------------------------------------

    async def until(self, is_so: Callable[[], object], what: str) -> None:
        """Return when events of pods or kubelet have made a condition true.

        Arguments:
            is_so: the condition; evaluated after each event.
            what: the condition in words, for the error.

        Raises:
            Overdue: the condition was not true within `PATIENCE` seconds.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not is_so():
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise Overdue(f"timed out while waiting for: {what}") from None

    async def until_view(self, app: Viewed, what: str, is_so: Callable[[View], object]) -> View:
        """See `AppHandle.until_view`."""
        end = time.monotonic() + PATIENCE
        found: View = {}
        while time.monotonic() < end:
            try:
                found = await app.view()
            except ConnectionError:
                found = {}
            if found and is_so(found):
                self.note(Who.ACTIVATOR, f"{app.name}: {what}")
                return found
            await asyncio.sleep(POLL_PERIOD)
        view = phrases.of_view(found)
        raise Overdue(f"the activator did not reach: {app.name}: {what}; its state: {view}")

    # -- revisions and pods ---------------------------------------------------------------------

    async def deploy(
        self,
        name: str = "app",
        pods: int = 1,
        *,
        probes: Probes = QUICK,
        pod: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> AppHandle:
        """Write a revision and start its pods; return when the activator uses all of them.

        Arguments:
            probes: the probes that kubelet runs on the pods.
            pod: further fields of `PodOptions`.
            settings: arguments of `activator.lab.objects.revision`.
        """
        app = AppHandle(self, revision(name, **settings), probes, pod or {})
        self.apps.append(app)
        app.start_pods(pods)
        await app.until_ready()
        await app.until_view(
            _HEALTHY.get(pods, f"its {pods} pods are healthy"),
            lambda view: sum(_in_use(each) for each in view["pods"]) == pods,
        )
        return app

    # -- clients --------------------------------------------------------------------------------

    async def request(
        self,
        app: Viewed | str,
        target: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        where: Where | None = None,
    ) -> ClientResponse:
        """Send a request; return the response, with status 0 for none.

        Arguments:
            where: host and port to connect to; None for the activator.
        """
        response = await self._send(app, target, method, headers, body, where)
        self.note(Who.CLIENT, phrases.of_response(method, target, response))
        return response

    def start_request(
        self,
        app: Viewed,
        target: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        where: Where | None = None,
    ) -> Task[ClientResponse]:
        """Begin a request; the script awaits the returned task later."""
        self.note(Who.CLIENT, f"{method} {target}: sent")
        sending = self.request(app, target, method, headers, where=where)
        return self.tasks.create_task(sending)

    async def _send(
        self,
        app: Viewed | str,
        target: str,
        method: str,
        headers: Mapping[str, str] | None,
        body: bytes,
        where: Where | None = None,
    ) -> ClientResponse:
        name = app if isinstance(app, str) else app.name
        given = {"Host": f"{name}.default.svc.cluster.local", **(headers or {})}
        began = time.monotonic()
        try:
            return await fetch(*(where or self.activator.traffic), target, method, given, body)
        except OSError as error:
            return ClientResponse(
                0, {}, str(error) or type(error).__name__, time.monotonic() - began
            )

    @asynccontextmanager
    async def load(
        self,
        app: Viewed,
        rate: float,
        posts: int = 0,
        where: Where | None = None,
        target: str = "/",
    ) -> AsyncIterator[SteadyTraffic]:
        """Send steady traffic while the block runs; the end of the block awaits all responses.

        Arguments:
            rate: requests per second.
            posts: one request in so many is a POST; 0 for none.
            where: host and port to connect to; None for the activator.
            target: path and query of each request.
        """

        async def send(method: str, request_id: str) -> ClientResponse:
            return await self._send(app, target, method, {"x-request-id": request_id}, b"", where)

        load = SteadyTraffic(send, rate, posts, target)
        self.note(Who.CLIENT, f"begins to send {rate:g} requests a second")
        load.start(self.tasks)
        try:
            yield load
        finally:
            await load.stop()
            self.note(Who.CLIENT, f"ends: {load.summary()}")


def _in_use(pod: View) -> bool:
    return bool(pod["usable"] and pod["kubernetes"] == "ready")


@asynccontextmanager
async def set_up(timeline: Timeline, addresses: AddressPool) -> AsyncIterator[Environment]:
    """Provide an environment with a ready activator; all its processes end with the block.

    Raises:
        DidNotStart: the activator did not start.
    """
    with TemporaryDirectory(prefix="activator-lab-") as folder:
        async with TaskGroup() as tasks:
            environment = Environment(Path(folder), timeline, addresses, tasks)
            try:
                await environment.activator.start()
                yield environment
            finally:
                await environment.activator.close()
                for task in environment.pod_tasks:
                    task.cancel()
