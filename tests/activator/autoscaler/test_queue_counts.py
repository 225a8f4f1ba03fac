"""The counts of route objects for a scaler that polls them."""

from __future__ import annotations

import json
from typing import Any

from activator.autoscaler.reporter import StatReporter
from activator.keda.metrics import RateWindow
from tests.rows import in_one_test
from throttler.model import Policies, Revision, RevisionID, RevisionKind
from throttler.request_policies import InterceptorRules, RequestPolicies


class World:
    """A reporter of the revisions in a list; the test sets the clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.revisions: list[Revision] = []
        self.reporter = StatReporter(
            (), clock=lambda: self.now, revisions=lambda: iter(self.revisions)
        )

    def add(
        self, name: str, kind: RevisionKind = RevisionKind.HTTP_ROUTE, **rules: float
    ) -> RevisionID:
        made = InterceptorRules("InterceptorRoute", "web:80", **rules)  # type: ignore[arg-type] # window
        policies = Policies(requests=RequestPolicies(interceptor=made))
        self.revisions.append(Revision(RevisionID("default", name, kind), policies=policies))
        return self.revisions[-1].id

    def request(self, revision: RevisionID, times: int = 1, *, ended: bool = True) -> None:
        load = self.reporter.loads.load(revision)
        for _ in range(times):
            load.request_began(self.now)
            if ended:
                load.request_ended(self.now)

    def queue(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(b"".join(self.reporter.queue.pieces()))
        return found


async def test_an_object_has_a_key_from_its_appearance_to_its_deletion():
    world = World()
    assert world.queue() == {}
    world.add("a")
    world.add("service", RevisionKind.SERVICE)
    world.add("a", RevisionKind.FALLBACK)
    assert world.queue() == {"default/a": {"Concurrency": 0, "RequestCount": 0, "RPS": 0}}
    world.revisions.clear()
    assert world.queue() == {}


async def test_requests_count_until_they_end_and_the_sum_never_falls():
    world = World()
    id_ = world.add("a")
    world.request(id_, 2, ended=False)
    assert world.queue()["default/a"] == {"Concurrency": 2, "RequestCount": 2, "RPS": 0}
    for _ in range(2):
        world.now += 1
        world.reporter.loads.load(id_).request_ended(world.now)
        world.reporter.report()
    assert world.queue()["default/a"] == {"Concurrency": 0, "RequestCount": 2, "RPS": 0}
    for count in range(3, 6):
        world.now += 5
        world.reporter.report()
        world.request(id_)
        assert world.queue()["default/a"]["RequestCount"] == count


async def test_kept_demand_is_concurrency_but_no_request():
    world = World()
    load = world.reporter.loads.load(world.add("a"))
    load.demand_began(world.now)
    assert world.queue()["default/a"] == {"Concurrency": 1, "RequestCount": 0, "RPS": 0}
    load.request_ended(world.now + 1)
    world.reporter.report()
    assert world.queue()["default/a"] == {"Concurrency": 0, "RequestCount": 0, "RPS": 0}


async def test_the_rate_is_a_mean_over_the_window_of_the_object():
    world = World()
    id_ = world.add("a", window=10.0, granularity=1.0)
    plain = world.add("b")
    for _ in range(4):
        world.request(id_, 6)
        world.request(plain, 6)
        world.now += 1
        world.reporter.report()
        world.queue()
    rates = {key: each["RPS"] for key, each in world.queue().items()}
    assert rates == {"default/a": 6, "default/b": 0}, "only one has that metric"
    world.now += 11
    assert world.queue()["default/a"]["RPS"] == 0


async def test_many_objects_come_in_pieces_that_are_one_document():
    world = World()
    for number in range(1201):
        world.add(f"n{number}")
    assert len(list(world.reporter.queue.pieces())) > 2
    assert len(world.queue()) == 1201


@in_one_test(
    ("counts", "now", "mean"),
    [
        ([], 0, 0),
        ([(0, 5)], 0, 5),
        ([(0, 5)], 3, 5),  # up to the last increase
        ([(0, 5), (4, 15)], 4, 3),
        ([(0, 5), (4, 15)], 12, 2),  # the first one has left the window
        ([(0, 5), (0.5, 6)], 0.9, 6),
        ([(0, 5), (1, 2)], 1, 3.5),  # the counter began again at zero
        ([(0, 9), (30, 12)], 30, 3),  # a silent window
    ],
)
def test_a_window_mean_divides_by_the_buckets_from_the_first_to_the_last(counts, now, mean):
    window = RateWindow(10.0, 1.0)
    for at, counter in counts:
        window.count(counter, at)
    assert window.mean(now, until_last=True) == mean
