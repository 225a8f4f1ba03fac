"""What a scenario plays with: revisions, their pods, an activator in front, and clients.

Everything real: processes on loopback addresses, a folder of manifests, HTTP. A script says what
is done and what must be so; the stage does it, waits for what follows, and keeps the timeline.
It waits for events and answers, never for time alone.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import Task, TaskGroup
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from activator.lab import wording
from activator.lab.addresses import AddressPool
from activator.lab.checks import Probes
from activator.lab.client import Reply, fetch
from activator.lab.load import Load
from activator.lab.local_activator import LocalActivator
from activator.lab.objects import revision
from activator.lab.staged import App, View
from activator.lab.timeline import Entry, Timeline, Who

#: Seconds for what should take a moment, on a machine that does much else.
PATIENCE = 30.0
#: Seconds between two looks at the admin API, while something is waited for that nobody tells.
LOOK_AGAIN = 0.01
#: Seconds by which events may be late: the activator sends them ten times a second at most.
EVENTS_LATE = 0.15
#: Seconds between kubelet's checks: a tenth of the least that Kubernetes has, so that it takes
#: moments what takes half a minute in a cluster.
PERIOD = 0.1
#: How pods of the stage are checked where a script does not say otherwise.
QUICK = Probes(PERIOD)


_HEALTHY = {0: "is known, without a pod", 1: "its pod is healthy"}


class Overdue(Exception):
    """Something that a script waited for did not come within `PATIENCE`; says what."""


#: How log lines begin that timelines leave out: those of the start, and what events show as well.
_LEFT_OUT = (
    *("activator ", "open files: ", "listening: "),
    *("pod ", "requests can be sent: ", "no request can be sent: "),
)


class Stage:
    """The world of one scenario; see `set_up`.

    Attributes:
        live: called with each entry of the timeline as it is taken.
        log_moments: when the activator wrote each line of its log; of time.monotonic().
    """

    def __init__(
        self, manifests: Path, timeline: Timeline, addresses: AddressPool, tasks: TaskGroup
    ) -> None:
        self.manifests = manifests
        self.addresses = addresses
        self.tasks = tasks
        self.held: list[Task[None]] = []
        self.news = asyncio.Event()
        self.apps: list[App] = []
        self.live: Callable[[Entry], object] = lambda entry: None
        self.log_moments: list[float] = []
        self._timeline = timeline
        self._clocks_apart = time.time() - time.monotonic()
        self.activator = LocalActivator(manifests, self._activator_said, self._activator_did)

    # -- what is told ---------------------------------------------------------------------------

    def note(self, who: Who, what: str, at: float | None = None) -> None:
        """Puts something into the timeline; ``at`` is of time.monotonic(), now if left out."""
        if entry := self._timeline.note(time.monotonic() if at is None else at, who, what):
            self.live(entry)

    def expect(self, what: str, passed: object, seen: object = "") -> None:
        """Says what must be so, and whether it is; the scenario goes on in either case."""
        self.live(self._timeline.check(time.monotonic(), what, bool(passed), wording.seen(seen)))

    def _activator_said(self, line: Mapping[str, Any]) -> None:
        moment = self._moment(line.get("timestamp"))
        self.log_moments.append(time.monotonic() if moment is None else moment)
        message = str(line["message"])
        # The events also have the changes of pods and capacity.
        if not message.startswith(_LEFT_OUT):
            self.note(Who.ACTIVATOR, message, at=moment)

    def _activator_did(self, kind: str, data: Mapping[str, Any]) -> None:
        if words := wording.did(kind, data):
            self.note(Who.ACTIVATOR, words, at=self._moment(data.get("time")))

    def _moment(self, written: object) -> float | None:
        try:  # nanoseconds are more than Python takes
            wall = datetime.fromisoformat(f"{str(written).rstrip('Z')[:26]}+00:00")
        except ValueError:
            return None
        return wall.timestamp() - self._clocks_apart

    async def settle(self) -> None:
        """Returns when what the activator did until now is in the timeline, as far as it tells."""
        await asyncio.sleep(EVENTS_LATE)

    # -- waiting --------------------------------------------------------------------------------

    async def until(self, is_so: Callable[[], object], what: str) -> None:
        """Returns when what pods and kubelet tell has made something so.

        Raises:
            Overdue: it did not within `PATIENCE`.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not is_so():
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            raise Overdue(f"waited in vain for: {what}") from None

    async def until_view(self, app: App, what: str, is_so: Callable[[View], object]) -> View:
        """See `App.until_view`."""
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
            await asyncio.sleep(LOOK_AGAIN)
        said = wording.known(found)
        raise Overdue(f"the activator did not come to this: {app.name}: {what}; it says: {said}")

    # -- revisions and pods ---------------------------------------------------------------------

    async def deploy(
        self,
        name: str = "app",
        pods: int = 1,
        *,
        probes: Probes = QUICK,
        pod: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> App:
        """Writes a revision and starts pods for it.

        Returns when the activator knows the revision and uses all of its pods.

        Arguments:
            probes: what kubelet asks its pods.
            pod: further fields of `PodOptions`.
            settings: of the Revision, as `activator.lab.objects.revision` takes them.
        """
        app = App(self, revision(name, **settings), probes, pod or {})
        self.apps.append(app)
        app.start_pods(pods)
        await app.until_ready()
        await app.until_view(
            _HEALTHY.get(pods, f"its {pods} pods are healthy"),
            lambda view: sum(_in_use(each) for each in view["pods"]) == pods,
        )
        return app

    # -- clients --------------------------------------------------------------------------------

    async def ask(
        self,
        app: App | str,
        target: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Reply:
        """One request through the activator; a status of 0 if there was no answer."""
        reply = await self._send(app, target, method, headers, body)
        self.note(Who.CLIENT, wording.answered(method, target, reply))
        return reply

    def begin(
        self,
        app: App,
        target: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
    ) -> Task[Reply]:
        """Sends a request that the script does not wait for at once."""
        self.note(Who.CLIENT, f"{method} {target}: sent")
        return self.tasks.create_task(self.ask(app, target, method, headers))

    async def _send(
        self,
        app: App | str,
        target: str,
        method: str,
        headers: Mapping[str, str] | None,
        body: bytes,
    ) -> Reply:
        name = app if isinstance(app, str) else app.name
        given = {"Host": f"{name}.default.svc.cluster.local", **(headers or {})}
        began = time.monotonic()
        try:
            return await fetch(*self.activator.traffic, target, method, given, body)
        except OSError as error:
            return Reply(0, {}, str(error) or type(error).__name__, time.monotonic() - began)

    @asynccontextmanager
    async def load(self, app: App, rate: float, posts: int = 0) -> AsyncIterator[Load]:
        """Steady traffic while the block runs; all of it is answered when it ends.

        Arguments:
            rate: requests a second.
            posts: every such request is a POST; 0 for none.
        """

        async def ask(method: str, request_id: str) -> Reply:
            return await self._send(app, "/", method, {"x-request-id": request_id}, b"")

        load = Load(ask, rate, posts)
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
async def set_up(timeline: Timeline, addresses: AddressPool) -> AsyncIterator[Stage]:
    """A stage with an activator that is ready; all of its processes end with the block.

    Raises:
        DidNotStart: the activator does not.
    """
    with TemporaryDirectory(prefix="activator-lab-") as folder:
        async with TaskGroup() as tasks:
            stage = Stage(Path(folder), timeline, addresses, tasks)
            try:
                await stage.activator.start()
                yield stage
            finally:
                await stage.activator.close()
                for task in stage.held:
                    task.cancel()
