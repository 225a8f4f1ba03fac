"""Metrics pushed to a collector: when, which ones, and the behaviour without a collector."""

from __future__ import annotations

import asyncio
import logging

import pytest

from activator.knative.configmaps.observability import (
    GRPC,
    HTTP_PROTOBUF,
    NONE,
    PROMETHEUS,
    MetricsConfig,
)
from activator.telemetry import otel as module
from activator.telemetry.families import PROBES, WAIT
from activator.telemetry.metric_writers import Counted, Point
from activator.telemetry.otel import Endpoints, Identity, MetricPush
from tests.activator.telemetry.collector import attributes, grpc_collector, http_collector
from tests.conftest import on_uvloop
from tests.process import PATIENCE

pytestmark = on_uvloop  # threads send in real time

IDENTITY = Identity("activator", "knative-serving", "activator-1")


class World:
    """The points to push, and how often the push collected them."""

    def __init__(self, interval: float | None = None, endpoints: Endpoints | None = None) -> None:
        self.asked = 0
        self.push = MetricPush(
            IDENTITY, endpoints or Endpoints(), interval, self.points, asyncio.ensure_future
        )

    def points(self):
        self.asked += 1
        for _ in range(3 * module.PIECES):
            yield None
        yield Point(PROBES, (), self.asked)
        yield Point(WAIT, (("kn_revision_name", "r"),), Counted((1,) * 18, 2.5))


def metrics(message):
    return {
        metric.name: metric
        for resource in message.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


@pytest.mark.parametrize(
    ("protocol", "start"), [(HTTP_PROTOBUF, http_collector), (GRPC, grpc_collector)]
)
async def test_metrics_arrive_again_and_again_and_once_more_at_the_end(protocol, start):
    world = World()
    with start() as collector:
        world.push.apply(MetricsConfig(protocol, collector.url, 0.01))
        first = await asyncio.to_thread(collector.metrics.get, timeout=PATIENCE)
        second = await asyncio.to_thread(collector.metrics.get, timeout=PATIENCE)
        await world.push.close()
        last = first
        while not collector.metrics.empty():
            last = collector.metrics.get()
    counted = [
        metrics(message)["activator.probes"].sum.data_points[0].as_int
        for message in (first, second, last)
    ]
    assert counted[:2] == [1, 2]
    assert counted[2] == world.asked
    resource = attributes(first.resource_metrics[0].resource)
    assert resource["k8s.pod.name"] == "activator-1"
    (wait,) = metrics(first)["activator.request_wait"].histogram.data_points
    assert (wait.count, wait.sum) == (18, 2.5)
    assert world.push.pushes["failed"] == 0


@pytest.mark.parametrize("protocol", [NONE, PROMETHEUS])
async def test_nothing_is_pushed_unless_configured(protocol):
    world = World(interval=0.001)
    tasks = asyncio.all_tasks()
    world.push.apply(MetricsConfig(protocol))
    assert asyncio.all_tasks() == tasks
    await world.push.close()
    assert world.asked == 0


async def test_an_endpoint_for_prometheus_logs_the_settings_that_count(caplog):
    world = World()
    for _ in range(2):
        world.push.apply(MetricsConfig(PROMETHEUS, "0.0.0.0:9999"))
    (line,) = caplog.messages
    assert "metrics-endpoint 0.0.0.0:9999 opens no port" in line
    assert "METRICS_PROMETHEUS_PORT" in line
    world.push.apply(MetricsConfig(PROMETHEUS))
    assert len(caplog.messages) == 1


async def test_the_environments_interval_and_endpoint_win():
    with http_collector() as collector:
        world = World(interval=0.01, endpoints=Endpoints(general=collector.url))
        world.push.apply(MetricsConfig(HTTP_PROTOBUF, "http://127.0.0.1:1", 3600))
        await asyncio.to_thread(collector.metrics.get, timeout=PATIENCE)
        await world.push.close()
    assert set(collector.paths) == {"/v1/metrics"}


async def test_a_change_moves_the_pushes_and_leaves_none_behind():
    world = World(interval=0.01)
    before = asyncio.all_tasks()
    with http_collector() as one, http_collector() as other:
        world.push.apply(MetricsConfig(HTTP_PROTOBUF, one.url))
        await asyncio.to_thread(one.metrics.get, timeout=PATIENCE)
        world.push.apply(MetricsConfig(HTTP_PROTOBUF, other.url))
        await asyncio.to_thread(other.metrics.get, timeout=PATIENCE)
        world.push.apply(MetricsConfig(NONE))
        if left := asyncio.all_tasks() - before:
            _, pending = await asyncio.wait(left, timeout=PATIENCE)
            assert not pending
        await world.push.close()


async def test_a_refused_push_is_counted_and_said_once(caplog):
    world = World(interval=0.001)
    with http_collector() as collector, caplog.at_level(logging.WARNING, module.__name__):
        collector.status = 403
        world.push.apply(MetricsConfig(HTTP_PROTOBUF, collector.url))
        while world.push.pushes["failed"] < 3:
            await asyncio.to_thread(collector.metrics.empty)
        await world.push.close()
    (line,) = (record.message for record in caplog.records if record.name == module.__name__)
    assert line.startswith("metrics: a push failed (0 times before): http://127.0.0.1")
    assert "403" in line


async def test_nonsense_in_the_environment_is_said_and_harms_nothing(monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    world = World(interval=0.001)
    world.push.apply(MetricsConfig(GRPC, "http://127.0.0.1:1"))
    while not caplog.messages:
        await asyncio.to_thread(caplog.handler.flush)
    (line,) = caplog.messages
    assert line.startswith("metrics: cannot be pushed to http://127.0.0.1:1 (grpc): could not")
    await world.push.close()


async def test_a_collector_that_hangs_holds_up_the_end_only_so_long(monkeypatch, caplog):
    monkeypatch.setattr(module, "FLUSH", 0.05)
    world = World(interval=0.001)
    with http_collector() as collector:
        collector.open.clear()
        world.push.apply(MetricsConfig(HTTP_PROTOBUF, collector.url))
        while not collector.paths:
            await asyncio.to_thread(collector.metrics.empty)
        await world.push.close()
    assert "the last push before the end took more than 0.05 s" in caplog.text
