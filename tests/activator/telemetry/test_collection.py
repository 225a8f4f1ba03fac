"""One walk yields text and points, with equal values."""

from __future__ import annotations

from math import isclose

from prometheus_client.parser import text_string_to_metric_families

from activator.records.counters import Histogram
from activator.telemetry import families as f
from activator.telemetry.collection import merged
from activator.telemetry.metric_writers import Counted
from activator.telemetry.metrics import Metrics
from tests.activator.telemetry.test_metrics import with_everything
from tests.activator.telemetry.world import World, text_of


def test_text_and_points_say_the_same():
    world = World()
    throttler, counters = with_everything(world)
    counters.server_of((b"BREW", 1, 200)).duration.observe(7)
    world.request(throttler)
    text = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text_of(world))
        for sample in family.samples
    }
    points = [point for point in Metrics(world).points() if point is not None]
    moving = ("process_", "python_")
    for family, labels, value in points:
        if family.name.startswith(moving):
            continue
        if isinstance(value, Counted):
            assert text[family.name + "_count", frozenset(labels)] == sum(value.counts)
            assert isclose(text[family.name + "_sum", frozenset(labels)], value.total)
        else:
            assert text[family.name, frozenset(labels)] == value
    assert {point.family.name for point in points} >= {
        name.removesuffix("_count") for name, _ in text if name.endswith("_count")
    }
    series = {(p.family.name, frozenset(p.labels)) for p in points}
    assert len(series) == len(points)


def test_merging_adds_and_leaves_the_parts_alone():
    parts = [Histogram((1, 2)) for _ in range(3)]
    for part, value in zip(parts, (0.5, 1.5, 99), strict=True):
        part.observe(value)
    total = merged(parts)
    assert (total.bounds, total.counts, total.total) == ((1, 2), [1, 1, 1], 101)
    assert [part.counts for part in parts] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_the_time_in_which_a_response_must_begin_is_the_shorter_of_the_two():
    world = World()
    world.entry(world.revision("one", timeout=60.0))
    world.entry(world.revision("two", timeout=60.0, response_start_timeout=20.0))
    found = {
        dict(labels)["kn_revision_name"]: value
        for family, labels, value in filter(None, Metrics(world).points())
        if family is f.TIMEOUT
    }
    assert found == {"one": 60, "two": 20}


def test_pods_with_room_are_those_that_could_take_one_more():
    world = World()
    throttler = world.revision(concurrency=1)
    world.healthy(throttler, "10.0.0.1:8012", "10.0.0.2:8012")

    def with_room():
        points = filter(None, Metrics(world).points())
        return next(value for family, _, value in points if family is f.WITH_ROOM)

    seen = [with_room()]
    for _ in range(3):  # the last one waits
        world.request(throttler)
        seen.append(with_room())
    assert seen == [2, 1, 0, 0]
