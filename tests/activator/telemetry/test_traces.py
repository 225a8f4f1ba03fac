"""Traces on and off while requests run, from a client's bytes to a collector."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial

import pytest

from activator.knative.configmaps.observability import (
    GRPC,
    HTTP_PROTOBUF,
    NONE,
    STDOUT,
    TracingConfig,
)
from activator.telemetry import otel as module
from activator.telemetry.otel import (
    BATCH,
    MAX_QUEUED,
    Endpoints,
    Identity,
    TraceCounters,
    TraceQueue,
    Traces,
)
from activator.telemetry.tracing import RecordedTrace
from tests.activator.proxy.world import request
from tests.activator.telemetry.collector import attributes, grpc_collector, http_collector
from tests.activator.telemetry.tracing_world import Requests
from tests.conftest import on_uvloop

pytestmark = on_uvloop  # threads send in real time

IDENTITY = Identity("activator", "knative-serving", "activator-1")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def made(proxy, endpoints=None, **settings) -> Traces:
    return Traces(
        IDENTITY,
        endpoints or Endpoints(),
        lambda tracer: setattr(proxy.services, "tracer", tracer),
        asyncio.ensure_future,
        **settings,
    )


def http(collector, rate: float = 1.0) -> TracingConfig:
    return TracingConfig(HTTP_PROTOBUF, collector.url, rate)


async def test_a_clients_trace_goes_through_us_to_the_pod(world):
    pod = await world.serving()
    traces = made(world.proxy)
    fields = f"traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\ntracestate: a=1\r\nbaggage: b=2\r\n"
    with http_collector() as collector:
        traces.apply(http(collector))
        assert (await world.ask(request(b"/buy?card=1", fields=fields.encode()))).status == 200
        await traces.close()
        wait, client, sent, server = collector.spans()

    assert [each.name for each in (wait, client, sent, server)] == [
        *("throttler_try", "GET /buy", "activator_proxy", "GET")
    ]
    assert {each.trace_id.hex() for each in (wait, client, sent, server)} == {TRACE}
    assert server.parent_span_id.hex() == "00f067aa0ba902b7"
    assert wait.parent_span_id == sent.parent_span_id == server.span_id
    assert attributes(server)["kn.revision.name"] == "rev"
    (seen,) = pod.requests
    assert seen.all(b"traceparent") == [f"00-{TRACE}-{client.span_id.hex()}-01".encode()]
    assert seen.all(b"tracestate") == [b"a=1"]
    assert seen.all(b"baggage") == [b"b=2"]
    assert traces.counters.exported == 1


async def test_a_request_that_waits_in_vain_says_why(new_world):
    world = await new_world()
    world.revise(timeout=0.05)
    traces = made(world.proxy)
    with grpc_collector() as collector:
        traces.apply(TracingConfig(GRPC, collector.url, 1.0))
        assert (await world.ask(request())).status == 504
        await traces.close()
        wait, server = collector.spans()
    assert attributes(wait) == {"activator.reason": "no-endpoints"}
    assert attributes(server)["activator.outcome"] == "timed-out"
    assert (wait.status.code, server.status.code) == (2, 2)


async def test_off_is_nothing_at_all_and_leaves_the_head_alone(world):
    traces = made(world.proxy)
    pod = await world.serving()
    before = set(threading.enumerate())
    traces.apply(TracingConfig(NONE))
    assert world.proxy.services.tracer is None
    await world.ask(request(fields=b"TraceParent: not ours\r\n"))
    assert (b"TraceParent", b"not ours") in pod.requests[0].headers
    assert "traces" not in {thread.name for thread in set(threading.enumerate()) - before}
    await traces.close()


async def test_a_change_takes_effect_with_the_next_request(world, monkeypatch):
    monkeypatch.setattr(module, "TraceQueue", partial(TraceQueue, delay=3600))
    await world.serving()
    traces = made(world.proxy)
    with http_collector() as one, http_collector() as other:
        traces.apply(http(one))
        await world.ask(request(b"/one"))
        traces.apply(http(one, rate=0.0))
        await world.ask(request(b"/nobody"))
        traces.apply(http(other))
        await world.ask(request(b"/other"))
        # The first exporter still sends its last spans, without an explicit flush.
        assert [span.name for span in await asyncio.to_thread(one.spans)][1] == "GET /one"
        traces.apply(TracingConfig(NONE))
        await world.ask(request(b"/nobody"))
        assert [span.name for span in await asyncio.to_thread(other.spans)][1] == "GET /other"
        await traces.close()
        assert one.traces.empty()
        assert other.traces.empty()


async def test_a_rate_of_0_is_logged_since_nothing_is_sent(world, caplog):
    traces = made(world.proxy)
    traces.apply(TracingConfig(GRPC, "http://127.0.0.1:1", 0.0))
    told = "traces: no request is traced, since tracing-sampling-rate is 0"
    assert caplog.messages == [told]
    traces.apply(TracingConfig(GRPC, "http://127.0.0.1:1", 0.5))
    traces.apply(TracingConfig(STDOUT))
    assert caplog.messages == [told]
    await traces.close()


async def test_the_environment_wins(world):
    await world.serving()
    with http_collector() as collector:
        traces = made(world.proxy, Endpoints(general=collector.url), argument=1.0)
        traces.apply(TracingConfig(HTTP_PROTOBUF, "http://127.0.0.1:1", 0.0))
        await world.ask(request())
        await traces.close()
        assert len(collector.spans()) == 4
    assert collector.paths == ["/v1/traces"]


async def test_stdout_leaves_nothing_out(world, capsys):
    await world.serving()
    traces = made(world.proxy)
    traces.apply(TracingConfig(STDOUT, "", 0.0))
    await world.ask(request())
    await traces.close()
    assert '"activator_proxy"' in capsys.readouterr().out


async def test_a_collector_that_hangs_holds_up_the_end_only_so_long(world, monkeypatch):
    monkeypatch.setattr(module, "FLUSH", 0.05)
    await world.serving()
    traces = made(world.proxy)
    with http_collector() as collector:
        collector.open.clear()
        traces.apply(http(collector))
        await world.ask(request())
        await traces.close()
        assert traces.counters.exported == 0


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


QUEUED = Requests().served()


def test_what_is_there_is_sent_when_it_ends(queue, exporter, counters):
    for _ in range(3):
        queue.put(QUEUED)
    queue.close(10)
    assert exporter.batches == [3]
    assert counters.exported == 3
    assert exporter.ended.is_set()


def test_a_batch_is_sent_at_once_and_a_short_one_after_a_while(exporter, counters, queue):
    for _ in range(BATCH):
        queue.put(QUEUED)
    assert exporter.busy.wait(10)
    soon = TraceQueue(lambda: exporter, counters, delay=0.001)
    exporter.busy.clear()
    soon.put(QUEUED)
    assert exporter.busy.wait(10)
    soon.close(10)
    assert exporter.batches == [BATCH, 1]


def test_a_collector_that_hangs_costs_a_bounded_queue_and_no_time(queue, exporter, counters):
    exporter.go_on.clear()
    for _ in range(BATCH):
        queue.put(QUEUED)
    assert exporter.busy.wait(10)  # it has the first batch, and holds it
    for _ in range(MAX_QUEUED + 100):
        queue.put(QUEUED)
    assert counters.dropped["queue-full"] == 100
    exporter.go_on.set()
    queue.close(10)
    assert counters.exported == BATCH + MAX_QUEUED
    queue.put(QUEUED)
    assert counters.dropped["queue-full"] == 101


def test_an_end_does_not_wait_for_ever_and_gives_up_what_hangs(queue, exporter):
    exporter.go_on.clear()
    queue.put(QUEUED)
    queue.close(0.01)
    assert exporter.ended.wait(5)  # long before the export's own time-out


@pytest.mark.parametrize(
    ("problem", "said"), [("no route", "no route"), ("raise", "RuntimeError: out of luck")]
)
def test_what_fails_is_counted_and_said_once(exporter, counters, caplog, problem, said):
    exporter.problem = problem
    with caplog.at_level(logging.WARNING, "activator.telemetry.otel"):
        queue = TraceQueue(lambda: exporter, counters, delay=3600)
        for _ in range(3 * BATCH):
            queue.put(QUEUED)
        queue.close(10)
    assert counters.dropped["export-failed"] == 3 * BATCH
    (line,) = caplog.messages
    assert line.startswith("traces: the spans of ")
    assert line.endswith(said)


def test_an_exporter_that_cannot_be_made_is_said_and_drops_all(counters, caplog):
    def make():
        raise ValueError("no such compression")

    queue = TraceQueue(make, counters, delay=3600)
    queue.put(QUEUED)
    queue.close(10)
    assert counters.dropped["export-failed"] == 1
    assert "no exporter, all spans are dropped: no such compression" in caplog.text
