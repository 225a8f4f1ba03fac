"""The objects of external.metrics.k8s.io: each byte as an API server sends it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from activator.scale.external_metrics import objects
from activator.scale.publishing.board import Workload
from activator.scale.reports.load import Name

WALL = datetime(2026, 1, 2, 4, 5, 6, 789, timezone(timedelta(hours=1)))


def text(obj: objects.Object) -> str:
    return json.dumps(obj, separators=(",", ":"))


def test_discovery() -> None:
    versions = (
        '"versions":[{"groupVersion":"external.metrics.k8s.io/v1beta1","version":"v1beta1"}],'
        '"preferredVersion":{"groupVersion":"external.metrics.k8s.io/v1beta1",'
        '"version":"v1beta1"}}'
    )
    assert text(objects.group_object()) == (
        '{"kind":"APIGroup","apiVersion":"v1","name":"external.metrics.k8s.io",' + versions
    )
    assert text(objects.group_list()) == (
        '{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"external.metrics.k8s.io",'
        + versions
        + "]}"
    )
    assert text(objects.resource_list()) == (
        '{"kind":"APIResourceList","apiVersion":"v1",'
        '"groupVersion":"external.metrics.k8s.io/v1beta1",'
        '"resources":[{"name":"activator_requests","singularName":"","namespaced":true,'
        '"kind":"ExternalMetricValueList","verbs":["get"]}]}'
    )


def test_values() -> None:
    hello = Name("shop", "hello"), Workload(True, 2.25, 100)
    assert text(objects.value_list([hello], WALL)) == (
        '{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1",'
        '"metadata":{},"items":[{"metricName":"activator_requests",'
        '"metricLabels":{"service":"hello"},"timestamp":"2026-01-02T03:05:06Z","value":"2250m"}]}'
    )
    assert objects.value_list([], WALL)["items"] == []


@pytest.mark.parametrize(("active", "value"), [(True, "1"), (False, "0")])
def test_an_active_service_is_never_at_zero(active: bool, value: str) -> None:
    found = objects.value_list([(Name("shop", "hello"), Workload(active, 0, 100))], WALL)
    assert found["items"][0]["value"] == value


@pytest.mark.parametrize(
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
    assert objects.quantity(value) == quantity


def test_an_error() -> None:
    assert text(objects.status(404, "NotFound", "no")) == (
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no",'
        '"reason":"NotFound","code":404}'
    )
