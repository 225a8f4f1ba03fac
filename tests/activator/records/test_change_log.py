"""The lines of the process log on pods and capacities, as an operator reads them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.driver import Driver
from activator.process import logs
from activator.process.logs import of_activator
from activator.records.entries import Entries
from activator.records.narration import OF_ALL, OF_REVISION, WINDOW, WORDS, identity
from tests.activator.records.test_narration import Silent
from tests.activator.test_driver import World as Driven
from tests.activator.throttlers import release, throttler_of
from throttler.model import (
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    MeshMode,
    ReadinessRule,
    Revision,
    RevisionID,
    RevisionKind,
)
from throttler.pod import PodTracker
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import Ticket

APP = RevisionID("default", "app")
POD, OTHER = "10.0.0.1:8012", "10.0.0.2:8012"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """The process log, in JSON lines."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    stream = io.StringIO()
    logs.configure("json", "info", of_activator("activator-x"), stream)
    yield stream
    root.setLevel(level)
    logs.release()
    root.handlers[:] = handlers


class World:
    """A driver; the test decides what Kubernetes lists and how probes end."""

    def __init__(self, written: io.StringIO) -> None:
        self._written = written
        self._read = 0
        loop = asyncio.get_running_loop()
        throttler = Throttler(Limits(), lambda: 0.0)
        entries = Entries(throttler, ConcurrencyReporter(lambda _: None).load)
        self.driver = Driver(throttler, entries, loop.time)
        self.driver.prober = self.driver.pools = Silent()

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines since the last call."""
        whole = [json.loads(line) for line in self._written.getvalue().splitlines()]
        new, self._read = whole[self._read :], len(whole)
        return new

    def messages(self) -> list[str]:
        return [line["message"] for line in self.lines()]

    def revision(self, revision: RevisionID = APP, **settings: Any) -> RevisionThrottler:
        settings = {"container_concurrency": 10, **settings}
        self.driver.set_revision(Revision(revision, **settings))
        return self.driver.throttler.find(*revision)

    def list_pods(
        self, *ready: str, not_ready: tuple[str, ...] = (), revision: RevisionID = APP
    ) -> None:
        sides = (
            frozenset(Endpoint(one, f"uid-{one}") for one in side) for side in (ready, not_ready)
        )
        self.driver.set_endpoints(revision, {AppProtocol.HTTP1: ListedEndpoints(*sides)})

    def pass_probes(self, revision: RevisionID = APP) -> None:
        for pod in list(self.driver.throttler.find(*revision).backends.pods.values()):
            self.driver.probe_passed(pod, pod.epoch)

    def ask(self, revision: RevisionThrottler) -> Ticket:
        now = asyncio.get_running_loop().time()
        ticket = Ticket(Silent(), now + 60)
        if revision.admit(ticket, now) is None:
            self.driver.began_waiting(revision)
        return ticket


@pytest.fixture
async def world(written: io.StringIO) -> World:
    return World(written)


async def test_a_pods_life_is_in_the_log_from_its_first_listing_to_its_end(world: World) -> None:
    world.revision()
    world.list_pods(not_ready=(POD,))
    assert world.messages() == [
        f"pod {POD}: Kubernetes lists it as not ready; "
        "no request goes to it until it passes a probe"
    ]
    world.pass_probes()
    line, capacity = world.lines()
    assert line["message"] == f"pod {POD}: it passed its probe; requests may go to it"
    assert line["severity"] == "INFO"
    assert {key: line[key] for key in ("knative.dev/key", "pod", "state", "ready", "rule")} == {
        "knative.dev/key": "default/app",
        "pod": POD,
        "state": "healthy",
        "ready": False,
        "rule": "probe-passed",
    }
    assert (
        capacity["message"]
        == f"requests can be sent: capacity 0 -> 10; pod {POD}: it passed its probe; "
        "1 usable pod × 10 = 10"
    )
    assert (capacity["knative.dev/key"], capacity["capacity"]) == ("default/app", 10)
    world.list_pods(POD)
    assert world.messages() == [f"pod {POD}: Kubernetes lists it as ready; requests may go to it"]
    world.list_pods(not_ready=(POD,))
    line, capacity = world.lines()
    assert line["message"] == (
        f"pod {POD}: Kubernetes lists it as not ready; "
        "no request goes to it until it passes a probe"
    )
    assert capacity["message"] == (
        "no request can be sent: capacity 10 -> 0; Kubernetes now lists 1 pod, none as ready; "
        "requests would wait: pods-not-ready"
    )
    assert (capacity["capacity"], capacity["reason"]) == (0, "pods-not-ready")


async def test_the_log_of_a_tcp_service_speaks_of_connections(world: World) -> None:
    revision = world.revision(protocol=AppProtocol.TCP)
    listed = frozenset({Endpoint(POD, "uid")})
    pods = {AppProtocol.TCP: ListedEndpoints(listed, frozenset())}
    world.driver.set_endpoints(APP, pods)
    world.pass_probes()
    (tracker,) = revision.backends.pods.values()
    world.driver.connect_failed(tracker, "refused")
    world.ask(revision)
    world.driver.set_endpoints(APP, {AppProtocol.TCP: ListedEndpoints(frozenset(), frozenset())})
    lines = world.messages()
    assert f"pod {POD}: a connection could not be sent to it: refused; " in "\n".join(lines)
    assert "no connection can be sent: capacity 10 -> 0; " in "\n".join(lines)
    assert len(lines) >= 6
    assert not [line for line in lines if "request" in line]


async def test_scale_to_zero_is_in_the_log(world: World) -> None:
    world.revision()
    world.list_pods(POD)
    world.pass_probes()
    world.lines()
    world.list_pods()
    assert world.messages() == [
        f"pod {POD}: it is not listed and has no request; it is gone",
        "no request can be sent: capacity 10 -> 0; Kubernetes now lists no pod; "
        "requests would wait: no-endpoints",
    ]


async def test_a_capacity_of_0_says_whether_requests_wait(world: World) -> None:
    revision = world.revision(container_concurrency=1)
    world.list_pods(POD)
    world.pass_probes()
    (pod,) = revision.backends.pods.values()
    world.driver.connect_failed(pod, "refused")
    assert world.messages()[-1].endswith("; requests would wait: probe-failing")
    world.pass_probes()
    for _ in range(2):
        world.ask(revision)
    world.driver.connect_failed(pod, "refused")
    assert world.messages()[-1].endswith("; requests wait: probe-failing")


async def test_a_capacity_of_0_names_the_error_of_another_pod(world: World) -> None:
    revision = world.revision()
    world.list_pods(POD, OTHER)
    world.driver.probe_failed(*_probed(revision, OTHER), "status 503")
    world.driver.probe_passed(*_probed(revision, POD))
    world.lines()
    world.list_pods(OTHER)
    assert world.messages()[-1] == (
        "no request can be sent: capacity 10 -> 0; Kubernetes now lists 1 pod, 1 as ready; "
        f"requests would wait: probe-failing; {OTHER}: status 503"
    )


def _probed(revision: RevisionThrottler, address: str) -> tuple[PodTracker, int]:
    (pod,) = (pod for pod in revision.backends.pods.values() if pod.address == address)
    return pod, pod.epoch


async def test_a_pod_that_was_listed_before_its_revision_has_its_line_with_the_revision(
    world: World,
) -> None:
    world.list_pods(POD)
    assert world.messages() == []
    world.revision()
    assert world.messages() == [
        f"pod {POD}: Kubernetes lists it as ready; no request goes to it until it passes a probe"
    ]


async def test_a_pod_that_finishes_its_requests_has_a_line_and_another_at_its_end(
    world: World,
) -> None:
    revision = world.revision()
    world.list_pods(POD, OTHER)
    world.pass_probes()
    tickets = [world.ask(revision) for _ in range(11)]
    world.lines()
    world.list_pods(OTHER)
    assert world.messages() == [
        f"pod {POD}: Kubernetes no longer lists it; it finishes its requests and gets no others"
    ]
    for ticket in tickets:
        release(world.driver, throttler_of(world.driver, ticket), ticket, 0.0)
    assert world.messages() == [f"pod {POD}: it is not listed and has no request; it is gone"]


async def test_a_pod_that_waits_for_kubernetes_is_not_called_healthy_or_used(world: World) -> None:
    world.revision(readiness=ReadinessRule.EXEC_READINESS_PROBE)
    world.list_pods(not_ready=(POD,))
    world.lines()
    world.pass_probes()
    (line,) = world.lines()
    assert line["message"] == (
        f"pod {POD}: it passed its probe; no request goes to it until Kubernetes lists it as ready"
    )
    assert line["rule"] == "exec-readiness-probe"
    world.list_pods(POD)
    assert world.messages() == [
        f"pod {POD}: Kubernetes lists it as ready; requests may go to it",
        "requests can be sent: capacity 0 -> 10; Kubernetes now lists 1 pod, 1 as ready; "
        "1 usable pod × 10 = 10",
    ]


async def test_what_takes_a_pod_out_and_has_it_back_is_in_the_log(world: World) -> None:
    revision = world.revision(container_concurrency=0)
    world.list_pods(POD)
    world.pass_probes()
    (pod,) = revision.backends.pods.values()
    world.lines()
    world.driver.connect_failed(pod, "refused")
    assert world.messages() == [
        f"pod {POD}: a request could not be sent to it: refused; "
        "no request goes to it until it passes a probe",
        f"no request can be sent: capacity unlimited -> 0; pod {POD}: a request could not be sent "
        "to it: refused; requests would wait: probe-failing",
    ]
    world.pass_probes()
    line, capacity = world.lines()
    assert line["message"].endswith("it passed its probe; requests may go to it")
    assert capacity["message"].startswith("requests can be sent: capacity 0 -> unlimited; ")
    assert capacity["capacity"] is None
    world.driver.responded_badly(pod, "responded 502", untouched=True)
    assert world.messages()[0] == (
        f"pod {POD}: a request to it failed: responded 502; it is ejected until it passes a probe"
    )


async def test_a_change_of_the_mesh_mode_is_in_the_log_of_each_pod(world: World) -> None:
    world.revision()
    world.list_pods(POD)
    world.pass_probes()
    world.lines()
    world.driver.set_mesh(MeshMode.ENABLED, False)
    assert world.messages()[0] == (
        f"pod {POD}: how pods are reached has changed; "
        "no request goes to it while mesh mode is enabled"
    )


async def test_what_changes_nothing_has_no_line(world: World) -> None:
    revision = world.revision()
    world.list_pods(POD)
    world.pass_probes()
    world.lines()
    world.pass_probes()
    world.list_pods(POD)
    world.revision()
    for ticket in [world.ask(revision) for _ in range(20)]:
        release(world.driver, throttler_of(world.driver, ticket), ticket, 0.0)
    world.list_pods(POD, OTHER)
    world.lines()
    world.pass_probes()  # from 10 to 20: no change to or from 0
    assert [line for line in world.messages() if "capacity" in line] == []


async def test_a_level_above_info_has_no_line(world: World) -> None:
    logs.set_level("warn")
    world.revision()
    world.list_pods(POD)
    world.pass_probes()
    world.list_pods()
    assert world.messages() == []


@pytest.mark.parametrize("kind", list(RevisionKind))
async def test_many_changes_of_a_revision_end_in_one_line_that_counts_the_rest(
    world: World, kind: RevisionKind
) -> None:
    revision = APP._replace(kind=kind)
    world.revision(revision)
    world.list_pods(*(f"10.0.0.{n}:8012" for n in range(100)), revision=revision)
    assert len(world.lines()) == OF_REVISION
    world.pass_probes(revision)
    assert [line for line in world.messages() if "capacity" not in line] == []
    await asyncio.sleep(0)
    end = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(WINDOW, end.set_result, None)
    await end
    (line,) = world.lines()
    what = WORDS[kind]
    assert line["message"] == f"… 190 more changes of {what} default/app were not logged"
    assert (line["knative.dev/key"], line["changes"]) == ("default/app", 190)
    world.list_pods(revision=revision)
    assert len(world.lines()) == OF_REVISION + 1  # the next window has its lines, and a capacity


@pytest.mark.untraced
async def test_changes_of_many_revisions_are_limited_together(world: World) -> None:
    revisions = [RevisionID("default", f"app-{number}") for number in range(1000)]
    for number, revision in enumerate(revisions):
        world.revision(revision)
        address = f"10.1.{number // 250}.{number % 250}:8012"
        world.list_pods(address, revision=revision)
    assert len(world.lines()) == OF_ALL
    for revision in revisions:
        world.pass_probes(revision)
    lines = world.lines()
    assert len(lines) == OF_ALL  # lines of pods do not use up the limit of capacities
    assert all(
        line["message"].startswith("requests can be sent: capacity 0 -> 10; ") for line in lines
    )
    world.driver.close()
    *named, others = world.messages()
    assert len(named) == 10
    assert all(" more changes of revision default/app-" in line for line in named)
    counts = [int(line.split()[1]) for line in (*named, others)]
    assert sum(counts) == 3000 - 2 * OF_ALL
    assert others.endswith(" more changes of 990 other revisions were not logged")


def test_a_line_about_a_service_says_so() -> None:
    assert identity(RevisionID("ns", "a")) == {"revision": "ns/a"}
    service = RevisionID("ns", "a", RevisionKind.SERVICE)
    assert identity(service) == {"revision": "ns/a", "object_kind": "Service"}
    route = service._replace(kind=RevisionKind.HTTP_ROUTE)
    assert identity(route) == {"revision": "ns/a", "object_kind": "route object"}


async def test_a_loss_of_addresses_to_another_revision_is_a_warning_that_names_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, thief = Driven(), RevisionID("default", "thief")
    world.revision()
    world.list_pods(["10.0.0.1:8012", "10.0.0.2:8012"])
    theirs = frozenset(Endpoint(f"10.0.0.{n}:8012", "new") for n in (1, 2))
    world.driver.set_endpoints(thief, {AppProtocol.HTTP1: ListedEndpoints(ready=theirs)})
    world.list_pods(["10.0.0.1:8012", "10.0.0.2:8012"])

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() in {
        f"address 10.0.0.{n}:8012 and 1 more moved from revision default/app to revision "
        "default/thief, which lists it for other pods"
        for n in (1, 2)
    }
