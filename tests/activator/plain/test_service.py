"""Which Services opt in, which port of them is buffered, and which are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given

from activator.objects.fields import ManifestError, ObjectKey
from activator.plain.annotations import Annotations
from activator.plain.problems import of_service
from activator.plain.service import (
    BufferedPort,
    Fronts,
    PlainService,
    leaving,
    parse,
    parse_pods_service,
)
from activator.plain.service import parse as parse_service
from tests.activator.objects.test_fields import json_values
from tests.activator.plain.objects import front, named, service
from tests.rows import in_one_test
from throttler.model import AppProtocol

HTTP1, H2C = AppProtocol.HTTP1, AppProtocol.H2C


FRONT = {"route": "front", "pods_service": "hello-pods"}


def parsed(annotations: Any = None, **spec: Any) -> PlainService:
    found = parse(service(annotations, **spec))
    assert found is not None
    return found


def port(name: str = "", number: int = 80, **fields: Any) -> Any:
    return {"name": name, "port": number, "protocol": "TCP", **fields}


def test_a_service_that_opts_in() -> None:
    assert parsed() == PlainService(
        ObjectKey("Service", "shop", "hello"),
        "s1",
        "2026-01-01T00:00:00Z",
        (("app", "hello"),),
        Annotations(),
        BufferedPort("", 80, 8080, HTTP1, tls=False),
    )


def test_a_port_that_does_not_exist_is_reported_beside_other_wrong_annotations() -> None:
    with pytest.raises(ManifestError) as caught:
        parsed({"owner": "me", "port": "web"})
    assert str(caught.value) == (
        "Service shop/hello: metadata.annotations[activator.dev/owner]: expected one of self, "
        "keda, hpa, none, got 'me'; metadata.annotations[activator.dev/port]: expected a TCP port "
        "of the Service, which has 80, got 'web'"
    )


BOX = {"target": "agents.x-k8s.io/v1beta1/Sandbox/box", "awake_condition": "Ready=True"}
SERVER = {
    "waker": "http",
    "sleep_url": "/sleep",
    "wake_url": "/wake",
    "state_url": "/state",
    "asleep_when": "asleep = true",
}
WORDS = '{"target":"agents.x-k8s.io/v1beta1/Sandbox/box","awake-condition":"Ready=True"}'


def test_a_service_has_the_words_that_its_mark_would_have() -> None:
    assert (parsed(BOX).words, parsed(BOX).mark) == (WORDS, "")
    marked = parsed(BOX | {"asleep": WORDS})
    assert (marked.words, marked.mark) == (WORDS, WORDS)


@in_one_test(
    ("annotations", "is_leaving"),
    [
        (BOX, False),
        (BOX | {"asleep": WORDS}, False),
        (BOX | {"asleep": WORDS, "enabled": "false"}, True),
        ({"asleep": WORDS}, True),
        (BOX | {"asleep": WORDS, "waker": "scale"}, True),
        (BOX | {"asleep": WORDS, "waker": "hammer"}, True),
        (BOX | {"asleep": WORDS, "idle_seconds": "x"}, False),
        (BOX | {"asleep": WORDS, "awake_condition": "Started=True"}, False),
        (BOX | {"asleep": WORDS, "wake_patch": '{"spec": {"operatingMode": "On"}}'}, False),
        (BOX | {"asleep": WORDS, "sleep_patch": '{"spec": {"operatingMode": "Off"}}'}, True),
        (SERVER | {"asleep": parsed(SERVER).words, "wake_url": "/on"}, False),
        (BOX | {"asleep": "[" * 100_000}, False),
        (BOX | {"asleep": "yes"}, False),
        (BOX | {"asleep": '["yes"]'}, False),
        ({"asleep": '{"target": "hello"}'}, False),
    ],
)
def test_a_mark_that_the_annotations_do_not_explain_wakes_the_workload(
    annotations: dict[str, str], is_leaving: bool
) -> None:
    obj = service(annotations)
    try:
        known = parse(obj)
    except ManifestError as error:
        known = error.instead
    found = leaving(obj, known)
    assert (found is not None) is is_leaving
    if found is not None:
        assert (found.words, found.leaving, found.asks.scale.min_scale) == (WORDS, True, 1)
        assert str(found.asks.target) == BOX["target"]
        assert found.warnings[-1] == (
            "the workload sleeps by other annotations, which are in activator.dev/asleep: it wakes "
            "by them first"
        )


def test_a_refused_service_wakes_its_workload_too() -> None:
    obj = service(BOX | {"asleep": WORDS}, type="ExternalName")
    found = leaving(obj, parse(obj))
    assert found is not None
    assert (found.refused, found.port, str(found.asks.target)) == ("", None, BOX["target"])


@pytest.mark.parametrize("enabled", ["false", "", None])
def test_a_service_that_does_not_opt_in_may_be_wrong(enabled: str | None) -> None:
    assert parse(service({"enabled": enabled, "owner": "wrong"}, ports="wrong")) is None


@in_one_test(
    ("ports", "annotation", "chosen"),
    [
        ([port()], "", ("", 80)),
        ([port("odd", 5)], "", ("odd", 5)),
        ([port("admin", 1), port("http", 2)], "", ("http", 2)),
        ([port("grpc", 1), port("http", 2)], "", ("http", 2)),
        ([port("admin", 1), port("grpc", 2)], "", ("grpc", 2)),
        ([port("dns", 53, protocol="UDP"), port("web", 2)], "", ("web", 2)),
        ([port("admin", 1), port("http", 2)], "admin", ("admin", 1)),
        ([port("admin", 1), port("http", 2)], "1", ("admin", 1)),
    ],
)
def test_the_buffered_port(ports: Any, annotation: str, chosen: tuple[str, int]) -> None:
    found = parsed({"port": annotation}, ports=ports).port
    assert found is not None
    assert found[:2] == chosen


@in_one_test(
    ("fields", "protocol", "tls"),
    [
        ({}, HTTP1, False),
        ({"appProtocol": "kubernetes.io/h2c"}, H2C, False),
        ({"appProtocol": "grpc"}, H2C, False),
        ({"appProtocol": "http"}, HTTP1, False),
        ({"appProtocol": "kubernetes.io/ws", "name": "h2c"}, HTTP1, False),
        ({"appProtocol": "kubernetes.io/wss"}, HTTP1, True),
        ({"appProtocol": "https"}, HTTP1, True),
        ({"name": "h2c"}, H2C, False),
        ({"name": "http2"}, H2C, False),
        ({"name": "grpc"}, H2C, False),
        ({"name": "web"}, HTTP1, False),
    ],
)
def test_the_protocol_of_the_pods(fields: Any, protocol: AppProtocol, tls: bool) -> None:
    found = parsed(ports=[port(**fields)])
    assert found.port is not None
    assert (found.port.protocol, found.port.tls) == (protocol, tls)
    assert found.warnings == ()


@pytest.mark.parametrize(("target", "expected"), [(None, 80), (8080, 8080), ("http", "http")])
def test_the_port_of_the_pods(target: Any, expected: str | int) -> None:
    found = parsed(ports=[port(targetPort=target)]).port
    assert found is not None
    assert found.target == expected


@in_one_test(
    ("annotations", "spec", "reason"),
    [
        ({}, {"type": "ExternalName"}, "type ExternalName has no pods"),
        ({}, {"selector": None}, "the Service has no selector"),
        ({}, {"selector": {}}, "the Service has no selector"),
        ({"route": "takeover"}, {"clusterIP": "None"}, "route takeover needs a ClusterIP"),
        (FRONT, {"clusterIP": "None"}, "route front needs a ClusterIP"),
        (
            {"route": "takeover"},
            {"ports": [port(appProtocol="https")]},
            "route takeover needs a port without TLS",
        ),
        (FRONT, {"ports": [port(appProtocol="https")]}, "route front needs a port without TLS"),
        (FRONT, {"type": "ExternalName"}, "type ExternalName has no pods"),
        ({}, {"ports": []}, "the Service has no TCP port"),
        ({}, {"ports": [port("d", 53, protocol="UDP")]}, "the Service has no TCP port"),
        ({}, {"ports": [port("a", 1), port("b", 2)]}, "none of the ports a, b is named http,"),
    ],
)
def test_a_service_that_cannot_be_buffered(annotations: Any, spec: Any, reason: str) -> None:
    found = parsed(annotations, **spec)
    assert found.refused.startswith(reason)
    assert found.port is None


@pytest.mark.parametrize(
    ("annotations", "refusal", "text"),
    [
        (
            {"route": "front"},
            "wrong-pods-service",
            "route front needs the annotation activator.dev/pods-service, which is missing: name "
            "another Service, whose selector finds the pods",
        ),
        (
            {"route": "front", "pods_service": "hello"},
            "wrong-pods-service",
            "route front needs the annotation activator.dev/pods-service, which names the Service "
            "itself: name another Service, whose selector finds the pods",
        ),
    ],
)
def test_a_refusal_with_a_word_of_its_own(annotations: Any, refusal: str, text: str) -> None:
    found = parsed(annotations)
    assert (found.refusal, found.refused, found.port) == (refusal, text, None)


def test_takeover_refuses_a_limit_and_stays_in_use() -> None:
    found = parsed({"route": "takeover", "container_concurrency": "3"})
    assert (found.refused, found.asks.container_concurrency) == ("", 0)
    assert found.asks.scale.target == 3  # what a pod is meant for still counts
    [text] = found.warnings
    assert text == (
        "route takeover cannot limit requests per pod, so activator.dev/container-concurrency has "
        "no effect: clients connect to ready pods past the activators; use route front, or remove "
        "the limit"
    )
    assert [each.reason for each in of_service(found)] == ["takeover-cannot-limit"]


@pytest.mark.parametrize(("selector", "beside"), [(None, False), ({}, False), ({"a": "b"}, True)])
def test_a_front_needs_no_selector_and_has_none_of_its_own(selector: Any, beside: bool) -> None:
    found = parsed(FRONT, selector=selector)
    assert (found.refused, found.pods.name, found.selector) == ("", "hello-pods", ())
    assert found.selects_beside is beside


@pytest.mark.parametrize(
    ("spec", "families"),
    [
        ({}, ("IPv4",)),
        ({"clusterIP": "fd00::7"}, ("IPv6",)),
        ({"ipFamilies": ["IPv6", "IPv4"]}, ("IPv6", "IPv4")),
    ],
)
def test_the_families_of_a_service(spec: Any, families: tuple[str, ...]) -> None:
    assert parsed(**spec).families == families


def test_an_annotation_that_names_no_port_is_an_error_with_the_ports() -> None:
    where = "metadata.annotations[activator.dev/port]: expected a TCP port of the Service"
    with pytest.raises(ManifestError, match=f"{re.escape(where)}, which has a, 2, got 'c'"):
        parse(service({"port": "c"}, ports=[port("a", 1), {"port": 2}]))


def test_a_headless_service_can_be_shared() -> None:
    assert parsed(clusterIP="None").refused == ""


@in_one_test(
    ("annotations", "spec", "warning"),
    [
        (
            {"hosst": "a.com"},
            {},
            "activator.dev/hosst' is unknown and has no effect; did you mean activator.dev/hosts?",
        ),
        ({"qqqqqqq": ""}, {}, "the annotation 'activator.dev/qqqqqqq' is unknown"),
        (
            {},
            {"ports": [port(appProtocol="tcp")]},
            "appProtocol tcp is unknown: the pods are taken to speak HTTP/1.1; for a protocol "
            "other than HTTP, set activator.dev/protocol to tcp",
        ),
        ({"route": "takeover"}, {"externalTrafficPolicy": "Local"}, "externalTrafficPolicy Local"),
        ({"route": "takeover"}, {"internalTrafficPolicy": "Local"}, "internalTrafficPolicy Local"),
        (FRONT, {"internalTrafficPolicy": "Local"}, "internalTrafficPolicy Local with route front"),
        (
            {"route": "takeover", "sticky": "cookie", "hash_key": "path"},
            {},
            "route takeover with activator.dev/hash-key, activator.dev/sticky: clients connect to "
            "ready pods past the activators, so that has no effect there; use route front",
        ),
        (
            {"route": "takeover", "auth_url": "http://auth", "auth_always": "true"},
            {},
            "route takeover with activator.dev/auth-always: clients connect to ready pods past",
        ),
        (
            {"pods_service": "hello-pods"},
            {},
            "the annotation activator.dev/pods-service has no effect without route front",
        ),
        (
            {"adaptive_concurrency": "observe", "container_concurrency": "5"},
            {},
            "activator.dev/adaptive-concurrency has no effect, since "
            "activator.dev/container-concurrency is 5",
        ),
    ],
)
def test_warnings(annotations: Any, spec: Any, warning: str) -> None:
    [found] = parsed(annotations, **spec).warnings
    assert warning in found


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"ports": "http"}, "spec.ports: expected a list, got 'http'"),
        ({"ports": [port(number=0)]}, "spec.ports[0].port: expected an integer from 1 to 65535"),
        ({"ports": [port(targetPort=0)]}, "spec.ports[0].targetPort: expected an integer"),
        ({"selector": {"app": 5}}, "spec.selector[app]: expected a string, got 5"),
        ({"selector": "app"}, "spec.selector: expected an object"),
    ],
)
def test_a_broken_field_is_an_error_that_names_it(spec: Any, where: str) -> None:
    with pytest.raises(ManifestError, match=f"^Service shop/hello: {re.escape(where)}"):
        parse(service(**spec))


@given(json_values)
def test_any_value_is_read_or_refused(value: Any) -> None:
    for spec in ({"ports": value}, {"ports": [value]}, {"selector": value}, {"type": value}):
        try:
            parse(service(**spec))
        except ManifestError as error:
            text = str(error)
        else:
            text = "Service"
        assert text.startswith("Service")


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
    assert dict(found.selector) == {"app": "hello"}
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
