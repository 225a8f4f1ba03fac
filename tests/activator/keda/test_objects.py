"""What objects of the KEDA HTTP add-on ask for, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from activator.keda.objects import (
    ROUTE,
    SCALED_OBJECT,
    RequestRate,
    RouteObject,
    RouteTimeouts,
    Target,
    parse_body,
    parse_route,
    parse_scaled_object,
    unknown_fields,
)
from activator.objects.fields import ManifestError
from tests.rows import in_one_test
from throttler.request_policies import HeaderRule, RouteRule, StaticResponse, StaticRoute

METADATA = {
    "name": "shop",
    "namespace": "web",
    "uid": "u1",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
#: Fields that would describe the message; with some of them HTTP/2 is malformed.
FRAMING = ("Content-Length", "Upgrade", "Proxy-Connection", "Transfer-Encoding", "keep-alive")


def scaled(**spec: Any) -> Any:
    return {"metadata": METADATA, "spec": {"scaleTargetRef": {"service": "s", "port": 80}, **spec}}


def route(**spec: Any) -> Any:
    least = {
        "target": {"service": "s", "portName": "http"},
        "scalingMetric": {"concurrency": {"targetValue": 5}},
    }
    return {"metadata": METADATA, "spec": {**least, **spec}}


def known(obj: Any) -> RouteObject:
    """Return what an object asks for; no field of it is unknown."""
    kind = ROUTE if "target" in obj["spec"] else SCALED_OBJECT
    assert unknown_fields(obj, kind) == ""
    return parse_route(obj) if kind is ROUTE else parse_scaled_object(obj)


def test_a_scaled_object_with_the_least_fields() -> None:
    found = parse_scaled_object(scaled())
    assert found.rules == (RouteRule(),)
    assert (found.target, str(found.target)) == (Target("s", 80, ""), "s:80")
    assert (found.timeouts, found.fallback, found.rate) == (RouteTimeouts(), None, None)
    assert (found.concurrency, found.uid, found.created) == (100, "u1", "2026-01-01T00:00:00Z")


def test_a_scaled_object_with_all_fields() -> None:
    found = known(
        scaled(
            hosts=["Shop.Example.com:8080", "*.example.org."],
            pathPrefixes=["/api/", "/v2"],
            headers=[{"name": "X-Beta"}, {"name": "X-V", "value": "1"}],
            coldStartTimeoutFailoverRef={
                "service": "spare",
                "portName": "web",
                "timeoutSeconds": 7,
            },
            scalingMetric={
                "requestRate": {"targetValue": 9, "window": "2m", "granularity": "500ms"}
            },
            timeouts={"conditionWait": "3s", "responseHeader": "1m30s"},
            replicas={"min": 0, "max": 3},
            scaledownPeriod=300,
            initialCooldownPeriod=10,
            scaleTargetRef={
                "service": "s",
                "port": 80,
                "name": "web",
                "apiVersion": "apps/v1",
                "kind": "Deployment",
            },
        )
    )
    headers = (HeaderRule(b"x-beta"), HeaderRule(b"x-v", b"1"))
    hosts = ("shop.example.com", "*.example.org")
    assert found.rules == (RouteRule(hosts, ("api", "v2"), headers),)
    assert found.fallback == Target("spare", 0, "web")
    assert found.timeouts == RouteTimeouts(7, None, 90)
    assert (found.rate, found.concurrency) == (RequestRate(9, 120, 0.5), None)


@pytest.mark.parametrize(
    ("spec", "timeouts"),
    [
        ({"timeouts": {"conditionWait": "0s", "responseHeader": "0"}}, RouteTimeouts()),
        ({"timeouts": {"conditionWait": "2s"}}, RouteTimeouts(2)),
        ({"coldStartTimeoutFailoverRef": {"service": "s", "port": 1}}, RouteTimeouts(30)),
    ],
)
def test_the_times_of_a_scaled_object(spec: Any, timeouts: RouteTimeouts) -> None:
    assert parse_scaled_object(scaled(**spec)).timeouts == timeouts


@pytest.mark.parametrize(
    ("given", "host"),
    [("[::1]:8080", "[::1]"), ("[FE80::1]", "[fe80::1]"), ("a.com:", "a.com"), ("", "*")],
)
def test_a_host_loses_its_port(given: str, host: str) -> None:
    assert parse_scaled_object(scaled(hosts=[given])).rules == (RouteRule((host,)),)


def test_a_scaled_object_with_the_old_target() -> None:
    assert parse_scaled_object(scaled(targetPendingRequests=7)).concurrency == 7


def test_a_route_with_the_least_fields() -> None:
    found = parse_route(route())
    assert (found.rules, found.target) == ((), Target("s", 0, "http"))
    assert (found.concurrency, found.rate, found.timeouts) == (5, None, RouteTimeouts())


def test_a_route_with_all_fields() -> None:
    found = known(
        route(
            rules=[{"hosts": ["a.com"], "paths": [{"value": "/x"}]}, {}],
            scalingMetric={
                "concurrency": {"targetValue": 2},
                "requestRate": {"targetValue": 3},
            },
            coldStart={
                "fallback": {"service": {"name": "spare", "port": 8080}},
                "placeholder": {
                    "response": {
                        "body": "soon",
                        "headers": {"X-A": " b ", **dict.fromkeys(FRAMING, "1")},
                    }
                },
                "maxPendingRequests": 4,
                "overflow": "Placeholder",
            },
            staticRoutes=[
                {
                    "rules": [{"paths": [{"value": "/robots.txt"}]}],
                    "responseMode": "Always",
                    "response": {"statusCode": 418, "bodyFromConfigMap": {"name": "files"}},
                }
            ],
            timeouts={"readiness": "0s", "request": "5s", "responseHeader": "1s"},
        )
    )
    assert found.rules == (RouteRule(("a.com",), ("x",)), RouteRule())
    assert (found.concurrency, found.rate) == (2, RequestRate(3, 60, 1))
    assert found.fallback == Target("spare", 8080, "")
    assert found.placeholder == StaticResponse(503, b"\r\nX-A: b", b"soon")
    assert (found.max_pending, found.overflow) == (4, True)
    assert found.timeouts == RouteTimeouts(0, 5, 1)
    files = StaticResponse(418, files=None, by_path=True, config_map="files")
    assert found.static_routes == (StaticRoute((RouteRule((), ("robots.txt",)),), files, True),)
    assert found.config_maps == {"files"}


def test_what_has_no_effect_is_said() -> None:
    assert parse_route(route(sessionPersistence={"type": "Cookie"})).warnings == (
        "spec.sessionPersistence has no effect: remove it, or annotate the Service with "
        "activator.dev/enabled and activator.dev/sticky, in place of this object",
    )


ODD = "a host has no scheme, port or path, so "


@pytest.mark.parametrize(
    ("host", "warning"),
    [
        ("https://x/", f"'https://x/': {ODD}no request fits"),
        ("x/y", f"'x/y': {ODD}no request fits"),
        ("x:8080", f"'x:8080': {ODD}the port is ignored"),
        ("*.x", ""),
        ("[::1]", ""),
    ],
)
def test_a_host_is_only_a_host(host: str, warning: str) -> None:
    rules = [{"hosts": ["good", host]}]
    static = [{"rules": rules, "response": {}}]
    assert parse_scaled_object(scaled(hosts=[host])).warnings == (
        (f"spec.hosts[0] {warning}",) if warning else ()
    )
    assert parse_route(route(rules=rules, staticRoutes=static)).warnings == (
        (f"spec.rules[0].hosts[1] {warning}", f"spec.staticRoutes[0].rules[0].hosts[1] {warning}")
        if warning
        else ()
    )


def unknown(field: str, near: str = "") -> str:
    hint = f"; did you mean {near}?" if near else ""
    return f"the field 'spec.{field}' is unknown and has no effect{hint}"


@pytest.mark.parametrize(
    ("obj", "found"),
    [
        (scaled(pathPrefix=["/a"]), [unknown("pathPrefix", "pathPrefixes")]),
        (scaled(timeouts={"readiness": "1s"}), [unknown("timeouts.readiness")]),
        (scaled(replicas={"maxx": 1}), [unknown("replicas.maxx", "max")]),
        (
            scaled(headers=[{"name": "a", "vlaue": "b"}], zzz=1),
            [unknown("headers[0].vlaue", "value"), unknown("zzz")],
        ),
        (
            route(
                rules=[{}, {"path": []}],
                staticRoutes=[
                    {
                        "rules": [{"paths": [{"value": "/", "typ": 1}]}],
                        "response": {"statuscode": 200, "headers": {"X-Any": "1"}},
                    }
                ],
            ),
            [
                unknown("rules[1].path", "paths"),
                unknown("staticRoutes[0].rules[0].paths[0].typ"),
                unknown("staticRoutes[0].response.statuscode", "statusCode"),
            ],
        ),
        (
            route(coldStart={"fallback": {"service": {"name": "s", "prot": 1, "port": 1}}}),
            [unknown("coldStart.fallback.service.prot", "port")],
        ),
        (route(**{f"x{number}": 1 for number in range(9)}), [unknown(f"x{n}") for n in range(5)]),
    ],
)
def test_unknown_fields_are_named_with_the_nearest_known_one(obj: Any, found: list[str]) -> None:
    kind = ROUTE if "target" in obj["spec"] else SCALED_OBJECT
    assert unknown_fields(obj, kind).split("; the ") == [
        each.removeprefix("the ") if number else each for number, each in enumerate(found)
    ]


@in_one_test(
    ("obj", "error"),
    [
        (scaled(scaleTargetRef={"service": "s"}), "spec.scaleTargetRef: expected either port or"),
        (
            scaled(scaleTargetRef={"service": "s", "port": 1, "portName": "x"}),
            "spec.scaleTargetRef: expected either port or portName",
        ),
        (scaled(scaleTargetRef={"port": 1}), "scaleTargetRef.service: expected the name of"),
        (scaled(scaleTargetRef={"service": "s", "port": 70000}), "from 1 to 65535, got 70000"),
        (scaled(hosts="a.com"), "spec.hosts: expected a list, got 'a.com'"),
        (scaled(hosts=[5]), "spec.hosts[0]: expected a string, got 5"),
        (scaled(hosts=["\ud800.com"]), "spec.hosts[0]: expected a string in UTF-8, got '\\ud800"),
        (scaled(headers=[{"name": "x y"}]), "spec.headers[0].name: expected the name of a header"),
        (
            scaled(headers=[{"name": "x", "value": "a\r\nb: c"}]),
            "spec.headers[0].value: expected the value of a header field",
        ),
        (
            scaled(scalingMetric={"concurrency": {}, "requestRate": {}}),
            "spec.scalingMetric: has concurrency and requestRate",
        ),
        (scaled(timeouts={"conditionWait": "soon"}), "conditionWait: expected a duration such as"),
        (
            scaled(timeouts={"conditionWait": 5}),
            "conditionWait: expected a duration such as 1m30s or 500ms, got 5",
        ),
    ],
)
def test_a_wrong_scaled_object_is_refused(obj: Any, error: str) -> None:
    with pytest.raises(ManifestError) as raised:
        parse_scaled_object(obj)
    assert str(raised.value).startswith("HTTPScaledObject web/shop: ")
    assert error in str(raised.value)


RESPONSE: Any = {"rules": [{}], "response": {}}


@in_one_test(
    ("spec", "error"),
    [
        ({"scalingMetric": {}}, "spec.scalingMetric: expected concurrency or requestRate"),
        ({"scalingMetric": {"concurrency": {}}}, "concurrency.targetValue: expected an integer"),
        ({"scalingMetric": {"requestRate": {}}}, "requestRate.targetValue: expected an integer"),
        (
            {"scalingMetric": {"requestRate": {"targetValue": 1, "granularity": "2m"}}},
            "requestRate.granularity: expected at most the window, got '2m'",
        ),
        ({"coldStart": {}}, "spec.coldStart: expected fallback, placeholder or"),
        (
            {"coldStart": {"maxPendingRequests": 1, "overflow": "Wait"}},
            "coldStart.overflow: expected Reject or Placeholder, got 'Wait'",
        ),
        (
            {"coldStart": {"maxPendingRequests": 1, "overflow": "Placeholder"}},
            "coldStart.overflow: Placeholder needs a placeholder",
        ),
        ({"coldStart": {"placeholder": {}}}, "placeholder.response: expected a response"),
        ({"rules": [{"paths": [{}]}]}, "spec.rules[0].paths[0].value: expected a path"),
        ({"staticRoutes": [{"response": {}}]}, "staticRoutes[0].rules: expected at least one rule"),
        (
            {"staticRoutes": [{**RESPONSE, "responseMode": "Never"}]},
            "responseMode: expected WhenUnavailable or Always, got 'Never'",
        ),
        (
            {"staticRoutes": [{**RESPONSE, "response": {"statusCode": 600}}]},
            "statusCode: expected an integer from 100 to 599, got 600",
        ),
        (
            {"staticRoutes": [{**RESPONSE, "response": {"body": "x" * 32_769}}]},
            "response.body: expected at most 32768 characters",
        ),
        (
            {"staticRoutes": [{**RESPONSE, "response": {"body": "x", "bodyFromConfigMap": {}}}]},
            "response: expected at most one of body and bodyFromConfigMap",
        ),
        (
            {"staticRoutes": [{**RESPONSE, "response": {"bodyFromConfigMap": {}}}]},
            "bodyFromConfigMap.name: expected the name of a ConfigMap",
        ),
        (
            {"staticRoutes": [{**RESPONSE, "response": {"headers": {"a": "b\nc: d"}}}]},
            "headers[a]: expected a header field with a value in one line",
        ),
    ],
)
def test_a_wrong_route_is_refused(spec: dict[str, Any], error: str) -> None:
    with pytest.raises(ManifestError) as raised:
        parse_route(route(**spec))
    assert str(raised.value).startswith("InterceptorRoute web/shop: ")
    assert error in str(raised.value)


@pytest.mark.parametrize("obj", [None, [], {}, {"metadata": METADATA, "spec": []}])
def test_no_object_at_all_is_refused(obj: Any) -> None:
    for parse in (parse_route, parse_scaled_object):
        with pytest.raises(ManifestError):
            parse(obj)


def test_only_a_labelled_config_map_is_a_body() -> None:
    labels = {"http.keda.sh/response-body": "true"}
    obj = {"metadata": {**METADATA, "labels": labels}, "data": {"index.html": "hé"}}
    assert parse_body(obj) == {"index.html": "hé".encode()}
    assert parse_body({"metadata": METADATA, "data": {"a": "b"}}) is None
