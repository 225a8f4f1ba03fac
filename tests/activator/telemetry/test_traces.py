"""Traces on and off while requests run, from a client's bytes to a collector."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from activator.knative.configmaps.observability import (
    GRPC,
    HTTP_PROTOBUF,
    NONE,
    STDOUT,
    TracingConfig,
)
from activator.telemetry import traces as module
from activator.telemetry.destination import Endpoints, Identity
from activator.telemetry.trace_queue import TraceQueue
from activator.telemetry.traces import Traces, TraceSettings
from tests.activator.proxy.world import request
from tests.activator.telemetry.collector import attributes, grpc_collector, http_collector
from tests.conftest import on_uvloop

pytestmark = on_uvloop  # threads send in real time

IDENTITY = Identity("activator", "knative-serving", "activator-1")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def made(proxy, endpoints=None, **settings) -> Traces:
    choice = TraceSettings(IDENTITY, endpoints or Endpoints(), **settings)
    return Traces(
        choice, lambda tracer: setattr(proxy.services, "tracer", tracer), asyncio.ensure_future
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
