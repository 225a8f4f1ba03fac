"""The paths of external.metrics.k8s.io, as the API server's aggregator and HPAs request them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from activator.scale.external_metrics import objects
from activator.scale.external_metrics.application import create_app
from activator.scale.publishing.board import Board
from activator.scale.reports.load import Loads, Name, Report

VERSION = "/apis/external.metrics.k8s.io/v1beta1"
METRIC = f"{VERSION}/namespaces/shop/activator_requests"


class World:
    """Services hello and other in the namespace shop, and more in another one."""

    def __init__(self) -> None:
        self.leads = True
        loads = Loads()
        self.board = Board(loads, lambda: 100.0)
        self.board.start(0)
        loads.connected(1)
        hello = Name("shop", "hello")
        loads.record(1, "a", [Report(hello, 3.5, 1)], 100.0)
        for name in (hello, Name("shop", "other"), Name("more", "hello")):
            self.board.publish(name, active=name == hello, target=100)
        wall = datetime(2026, 1, 1, tzinfo=UTC)
        app = create_app(self.board, lambda: self.leads, lambda: wall)
        transport = httpx.ASGITransport(app=app)
        self.client = httpx.AsyncClient(transport=transport, base_url="https://scale")

    async def get(self, path: str, method: str = "GET", **params: str) -> tuple[int, Any]:
        response = await self.client.request(method, path, params=params)
        assert response.headers["content-type"] == "application/json"
        return response.status_code, response.json()


async def test_discovery() -> None:
    world = World()
    for path, expected in (
        ("/apis", objects.group_list()),
        ("/apis/external.metrics.k8s.io", objects.group_object()),
        (VERSION, objects.resource_list()),
    ):
        world.leads = not world.leads  # followers serve it as well
        assert await world.get(path) == (200, expected)


async def test_the_aggregator_gets_documents_of_openapi() -> None:
    """Without them, kube-apiserver 1.36 logs an error each minute."""
    world = World()
    world.leads = False
    code, v2 = await world.get("/openapi/v2")
    assert (code, v2["swagger"], v2["paths"]) == (200, "2.0", {})
    assert v2["info"] == {"title": "activator scale", "version": "v1beta1"}
    assert await world.get("/openapi/v3") == (200, {"paths": {}})


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(path: str) -> None:
    response = await World().client.get(path)
    assert (response.status_code, response.text) == (200, "ok")


@pytest.mark.parametrize(
    ("selector", "services"),
    [
        (None, ["hello", "other"]),
        ("service=hello", ["hello"]),
        ("service in (hello,other)", ["hello", "other"]),
        ("service!=hello", ["other"]),
        ("service=none", []),
        ("team=a", []),
    ],
)
async def test_a_selector_chooses_services(selector: str | None, services: list[str]) -> None:
    params = {} if selector is None else {"labelSelector": selector}
    code, found = await World().get(METRIC, **params)
    assert code == 200
    assert [item["metricLabels"]["service"] for item in found["items"]] == services


async def test_the_values_of_services() -> None:
    code, found = await World().get(METRIC)
    assert code == 200
    assert found == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": "activator_requests",
                "metricLabels": {"service": service},
                "timestamp": "2026-01-01T00:00:00Z",
                "value": value,
            }
            for service, value in (("hello", "3500m"), ("other", "0"))
        ],
    }


async def test_another_namespace_has_its_own_services() -> None:
    _, found = await World().get(METRIC.replace("shop", "more"))
    assert len(found["items"]) == 1
    _, found = await World().get(METRIC.replace("shop", "none"))
    assert found["items"] == []


async def test_a_process_that_does_not_lead_has_no_values() -> None:
    world = World()
    world.leads = False
    code, found = await world.get(METRIC)
    assert (code, found["reason"]) == (503, "ServiceUnavailable")
    world.leads = True
    world.board.stop(0)
    assert (await world.get(METRIC))[0] == 503


@pytest.mark.parametrize(
    ("path", "method", "params", "code", "reason"),
    [
        (f"{VERSION}/namespaces/shop/other_metric", "GET", {}, 404, "NotFound"),
        (METRIC, "GET", {"labelSelector": "=x"}, 400, "BadRequest"),
        (METRIC, "POST", {}, 405, "MethodNotAllowed"),
        ("/swagger.json", "GET", {}, 404, "NotFound"),
        ("/apis/external.metrics.k8s.io/v2", "GET", {}, 404, "NotFound"),
    ],
)
async def test_errors_are_status_objects(
    path: str, method: str, params: Any, code: int, reason: str
) -> None:
    status, found = await World().get(path, method, **params)
    assert status == code
    assert (found["kind"], found["code"], found["reason"]) == ("Status", code, reason)
    assert found["message"]
