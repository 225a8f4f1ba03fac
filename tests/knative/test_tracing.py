"""Spans: TestActivationHandlerTraceSpans of handler_test.go, and tracing_handler_test.go.

Knative's tests read an exporter in memory. Here a collector receives spans over OTLP.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.activator.telemetry.collector import attributes, http_collector
from tests.knative.objects import NAME, NAMESPACE, config_map, private, revision
from tests.knative.peers import to
from tests.knative.world import World

NewWorld = Callable[..., Awaitable[World]]


async def traced(new_world: NewWorld, data: bytes) -> list[Any]:
    """Send a request with tracing on, end the activator, and return the spans that it sent."""
    with http_collector() as collector:
        world = await new_world()
        (pod,) = await world.serving(1)
        tracing = {
            "tracing-protocol": "http/protobuf",
            "tracing-endpoint": collector.url,
            "tracing-sampling-rate": "1",
        }
        world.apply(config_map("config-observability", tracing))
        world.apply(revision(), private([pod.at]))
        await world.passes()
        assert (await world.ask(data)).status == 200
        await world.close()
        return collector.spans()


async def test_TestActivationHandlerTraceSpans(new_world: NewWorld) -> None:
    """Spans arrive in the order of their ends, the span of the request last.

    Before it come the wait for capacity, the request to the pod, and the proxying.
    """
    spans = await traced(new_world, to(method=b"POST", body=b"x"))
    names = [span.name for span in spans]
    assert names == ["throttler_try", "POST /", "activator_proxy", "POST"]
    waited, sent, proxied, served = spans
    parents = {span.name: span.parent_span_id for span in spans}
    assert parents[waited.name] == parents[proxied.name] == served.span_id
    assert parents[sent.name] == proxied.span_id


@pytest.mark.parametrize("method", [b"GET", b"POST"])
async def test_TestTracingAttributeHandler(new_world: NewWorld, method: bytes) -> None:
    """The span of the request names service, configuration, revision and namespace."""
    *_, served = await traced(new_world, to(method=method))
    assert attributes(served).items() >= {
        ("kn.service.name", f"service-{NAME}"),
        ("kn.configuration.name", f"config-{NAME}"),
        ("kn.revision.name", NAME),
        ("k8s.namespace.name", NAMESPACE),
    }
