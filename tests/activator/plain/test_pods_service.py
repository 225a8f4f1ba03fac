"""The Service behind a front: what it adds to the front, and why it cannot be used."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from activator.plain.service import Fronts, PlainService, parse_pods_service
from activator.plain.service import parse as parse_service
from tests.activator.objects.test_fields import json_values
from tests.activator.plain.objects import front, named, service


def resolved(behind: Any, **spec: Any) -> PlainService:
    found = parse_service(front(**spec))
    assert found is not None
    fronts = Fronts()
    fronts.move(found.key, None, found)
    if behind is not None:
        assert found.key in fronts.select(found.pods, parse_pods_service(behind))
    return fronts.resolve(found)


def behind(annotations: Any = None, **spec: Any) -> Any:
    texts = {"enabled": "false"} | (annotations or {})
    return named(service(texts, **spec), "hello-pods")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"clusterIP": "None"},
        {"ports": [{"name": "x", "port": 9}, {"port": 1, "targetPort": 8080}]},
    ],
)
def test_a_front_has_the_selector_and_the_pods_port_of_its_pods_service(spec: Any) -> None:
    found = resolved(behind(**spec))
    assert found.refused == ""
    assert found.selector == {"app": "hello"}
    assert found.port is not None
    assert (found.port.number, found.port.target) == (80, 8080)


def test_a_port_without_target_is_the_pods_port() -> None:
    found = resolved(behind(ports=[{"port": 8081}]))
    assert found.port is not None
    assert found.port.target == 8081


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (None, "and there is no such Service in the namespace: create it, with the pods' selector"),
        (behind(type="ExternalName"), "which has type ExternalName: name a Service whose selector"),
        (behind(selector=None), "which has no selector: name a Service whose selector finds the"),
        (behind({"enabled": "true", "route": "front"}), "which has route front itself: name a"),
        (
            behind(ports=[{"name": "web", "port": 80}, {"name": "x", "port": 81}]),
            "which has no port with the name '' of the buffered port (it has: 'web', 'x'): give "
            "both ports one name",
        ),
        (behind(ports=None), "which has no port with the name '' of the buffered port (it has: no"),
        (behind(ports=7), "which cannot be read: Service shop/hello-pods: spec.ports: expected a"),
    ],
)
def test_a_pods_service_that_cannot_be_used(other: Any, problem: str) -> None:
    found = resolved(other)
    assert found.refused.startswith(f"activator.dev/pods-service names hello-pods, {problem}")
    assert (found.refusal, found.port) == ("wrong-pods-service", None)


def test_other_services_stay_as_they_are() -> None:
    for obj in (service(), front(clusterIP="None")):
        found = parse_service(obj)
        assert found is not None
        assert Fronts().resolve(found) is found


def test_only_a_change_of_the_pods_service_concerns_its_fronts() -> None:
    fronts, found = Fronts(), parse_service(front())
    assert found is not None
    fronts.move(found.key, None, found)
    selecting = parse_pods_service(behind())
    assert fronts.select(found.pods, selecting) == (found.key,)
    assert fronts.select(found.pods, selecting) == ()
    assert fronts.select(found.key, selecting) == ()
    assert fronts.select(found.pods, None) == (found.key,)
    fronts.move(found.key, found, None)
    assert fronts.select(found.pods, selecting) == ()


@given(json_values)
def test_any_service_is_read(value: Any) -> None:
    for spec in ({"ports": value}, {"ports": [value]}, {"selector": value}, {"type": value}):
        assert isinstance(parse_pods_service(service({"enabled": "false"}, **spec)).unfit, str)
