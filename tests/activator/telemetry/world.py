"""An activator without sockets: a real driver and throttler; the test sets the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType, SimpleNamespace
from typing import Any

from activator.admin.history import History
from activator.autoscaler.reporter import StatReporter
from activator.driver import Driver
from activator.plain.route_table import RouteTable
from activator.records.counters import LAG_BOUNDS, Histogram
from activator.records.entries import Entries, Entry
from activator.records.source_status import NO_SOURCE, SourceStatus
from activator.telemetry.metrics import Metrics
from activator.telemetry.otel import Identity, LoopLag
from throttler.model import (
    Endpoint,
    ListedEndpoints,
    Revision,
    RevisionID,
    RevisionKind,
)
from throttler.pod import PodTracker
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import Ticket

NO_ZONES: Mapping[str, str] = MappingProxyType({})


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Nobody:
    """Replaces prober, pools and owners of tickets: accepts every call, does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


#: The base of ``World``, so that the type checker lets it stand for a Runtime.
ANY: Any = object


class World(ANY):
    """The state of a Runtime that admin listener and metrics read."""

    def __init__(self, limits: Limits | None = None, zone: str = "") -> None:
        self.clock = Clock()
        throttler = Throttler(limits or Limits(), lambda: 0.5, own_ip="10.9.9.9", zone=zone)
        self.reporter = StatReporter(
            (), clock=self.clock, revisions=lambda: [each.revision for each in throttler]
        )
        entries = Entries(throttler, self.reporter.loads.load, table=RouteTable())
        self.driver = Driver(throttler, entries, self.clock)
        self.driver.prober = self.driver.pools = Nobody()
        self.history = History(self.clock, lambda: self.clock.now)
        self.history.known = self.driver.entries.known
        self.prober = SimpleNamespace(attempts=7, failures={"timeout": 2}, in_flight=1)
        self.pools = SimpleNamespace(resources=SimpleNamespace(connections=5, idle=3), tls=None)
        counters = SimpleNamespace(unknown_revisions=11, bad_requests=13, turned_away=83)
        heads = SimpleNamespace(bytes=43, most=47)
        unread = SimpleNamespace(bytes=53, most=59, ended={"client": 61, "pod": 67})
        shares = SimpleNamespace(traffic=144)
        files = SimpleNamespace(shares=shares, clients=lambda: 71, pods=73, waiting=79)
        self.proxy = SimpleNamespace(
            counters=counters,
            services=SimpleNamespace(draining=False),
            head_budget=heads,
            unread=unread,
            files=files,
        )
        self.authorizer = SimpleNamespace(counts={"denied": 97}, waiting=101)
        self.links: Any = SimpleNamespace(autoscaler=None, scaler=None)
        self.source: SourceStatus = NO_SOURCE
        traces = SimpleNamespace(exported=17, dropped={"queue-full": 19})
        self.cluster = SimpleNamespace(error_counts=lambda: {"config-network": 29})
        self.certificates: list[str] = []
        self.observers = SimpleNamespace(
            identity=Identity("activator", "", ""),
            request_log=SimpleNamespace(lines=31, failures=37),
            outputs=SimpleNamespace(dropped={"stdout": 41, "stderr": 43}),
            traces=SimpleNamespace(counters=traces),
            push=SimpleNamespace(pushes={"sent": 23}),
            loop_lag=LoopLag(),
            pauses=Histogram(LAG_BOUNDS),
            certificates=SimpleNamespace(expiry={"https": 1_800_000_000.0}),
        )
        self.settings = SimpleNamespace(pod_name="activator-1")
        self.started_at = self.clock.now - 60
        self.not_ready = ""
        self.text: Any = b"up 1\n"
        self.life: list[str] = []

    # -- for the admin port ---------------------------------------------------------------------

    def ready(self) -> str:
        return self.not_ready

    def source_status(self) -> SourceStatus:
        return self.source

    def certificate_warnings(self) -> list[str]:
        return self.certificates

    def metrics(self) -> Iterator[bytes]:
        return iter((self.text,) if isinstance(self.text, bytes) else self.text)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.life.append("started")
        yield
        self.life.append("stopped")

    # -- what happens ---------------------------------------------------------------------------

    def revision(
        self, name: str = "hello", concurrency: int = 2, **changes: Any
    ) -> RevisionThrottler:
        """Make or change a revision."""
        words = {"uid": "u1", "service": "svc", "configuration": "cfg"} | changes
        kind = words.pop("kind", RevisionKind.REVISION)
        revision_id = RevisionID(words.pop("namespace", "default"), name, kind)
        self.driver.set_revision(Revision(revision_id, container_concurrency=concurrency, **words))
        return self.driver.throttler.find(*revision_id)

    def pods(
        self,
        throttler: RevisionThrottler,
        *ready: str,
        not_ready: tuple[str, ...] = (),
        zones: Mapping[str, str] = NO_ZONES,
    ) -> list[PodTracker]:
        """List these addresses, and no others; return the pods in that order."""
        endpoints = ListedEndpoints(
            *(frozenset(Endpoint(a, f"uid-{a}") for a in side) for side in (ready, not_ready)),
            zones=zones,
        )
        self.driver.set_endpoints(throttler.revision.id, {throttler.revision.protocol: endpoints})
        known = {pod.address: pod for pod in throttler.backends.pods.values()}
        return [known[address] for address in (*ready, *not_ready)]

    def healthy(
        self, throttler: RevisionThrottler, *addresses: str, zones: Mapping[str, str] = NO_ZONES
    ) -> list[PodTracker]:
        """List these addresses; each pod passes its probe."""
        pods = self.pods(throttler, *addresses, zones=zones)
        for pod in pods:
            self.driver.probe_passed(pod, pod.epoch)
        return pods

    def request(self, throttler: RevisionThrottler, size: int = 0) -> Ticket:
        """Admit a request."""
        ticket = Ticket(Nobody(), self.clock.now + 300, size)
        throttler.admit(ticket, self.clock.now)
        return ticket

    def entry(self, throttler: RevisionThrottler) -> Entry:
        """Return the revision's entry, as a request would."""
        return self.driver.entries.of(throttler.revision.id)


def text_of(world: World) -> str:
    """Return all metrics as a scrape gets them."""
    return b"".join(Metrics(world).chunks()).decode()
