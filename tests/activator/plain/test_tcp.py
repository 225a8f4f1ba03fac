"""TCP Services: how a Service becomes one, the refusals, and the values for the throttler."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ManifestError
from activator.plain.problems import of_listen_port
from activator.plain.revisions import revision_of, route_of
from activator.plain.service import PlainService, parse
from activator.plain.slices import Allotment
from tests.activator.plain.objects import front, service
from throttler.model import AppProtocol, HashKey, KeyKind, ServiceRoute
from throttler.request_policies import LOW, ConnectionPolicies, ProxyHeader

TCP = {"protocol": "tcp"}
ONE = {"min_scale": "1"}


def parsed(obj: Any) -> PlainService:
    found = parse(obj)
    assert found is not None
    return found


def port(**fields: Any) -> list[Any]:
    return [{"name": "db", "port": 5432, "protocol": "TCP"} | fields]


@pytest.mark.parametrize(
    ("annotations", "fields", "protocol"),
    [
        (TCP, {}, AppProtocol.TCP),
        (TCP, {"appProtocol": "https"}, AppProtocol.TCP),
        ({}, {"appProtocol": "postgresql"}, AppProtocol.TCP),
        ({}, {"appProtocol": "redis"}, AppProtocol.TCP),
        ({"protocol": "http"}, {"appProtocol": "redis"}, AppProtocol.HTTP1),
        ({}, {"name": "ssh"}, AppProtocol.HTTP1),
        ({}, {"appProtocol": "grpc"}, AppProtocol.H2C),
    ],
)
def test_annotation_or_port_names_the_protocol(
    annotations: Any, fields: Any, protocol: AppProtocol
) -> None:
    found = parsed(front(annotations, ports=port(**fields)))
    assert found.refused == ""
    assert found.port is not None
    assert (found.port.protocol, found.port.tls) == (protocol, False)


def test_only_the_buffered_port_names_the_protocol() -> None:
    ports = [*port(appProtocol="redis"), {"name": "http", "port": 80}]
    assert parsed(front(ports=ports)).port == (("http", 80, 80, AppProtocol.HTTP1, False))
    found = parsed(front({"port": "db"}, ports=ports)).port
    assert found is not None
    assert found.protocol is AppProtocol.TCP
    assert parsed(front(TCP, ports=ports)).refused == (
        "of the ports db, http, choose one with the annotation activator.dev/port"
    )


@pytest.mark.parametrize(
    ("obj", "refused"),
    [
        (
            service(TCP),
            "activator.dev/protocol tcp needs activator.dev/route front, or "
            "activator.dev/listen-port where activator local runs, and the route is shared: a "
            "connection names no host, so on the shared port nothing names its Service",
        ),
        (
            service(TCP | {"route": "takeover"}),
            "activator.dev/protocol tcp with activator.dev/route takeover needs "
            "activator.dev/min-scale of at least 1: clients connect to ready pods past the "
            "activators, so nothing would count the connections of a pod that is to end; use "
            "route front",
        ),
        (
            front(TCP | {"warm_path": "direct"}),
            "activator.dev/warm-path direct needs activator.dev/min-scale of at least 1: clients "
            "connect to ready pods past the activators, so nothing would count the connections of "
            "a pod that is to end",
        ),
        (service(TCP | ONE | {"route": "takeover"}), ""),
        (front(TCP | ONE | {"warm_path": "direct"}), ""),
        (service(TCP | {"listen_port": "5432"}), ""),
    ],
)
def test_ways_to_the_activator(obj: Any, refused: str) -> None:
    found = parsed(obj)
    assert found.refused == refused
    assert (found.port is None) is bool(refused)


@pytest.mark.parametrize(
    ("annotations", "fields", "text"),
    [
        (
            TCP | {"while_waiting": "page"},
            {},
            "metadata.annotations[activator.dev/while-waiting]: expected no such annotation, since "
            "activator.dev/protocol is tcp, got 'page'",
        ),
        (
            {"hosts": "a.com"},
            {"appProtocol": "mysql"},
            "metadata.annotations[activator.dev/hosts]: expected no such annotation, since "
            "appProtocol mysql sets activator.dev/protocol to tcp, got 'a.com'",
        ),
        (
            TCP | {"sticky": "cookie"},
            {},
            "metadata.annotations[activator.dev/sticky]: expected client-ip, since "
            "activator.dev/protocol is tcp, got 'cookie'",
        ),
        (
            TCP | {"fair_by": "header:X-Tenant"},
            {},
            "metadata.annotations[activator.dev/fair-by]: expected client-ip, since "
            "activator.dev/protocol is tcp, got 'header:X-Tenant'",
        ),
        (
            TCP | {"load_balancing": "hash", "hash_key": "path"},
            {},
            "metadata.annotations[activator.dev/hash-key]: expected client-ip, since "
            "activator.dev/protocol is tcp, got 'path'",
        ),
        (
            TCP | {"adaptive_concurrency": "on", "auth_url": "http://a"},
            {},
            "metadata.annotations[activator.dev/adaptive-concurrency]: expected no such annotation,"
            " since activator.dev/protocol is tcp, got 'on'; "
            "metadata.annotations[activator.dev/auth-url]: expected no such annotation, since "
            "activator.dev/protocol is tcp, got 'http://a'",
        ),
        (TCP | {"listen_port": "65536"}, {}, "an integer from 1 to 65535, got '65536'"),
        (TCP | {"wake_after_milliseconds": "10001"}, {}, "an integer from 0 to 10000, got '10001'"),
        (TCP | {"keep_awake": "always"}, {}, "expected one of connections, bytes, got 'always'"),
        (TCP | {"send_proxy": "v3"}, {}, "expected one of v1, v2, got 'v3'"),
    ],
)
def test_a_policy_of_requests_is_an_error_with_both_names(
    annotations: Any, fields: Any, text: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        parse(front(annotations, ports=port(**fields)))
    assert text in str(caught.value)
    stays = caught.value.instead
    assert stays.port.protocol is AppProtocol.TCP
    revision = revision_of(stays, stays.port, None)
    policies = revision.policies
    assert (policies.requests, policies.sticky, policies.hash_key) == (None, None, None)
    assert policies.order is None or policies.order.fair_by is None
    assert stays.asks.hosts == ()


def test_policies_that_connections_have() -> None:
    annotations = {
        "wait_seconds": "7",
        "priority": "low",
        "fair_by": "client-ip",
        "load_balancing": "hash",
        "hash_key": "client-ip",
        "wake_after_milliseconds": "250",
        "keep_awake": "bytes",
        "send_proxy": "v2",
    }
    found = parsed(front(TCP | annotations))
    assert found.warnings == ()
    assert found.port is not None
    revision = revision_of(found, found.port, None)
    policies = revision.policies
    assert policies.connections == ConnectionPolicies(0.25, True, ProxyHeader.V2)
    assert policies.requests is not None
    assert policies.requests.wait_seconds == 7
    assert policies.order is not None
    assert (policies.order.priority, policies.order.fair_by is not None) == (LOW, True)
    assert policies.hash_key == HashKey(kind=KeyKind.CLIENT_IP)


def test_annotations_of_connections_without_tcp() -> None:
    annotations = {"keep_awake": "bytes", "send_proxy": "v1"}
    found = parsed(front(annotations))
    assert found.warnings == (
        "no effect without activator.dev/protocol tcp: activator.dev/keep-awake, "
        "activator.dev/send-proxy",
    )
    assert found.port is not None
    assert revision_of(found, found.port, None).policies.connections is None


@pytest.mark.parametrize(
    ("annotations", "bypassed"),
    [({}, False), (ONE | {"warm_path": "direct"}, True), ({"container_concurrency": "3"}, False)],
)
def test_connections_stay_in_the_path_of_the_activators(annotations: Any, bypassed: bool) -> None:
    assert parsed(front(TCP | annotations)).asks.is_bypassed is bypassed


def test_no_host_leads_to_a_tcp_service() -> None:
    found = parsed(front(TCP))
    route = route_of(found, [Allotment("", "hello", 9001, False)], 9001, "cluster.local")
    created = "2026-01-01T00:00:00Z"
    assert route == ServiceRoute(created, (), 9001, False, "hello-pods", is_tcp=True)


def test_a_port_of_its_own_choice_is_only_for_a_folder() -> None:
    [problem] = of_listen_port(parsed(service(TCP | {"listen_port": "5432"})))
    assert problem == (
        "limited",
        "activator.dev/listen-port has no effect in a cluster, where the scaler allots the ports: "
        "use activator.dev/route front",
    )
    assert list(of_listen_port(parsed(front(TCP)))) == []
