"""Ended requests on their way to the exporter: no call blocks, and memory is limited."""

from __future__ import annotations

import logging
import threading

import pytest

from activator.telemetry.trace_queue import BATCH, MAX_QUEUED, TraceCounters, TraceQueue
from activator.telemetry.tracing import RecordedTrace
from tests.activator.telemetry.tracing_world import Requests


class Exporter:
    """An exporter that a test blocks or lets fail."""

    def __init__(self) -> None:
        self.problem = ""
        self.batches: list[int] = []
        self.busy = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.ended = threading.Event()

    def export(self, traces: list[RecordedTrace]) -> str:
        self.batches.append(len(traces))
        self.busy.set()
        assert self.go_on.wait(30)
        if self.problem == "raise":
            raise RuntimeError("out of luck")
        return self.problem

    def shutdown(self) -> None:
        self.go_on.set()
        self.ended.set()


@pytest.fixture
def exporter():
    return Exporter()


@pytest.fixture
def counters():
    return TraceCounters()


@pytest.fixture
def queue(exporter, counters):
    queue = TraceQueue(lambda: exporter, counters, delay=3600)
    yield queue
    exporter.go_on.set()
    queue.close(10)


TRACE = Requests().served()


def test_what_is_there_is_sent_when_it_ends(queue, exporter, counters):
    for _ in range(3):
        queue.put(TRACE)
    queue.close(10)
    assert exporter.batches == [3]
    assert counters.exported == 3
    assert exporter.ended.is_set()


def test_a_batch_is_sent_at_once_and_a_short_one_after_a_while(exporter, counters, queue):
    for _ in range(BATCH):
        queue.put(TRACE)
    assert exporter.busy.wait(10)
    soon = TraceQueue(lambda: exporter, counters, delay=0.001)
    exporter.busy.clear()
    soon.put(TRACE)
    assert exporter.busy.wait(10)
    soon.close(10)
    assert exporter.batches == [BATCH, 1]


def test_a_collector_that_hangs_costs_a_bounded_queue_and_no_time(queue, exporter, counters):
    exporter.go_on.clear()
    for _ in range(BATCH):
        queue.put(TRACE)
    assert exporter.busy.wait(10)  # it has the first batch, and holds it
    for _ in range(MAX_QUEUED + 100):
        queue.put(TRACE)
    assert counters.dropped["queue-full"] == 100
    exporter.go_on.set()
    queue.close(10)
    assert counters.exported == BATCH + MAX_QUEUED
    queue.put(TRACE)
    assert counters.dropped["queue-full"] == 101


def test_an_end_does_not_wait_for_ever_and_gives_up_what_hangs(queue, exporter):
    exporter.go_on.clear()
    queue.put(TRACE)
    queue.close(0.01)
    assert exporter.ended.wait(5)  # long before the export's own time-out


@pytest.mark.parametrize(
    ("problem", "said"), [("no route", "no route"), ("raise", "RuntimeError: out of luck")]
)
def test_what_fails_is_counted_and_said_once(exporter, counters, caplog, problem, said):
    exporter.problem = problem
    with caplog.at_level(logging.WARNING, "activator.telemetry.trace_queue"):
        queue = TraceQueue(lambda: exporter, counters, delay=3600)
        for _ in range(3 * BATCH):
            queue.put(TRACE)
        queue.close(10)
    assert counters.dropped["export-failed"] == 3 * BATCH
    (line,) = caplog.messages
    assert line.startswith("traces: the spans of ")
    assert line.endswith(said)


def test_an_exporter_that_cannot_be_made_is_said_and_drops_all(counters, caplog):
    def make():
        raise ValueError("no such compression")

    queue = TraceQueue(make, counters, delay=3600)
    queue.put(TRACE)
    queue.close(10)
    assert counters.dropped["export-failed"] == 1
    assert "no exporter, all spans are dropped: no such compression" in caplog.text
