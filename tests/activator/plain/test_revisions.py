"""The throttler's values of a Service."""

from __future__ import annotations

from typing import Any

import pytest

from activator.objects.fields import ObjectKey
from activator.plain import slices, workloads
from activator.plain.revisions import endpoints_of, probe_spec, revision_id, revision_of, route_of
from activator.plain.service import PlainService, parse
from activator.plain.workloads import ContainerProbe
from tests.activator.plain.objects import (
    container,
    deployment,
    endpoint,
    service,
    slice_of,
    takeover_slice,
)
from throttler.model import (
    AdaptiveMode,
    AppProtocol,
    Endpoint,
    HashKey,
    ListedEndpoints,
    Policies,
    ProbeKind,
    ProbeSpec,
    ReadinessRule,
    Revision,
    RevisionID,
    RevisionKind,
)
from throttler.request_policies import HeaderRule, RouteRule

HELLO = RevisionID("shop", "hello", RevisionKind.SERVICE)
FIELDS = b"User-Agent: kube-probe/1\r\nAccept: */*\r\n"


def read(annotations: Any = None, **spec: Any) -> PlainService:
    found = parse(service(annotations, **spec))
    assert found is not None
    return found


def revision(annotations: Any = None, workload: Any = None, **spec: Any) -> Revision:
    found = read(annotations, **spec)
    assert found.port is not None
    behind = None if workload is None else workloads.parse(workload, "Deployment")
    return revision_of(found, found.port, behind)


def test_a_service_is_no_revision_of_that_name() -> None:
    assert revision_id(ObjectKey("Service", "shop", "hello")) == HELLO
    assert RevisionID("shop", "hello") != HELLO


def test_defaults() -> None:
    found = revision()
    assert (found.id, found.uid, found.container_concurrency) == (HELLO, "s1", 0)
    assert (found.timeout, found.response_start_timeout, found.idle_timeout) == (300.0, 0.0, 0.0)
    assert (found.protocol, found.tls) == (AppProtocol.HTTP1, False)
    assert not found.behind_queue_proxy
    assert found.probe == ProbeSpec(ProbeKind.TCP, timeout=1.0)
    assert found.probe_why == "The workload is unknown, so the probe is a TCP connect."


def test_a_service_with_the_asleep_mark_is_asleep() -> None:
    found = parse(service({"asleep": "{}"}))
    assert found is not None
    assert found.port is not None
    assert revision_of(found, found.port, None).asleep is True


def test_annotations_and_the_workload_decide() -> None:
    annotations = {
        "container_concurrency": "3",
        "timeout_seconds": "9",
        "response_start_timeout_seconds": "8",
        "idle_timeout_seconds": "7",
        "load_balancing": "hash",
        "hash_key": "header:X-User",
        "adaptive_concurrency": "observe",
    }
    ports = [{"name": "web", "port": 443, "targetPort": 8080, "appProtocol": "https"}]
    workload = deployment(container(readinessProbe={"httpGet": {"path": "/up", "port": 8080}}))
    found = revision(annotations, workload, ports=ports)
    assert (found.container_concurrency, found.timeout) == (3, 9.0)
    assert (found.response_start_timeout, found.idle_timeout, found.tls) == (8.0, 7.0, True)
    assert found.policies == Policies("hash", HashKey(b"x-user"), adaptive=AdaptiveMode.OBSERVE)
    assert (found.probe.kind, found.probe.path) == (ProbeKind.HTTP, b"/up")
    assert found.readiness is ReadinessRule.PROBE


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (None, ProbeSpec(ProbeKind.NONE)),
        (
            ContainerProbe(ProbeKind.TCP, timeout=3.0),
            ProbeSpec(ProbeKind.TCP, timeout=3.0),
        ),
        (
            ContainerProbe(ProbeKind.GRPC, service="a.B", tls=True),
            ProbeSpec(ProbeKind.GRPC, timeout=1.0, tls=True, service=b"a.B"),
        ),
        (
            ContainerProbe(ProbeKind.HTTP, path="/x", tls=True),
            ProbeSpec(*(ProbeKind.HTTP, b"/x", FIELDS), timeout=1.0, tls=True),
        ),
        (
            ContainerProbe(ProbeKind.HTTP, host="a.com"),
            ProbeSpec(ProbeKind.HTTP, b"/", FIELDS, b"a.com", timeout=1.0),
        ),
        (
            ContainerProbe(
                *(ProbeKind.HTTP, 0, "a.com", "/"),
                (("X-A", "1"), ("user-agent", "me"), ("HOST", "b.com"), ("X-A", "2")),
            ),
            ProbeSpec(
                ProbeKind.HTTP,
                b"/",
                b"X-A: 1\r\nuser-agent: me\r\nX-A: 2\r\nAccept: */*\r\n",
                b"b.com",
                timeout=1.0,
            ),
        ),
    ],
)
def test_the_activator_asks_what_kubelet_asks(
    probe: ContainerProbe | None, expected: ProbeSpec
) -> None:
    assert probe_spec(probe) == expected


def test_endpoints_by_condition() -> None:
    found = read()
    assert found.port is not None
    pods = slices.parse(
        slice_of(
            endpoint("10.0.0.1"),
            endpoint("10.0.0.2", ready=False, serving=False),
            endpoint("10.0.0.3", ready=False, terminating=True),
            endpoint("10.0.0.4", ready=False, serving=False, terminating=True),
        )
    )
    assert pods is not None
    assert endpoints_of(slices.join([pods], found.port.name, ipv6=False), found.port) == {
        AppProtocol.HTTP1: ListedEndpoints(
            frozenset({Endpoint("10.0.0.1:8080", "uid-10.0.0.1")}),
            frozenset({Endpoint("10.0.0.2:8080", "uid-10.0.0.2")}),
            frozenset({Endpoint("10.0.0.3:8080", "uid-10.0.0.3")}),
        )
    }


def test_paths_and_headers_count_for_the_hosts_and_not_for_the_names_in_the_cluster() -> None:
    asked = {"hosts": "a.com,hello.shop", "paths": "/api", "headers": "x-v: 1"}
    names, rule = route_of(read(asked), (), 0, "example.local").rules
    assert names == RouteRule(("hello.shop", "hello.shop.svc", "hello.shop.svc.example.local"))
    assert rule == RouteRule(("a.com",), ("api",), (HeaderRule(b"x-v", b"1"),))


def test_the_names_in_the_cluster_come_with_the_hosts() -> None:
    route = route_of(read({"hosts": "a.com,*.b.com,hello.shop"}), (), 0, "example.local")
    own = ("hello.shop", "hello.shop.svc", "hello.shop.svc.example.local")
    assert route.hosts == (*own, "a.com", "*.b.com")
    assert (route.created, route.port, route.reconnect) == ("2026-01-01T00:00:00Z", 0, False)


@pytest.mark.parametrize(
    ("listed", "port", "reconnect"),
    [
        ([()], 10_000, True),
        ([("10.1.0.1",)], 10_000, False),
        ([(), ("10.1.0.1",)], 10_000, False),
        ([()], 0, False),
        ([], 10_000, False),  # a listen-port of the folder mode
    ],
)
def test_clients_reconnect_once_new_connections_reach_the_pods(
    listed: Any, port: int, reconnect: bool
) -> None:
    parts = [slices.parse_allotment(takeover_slice(*ips)) for ips in listed]
    route = route_of(read(), [part for part in parts if part is not None], port, "x")
    assert (route.port, route.reconnect) == (port, reconnect)
