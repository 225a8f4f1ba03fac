"""The API group external.metrics.k8s.io: its objects, its selectors and its errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.scale import external_metrics
from activator.scale.board import Board, Published
from activator.scale.external_metrics import create_app, matches, parse_selector
from activator.scale.reports.load import Loads, Report, ServiceName
from tests.rows import in_one_test

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
        hello = ServiceName("shop", "hello")
        loads.record(1, "a", [Report(hello, 3.5, 1)], 100.0)
        for name in (hello, ServiceName("shop", "other"), ServiceName("more", "hello")):
            self.board.publish(name, active=name == hello, target=100)
        app = create_app(self.board, lambda: self.leads)
        transport = httpx.ASGITransport(app=app)
        self.client = httpx.AsyncClient(transport=transport, base_url="https://scale")

    async def get(self, path: str, method: str = "GET", **params: str) -> tuple[int, Any]:
        response = await self.client.request(method, path, params=params)
        assert response.headers["content-type"] == "application/json"
        return response.status_code, response.json()


async def test_discovery() -> None:
    world = World()
    for path, expected in (
        ("/apis", external_metrics.DISCOVERY["/apis"]),
        (
            "/apis/external.metrics.k8s.io",
            external_metrics.DISCOVERY["/apis/external.metrics.k8s.io"],
        ),
        (VERSION, external_metrics.DISCOVERY[VERSION]),
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
    began = datetime.now(UTC).replace(microsecond=0)
    code, found = await World().get(METRIC)
    assert code == 200
    [at] = {item["timestamp"] for item in found["items"]}
    assert began <= datetime.fromisoformat(at) <= datetime.now(UTC)
    assert found == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": "activator_requests",
                "metricLabels": {"service": service},
                "timestamp": at,
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


WALL = datetime(2026, 1, 2, 4, 5, 6, 789, timezone(timedelta(hours=1)))


def text(obj: external_metrics.Object) -> str:
    return json.dumps(obj, separators=(",", ":"))


def test_the_objects_of_discovery() -> None:
    versions = (
        '"versions":[{"groupVersion":"external.metrics.k8s.io/v1beta1","version":"v1beta1"}],'
        '"preferredVersion":{"groupVersion":"external.metrics.k8s.io/v1beta1",'
        '"version":"v1beta1"}}'
    )
    assert text(external_metrics.DISCOVERY["/apis/external.metrics.k8s.io"]) == (
        '{"kind":"APIGroup","apiVersion":"v1","name":"external.metrics.k8s.io",' + versions
    )
    assert text(external_metrics.DISCOVERY["/apis"]) == (
        '{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"external.metrics.k8s.io",'
        + versions
        + "]}"
    )
    assert text(external_metrics.DISCOVERY["/apis/external.metrics.k8s.io/v1beta1"]) == (
        '{"kind":"APIResourceList","apiVersion":"v1",'
        '"groupVersion":"external.metrics.k8s.io/v1beta1",'
        '"resources":[{"name":"activator_requests","singularName":"","namespaced":true,'
        '"kind":"ExternalMetricValueList","verbs":["get"]}]}'
    )


def test_values() -> None:
    hello = ServiceName("shop", "hello"), Published(True, 2.25, 100)
    assert text(external_metrics.value_list([hello], WALL)) == (
        '{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1",'
        '"metadata":{},"items":[{"metricName":"activator_requests",'
        '"metricLabels":{"service":"hello"},"timestamp":"2026-01-02T03:05:06Z","value":"2250m"}]}'
    )
    assert external_metrics.value_list([], WALL)["items"] == []


@pytest.mark.parametrize(("active", "value"), [(True, "1"), (False, "0")])
def test_an_active_service_is_never_at_zero(active: bool, value: str) -> None:
    found = external_metrics.value_list(
        [(ServiceName("shop", "hello"), Published(active, 0, 100))], WALL
    )
    assert found["items"][0]["value"] == value


@in_one_test(
    ("value", "quantity"),
    [
        (0, "0"),
        (1, "1"),
        (0.5, "500m"),
        (0.0004, "0"),
        (0.0006, "1m"),
        (1.9999, "2"),
        (12.345, "12345m"),
        (1_000_000, "1000000"),
    ],
)
def test_a_quantity(value: float, quantity: str) -> None:
    assert external_metrics.quantity(value) == quantity


def test_an_error() -> None:
    assert bytes(external_metrics.error(404, "NotFound", "no").body).decode() == (
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no",'
        '"reason":"NotFound","code":404}'
    )


HELLO = {"service": "hello", "a.b/c": "x"}


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True),
        ("  ", True),
        ("service=hello", True),
        ("service==hello", True),
        (" service = hello ", True),
        ("service=other", False),
        ("service=", False),
        ("none=", False),
        ("service!=other", True),
        ("service!=hello", False),
        ("none!=hello", True),
        ("service in (hello)", True),
        ("service in ( other , hello )", True),
        ("service in (other)", False),
        ("service notin (other,more)", True),
        ("service notin (other,hello)", False),
        ("none notin (hello)", True),
        ("service", True),
        ("none", False),
        ("!none", True),
        ("! service", False),
        ("service=hello,a.b/c=x", True),
        ("service=hello, a.b/c in (x,y), !none", True),
        ("service=hello,a.b/c=y", False),
        ("in=hello", False),
        ("service,in", False),
    ],
)
def test_a_selector(text: str, holds: bool) -> None:
    assert matches(parse_selector(text), HELLO) is holds


@in_one_test(
    "text",
    [
        *(",", "=x", "!", "service=hello,", "service=hello a=b", "service in", "service in (a"),
        *("service in hello", "service=a b", "(a)", "service>5", "é", "service=hello,,a=b"),
    ],
)
def test_a_text_that_is_no_selector(text: str) -> None:
    with pytest.raises(ValueError, match=r"no requirement|expected a comma"):
        parse_selector(text)


@given(st.text(max_size=60))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        found = parse_selector(text)
    except ValueError:
        return
    matches(found, HELLO)
