"""Services joined with their slices and workloads, and passed on when they change."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from itertools import permutations
from typing import Any

import pytest

from activator.discovery.dialect import Scope
from activator.discovery.service_kinds import ServicesDialect
from activator.knative.system_objects import SystemObjects
from activator.objects.fields import ObjectKey, identify
from activator.plain import slices, workloads
from activator.plain.route_table import RouteTable
from activator.plain.slices import NO_LISTENERS, OwnListener, OwnListeners
from activator.plain.workloads import Matches
from tests.activator.plain.objects import (
    container,
    deployment,
    endpoint,
    front,
    named,
    slice_of,
    takeover_slice,
)
from tests.activator.plain.objects import service as service_object
from throttler.model import (
    AppProtocol,
    ListedEndpoints,
    ProbeKind,
    ReadinessRule,
    Revision,
    RevisionID,
    RevisionKind,
    ServiceRoute,
)

HELLO = RevisionID("shop", "hello", RevisionKind.SERVICE)
OTHER = RevisionID("shop", "other", RevisionKind.SERVICE)
HTTP = {"httpGet": {"port": 8080}}


class World:
    """The state of the dialect, and the values that it has passed on."""

    def __init__(self, own: OwnListeners = NO_LISTENERS) -> None:
        self.revisions: dict[RevisionID, Revision] = {}
        self.endpoints: dict[RevisionID, Mapping[AppProtocol, ListedEndpoints]] = {}
        self.routes: dict[RevisionID, ServiceRoute] = {}
        self.activators: dict[RevisionID, Mapping[AppProtocol, Collection[str]]] = {}
        self.calls: list[str] = []
        scope = Scope(own=own, activators=("system", "activator-service"))
        self.services = ServicesDialect(self, SystemObjects({}, {}, lambda pems: None), scope)
        self._objects: dict[ObjectKey, Any] = {}

    def set_revision(self, revision: Revision) -> None:
        self.calls.append(f"set_revision {revision.id}")
        self.revisions[revision.id] = revision

    def delete_revision(self, revision_id: RevisionID) -> None:
        self.calls.append(f"delete_revision {revision_id}")
        del self.revisions[revision_id]

    def set_endpoints(
        self, revision_id: RevisionID, endpoints: Mapping[AppProtocol, ListedEndpoints]
    ) -> None:
        self.calls.append(f"set_endpoints {revision_id}")
        self.endpoints[revision_id] = endpoints

    def set_activators(
        self, revision_id: RevisionID, addresses: Mapping[AppProtocol, Collection[str]]
    ) -> None:
        self.calls.append(f"set_activators {revision_id}")
        self.activators[revision_id] = addresses

    def set_route(self, revision_id: RevisionID, route: ServiceRoute) -> None:
        self.calls.append(f"set_route {revision_id}")
        self.routes[revision_id] = route

    def set_service(self, revision_id: RevisionID, addresses: Mapping[AppProtocol, str]) -> None:
        raise AssertionError("Knative's dialect alone has private Services")

    def put(self, *objects: Any) -> None:
        for obj in objects:
            self._put(obj["kind"], obj, obj)

    def delete(self, *objects: Any) -> None:
        for obj in objects:
            self._put(obj["kind"], obj, None)

    def _put(self, kind: str, named: Any, obj: Any) -> None:
        key, row = identify(named, kind), ServicesDialect.kinds[kind]
        new = obj and row.parse(key, obj, Scope())
        old, self._objects[key] = self._objects.get(key), new
        row.put(self.services, key, old, new)
        list(self.services.publishing())

    def ready(self, revision: RevisionID = HELLO) -> list[str]:
        (listed,) = self.endpoints[revision].values()
        return sorted(each.address for each in listed.ready)

    def reasons(self, revision: RevisionID = HELLO) -> list[str]:
        return [problem.reason for id_, _, problem in self.services.reports if id_ == revision]


@pytest.fixture
def world() -> World:
    return World()


def test_a_service_with_its_pods_and_its_workload(world: World) -> None:
    world.put(slice_of(endpoint()), deployment(container(readinessProbe=HTTP)), service_object())
    assert world.revisions[HELLO].probe.kind is ProbeKind.HTTP
    assert world.ready() == ["10.0.0.1:8080"]
    assert world.routes[HELLO].hosts[:2] == ("hello.shop", "hello.shop.svc")
    assert world.reasons() == []


def test_an_object_of_a_service_that_does_not_opt_in_causes_no_call(world: World) -> None:
    world.put(service_object({"enabled": "false"}), slice_of(endpoint()), deployment())
    assert world.calls == []


def test_an_event_without_a_change_of_values_causes_no_call(world: World) -> None:
    world.put(service_object(), slice_of(endpoint()), deployment())
    world.calls.clear()
    world.put(deployment(replicas=7), slice_of(endpoint()), service_object())
    assert world.calls == []


def test_an_opted_out_service_is_gone_and_its_pods_finish_their_requests(world: World) -> None:
    world.put(service_object(), slice_of(endpoint()))
    world.put(service_object({"enabled": "false"}))
    assert world.revisions == {}
    assert world.routes[HELLO] == ServiceRoute()
    assert world.ready() == ["10.0.0.1:8080"]
    world.put(slice_of())
    assert world.ready() == []


def test_nothing_is_kept_of_a_service_whose_objects_are_all_gone(world: World) -> None:
    objects = [service_object({"hosts": "a.com"}), slice_of(endpoint()), takeover_slice()]
    world.put(*objects, deployment())
    world.delete(*objects, deployment())
    kept = {name: value for name, value in vars(world.services).items() if value == {}}
    assert set(kept) == {"_known", "_changed", "_activators", "_slices"}
    indexes = [
        each for each in vars(world.services).values() if isinstance(each, RouteTable | Matches)
    ]
    assert len(indexes) == 3
    assert not any(any(vars(index).values()) for index in indexes)


def test_a_new_uid_is_another_service(world: World) -> None:
    world.put(service_object())
    world.put(named(service_object(), "hello", uid="s2"))
    assert world.revisions[HELLO].uid == "s2"


def test_a_changed_selector_takes_the_probe_of_the_other_workload(world: World) -> None:
    other = named(deployment(container(readinessProbe=HTTP)), "other")
    other["spec"]["template"]["metadata"] = {"labels": {"app": "other"}}
    world.put(service_object(), deployment(), other)
    assert world.revisions[HELLO].probe.kind is ProbeKind.TCP
    world.put(service_object(selector={"app": "other"}))
    assert world.revisions[HELLO].probe.kind is ProbeKind.HTTP
    assert world.reasons() == []


def test_a_replaced_workload_brings_its_probe(world: World) -> None:
    world.put(service_object(), deployment(container(readinessProbe={"exec": {}})))
    assert world.revisions[HELLO].readiness is ReadinessRule.EXEC_READINESS_PROBE
    world.delete(deployment())
    assert world.revisions[HELLO].readiness is ReadinessRule.PROBE
    assert world.reasons() == ["no-scalable-target"]
    world.put(named(deployment(container(readinessProbe=HTTP)), "next"))
    assert world.revisions[HELLO].probe.kind is ProbeKind.HTTP
    assert world.reasons() == []


def test_a_port_of_another_protocol_moves_the_pods_to_that_protocol(world: World) -> None:
    world.put(service_object(), slice_of(endpoint()))
    world.put(service_object(ports=[{"port": 80, "targetPort": 8080, "appProtocol": "grpc"}]))
    assert world.revisions[HELLO].protocol is AppProtocol.H2C
    assert list(world.endpoints[HELLO]) == [AppProtocol.H2C]


def activators(*endpoints: Any, **fields: Any) -> Any:
    """Return a slice of the activators' Service."""
    obj = slice_of(*endpoints, of="activator-service", **fields)
    return named(obj, obj["metadata"]["name"], namespace="system")


def test_the_ready_activators_of_their_own_service_share_the_pods(world: World) -> None:
    here = {"container_concurrency": "1"}
    world.put(service_object(here), slice_of(endpoint("10.0.0.1")))
    texts = " ".join(problem.text for _, _, problem in world.services.reports)
    assert "no EndpointSlice of the Service system/activator-service" in texts
    world.put(
        activators(endpoint("10.1.0.1") | {"zone": "eu-1a"}, endpoint("10.1.0.2")),
        activators(endpoint("10.1.0.3"), endpoint("10.1.0.4", ready=False), name="more"),
        activators(endpoint("fd00::1"), name="of-ipv6", addressType="IPv6"),
    )
    both = {AppProtocol.HTTP1: {"10.1.0.1": "eu-1a", "10.1.0.2": "", "10.1.0.3": ""}}
    assert list(world.activators.values()) == [both]
    texts = " ".join(problem.text for _, _, problem in world.services.reports)
    assert "activator-service" not in texts
    world.put(named(service_object(here), "other"), slice_of(endpoint("10.0.0.2"), of="other"))
    assert world.activators == {HELLO: both, OTHER: both}
    world.put(
        activators(endpoint("10.1.0.1", terminating=True, ready=False)), activators(name="more")
    )
    assert world.activators[HELLO] == world.activators[OTHER] == {AppProtocol.HTTP1: {}}


def test_the_zones_of_pods_and_activators_follow_their_slices(world: World) -> None:
    pods = [endpoint("10.0.0.1") | {"zone": "eu-1a"}, endpoint("10.0.0.2")]
    world.put(service_object(), slice_of(*pods))
    world.put(activators(endpoint("10.1.0.1") | {"zone": "eu-1a"}))
    assert world.endpoints[HELLO][AppProtocol.HTTP1].zones == {"10.0.0.1:8080": "eu-1a"}
    world.put(slice_of(pods[0], pods[1] | {"zone": "eu-1b"}))
    world.put(activators(endpoint("10.1.0.1") | {"zone": "eu-1b"}))
    assert world.endpoints[HELLO][AppProtocol.HTTP1].zones == {
        "10.0.0.1:8080": "eu-1a",
        "10.0.0.2:8080": "eu-1b",
    }
    assert world.activators[HELLO] == {AppProtocol.HTTP1: {"10.1.0.1": "eu-1b"}}


def test_the_allotted_port_is_followed(world: World) -> None:
    world.put(service_object({"route": "takeover"}), takeover_slice("10.1.0.1"))
    assert world.routes[HELLO][2:4] == (10_000, False)
    world.put(takeover_slice(port="10001"))
    assert world.routes[HELLO][2:4] == (10_001, True)
    world.put(takeover_slice(port="nonsense"))
    assert world.routes[HELLO][2:4] == (0, False)
    world.put(takeover_slice())
    world.delete(takeover_slice())
    assert world.routes[HELLO][2:4] == (0, False)


def test_of_two_slices_with_one_port_the_older_has_it(world: World) -> None:
    other = named(service_object(), "other")
    world.put(service_object(), other, takeover_slice())
    world.put(takeover_slice(of="other", created="2026-01-01T00:00:00Z"))
    assert (world.routes[HELLO].port, world.routes[OTHER].port) == (0, 10_000)
    assert (world.reasons()[-1], "port-conflict" in world.reasons(OTHER)) == (
        "port-conflict",
        False,
    )
    world.delete(other)
    assert world.routes[HELLO].port == 10_000
    assert "port-conflict" not in world.reasons()


def test_of_two_services_that_claim_a_host_the_older_has_it(world: World) -> None:
    older = named(service_object({"hosts": "a.com"}), "other", creationTimestamp="2025")
    world.put(service_object({"hosts": "a.com,b.com"}), deployment())
    assert world.reasons() == []
    world.put(older)
    assert world.reasons() == ["host-conflict"]
    assert "host-conflict" not in world.reasons(OTHER)
    [(_, _, problem)] = [each for each in world.services.reports if each[0] == HELLO]
    assert problem.text.startswith("the host a.com belongs to the Service shop/other")
    world.delete(older)
    assert world.reasons() == []


def test_of_two_services_with_one_rule_the_older_has_it(world: World) -> None:
    rule = {"hosts": "a.com", "paths": "/api,/v2", "headers": "x-beta"}
    older = named(service_object(rule), "other", creationTimestamp="2025")
    world.put(service_object(rule | {"paths": "/api"}), deployment(), older)
    [(_, _, problem)] = [each for each in world.services.reports if each[0] == HELLO]
    assert problem.text == (
        "the rule a.com/api with header x-beta belongs to the Service shop/other, which is older "
        "or has that name, and gets its requests"
    )
    world.put(service_object(rule | {"paths": "/other"}))
    assert world.reasons() == []
    world.put(service_object({"paths": "/other"}))
    assert world.reasons() == ["limited"]


CLAIMS = {
    "hello.shop.svc.cluster.local": True,
    "hello.shop.svc": True,
    "hello.shop": True,
    "a.com": True,
    "*.example.com": True,
    "svc.com": True,
    "*.local.com": True,
    "printer.local": True,
    "victim.prod.svc.cluster.local": False,
    "victim.prod.svc": False,
    "other.shop.svc.cluster.local": False,
    "api.cluster.local": False,
    "*.svc.cluster.local": False,
    "*.prod.svc.cluster.local": False,
    "*.cluster.local": False,
    "*.local": False,
    "*.svc": False,
    "*.prod.svc": False,
}


@pytest.mark.parametrize("host", CLAIMS)
def test_a_name_in_the_cluster_belongs_to_its_own_service_alone(world: World, host: str) -> None:
    world.put(service_object({"hosts": f"{host},b.com"}), deployment())
    hosts = world.routes[HELLO].hosts
    assert (host in hosts, "b.com" in hosts) == (CLAIMS[host], True)
    texts = [problem.text for _, _, problem in world.services.reports]
    assert texts == (
        []
        if CLAIMS[host]
        else [
            f"the host {host} is in the domain of the cluster, where each name belongs to its own "
            "Service, so the annotation activator.dev/hosts does not count for it"
        ]
    )
    assert world.reasons() == len(texts) * ["host-conflict"]


@pytest.mark.parametrize(
    ("objects", "reason", "text"),
    [
        ([service_object()], "no-scalable-target", "has pods with the labels app=hello"),
        (
            [service_object({"target": "deployment/x"}), deployment()],
            *("no-scalable-target", "the target Deployment shop/x does not exist"),
        ),
        ([service_object({"target": "foo/bar"})], "unknown-target-kind", "foo needs its group and"),
        (
            [service_object(), deployment(), named(deployment(), "b")],
            *("several-targets", "the selector matches Deployment/b, Deployment/hello; choose"),
        ),
        ([service_object(type="ExternalName")], "refused", "ExternalName has no pods"),
        ([service_object({"porrt": "1"}), deployment()], "limited", "did you mean activator.dev"),
        (
            [
                *(service_object(), deployment()),
                slice_of(endpoint(), ports=[{"name": "web", "port": 1}]),
            ],
            *("no-such-port", "no EndpointSlice has the port '' (found: 'web')"),
        ),
        (
            [
                service_object(ports=[{"port": 80, "targetPort": "htpp"}]),
                *(deployment(), slice_of(endpoint(), ports=[])),
            ],
            *(
                "no-such-port",
                "(found: none, so no container has a port named 'htpp', the targetPor",
            ),
        ),
    ],
)
def test_problems(world: World, objects: list[Any], reason: str, text: str) -> None:
    world.put(*objects)
    [(revision, _, problem)] = world.services.reports
    assert (revision, problem.reason) == (HELLO, reason)
    assert text in problem.text


def test_a_target_of_an_unknown_kind_is_no_problem(world: World) -> None:
    """The activator does not read such objects, so it cannot miss one."""
    world.put(service_object({"target": "argoproj.io/v1alpha1/Rollout/hello"}), deployment())
    assert world.reasons() == []
    assert world.revisions[HELLO].probe.kind is ProbeKind.TCP


def test_workloads_that_cannot_be_read_are_not_missing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """No role allows to read them: requests are served, and a TCP connect is the probe."""
    world.put(service_object(), slice_of(endpoint()))
    assert world.reasons() == ["no-scalable-target"]
    world.services.settled(workloads.KINDS)
    assert (world.reasons(), caplog.messages) == ([], [])
    world.put(named(service_object(), "other"))
    assert world.reasons(OTHER) == []
    world.put(deployment(), named(deployment(), "second"))  # they can be read since
    assert world.reasons() == ["several-targets"]


@pytest.mark.untraced
def test_the_log_has_some_of_many_problems(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(150):
        world.put(named(service_object(), f"s{number}"))
    world.services.settled(())
    assert len(caplog.messages) == 101
    assert caplog.messages[-1] == "more objects have problems: the admin API lists them"


def test_problems_are_logged_once_all_objects_have_been_read(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    world.put(service_object(), named(service_object(), "other"), deployment())
    world.delete(deployment())
    assert caplog.messages == []
    world.services.settled(())
    world.services.settled(())
    assert [text.split(": ")[:2] for text in caplog.messages] == [
        ["Service shop/hello", "no-scalable-target"],
        ["Service shop/other", "no-scalable-target"],
    ]
    caplog.clear()
    world.put(service_object({"hosts": "b.com"}))
    assert caplog.messages == []  # the same problem
    world.put(named(service_object({"hosts": "b.com"}), "other"))
    assert [text.split(": ")[1] for text in caplog.messages] == ["host-conflict"]


def test_the_activator_itself_is_no_pod_and_the_service_has_the_reason() -> None:
    world = World(OwnListeners([OwnListener("0.0.0.0", 8080, "--admin-port")]))
    world.put(service_object(), deployment(), slice_of(endpoint("127.0.0.1"), endpoint("10.0.0.1")))
    listed = world.endpoints[HELLO][AppProtocol.HTTP1]
    assert [each.address for each in listed.ready] == ["10.0.0.1:8080"]
    [(_, _, problem)] = world.services.reports
    assert (problem.reason.value, problem.text) == (
        "own-port",
        "127.0.0.1:8080 (--admin-port): the activator itself listens there, so it gets none of "
        "these requests",
    )
    world.put(slice_of(endpoint("10.0.0.1")))
    assert list(world.services.reports) == []


# -- route front ----------------------------------------------------------------------------------

PODS_SERVICE = named(service_object({"enabled": "false"}, clusterIP="None"), "hello-pods")
PODS = slice_of(endpoint(), of="hello-pods")


@pytest.mark.untraced
def test_a_front_finds_its_pods_and_its_workload_by_its_pods_service() -> None:
    objects = [front(), PODS_SERVICE, PODS, deployment(container(readinessProbe=HTTP))]
    for order in permutations((*objects, takeover_slice("10.1.0.1"))):
        world = World()
        world.put(*order)
        assert world.ready() == ["10.0.0.1:8080"]
        assert world.revisions[HELLO].probe.kind is ProbeKind.HTTP
        assert world.revisions[HELLO].probe_why == (
            "This is the readiness probe of container app. Service hello-pods lists the pods."
        )
        assert world.routes[HELLO][2:4] == (10_000, False)
        assert world.routes[HELLO].pods == "hello-pods"
        assert world.reasons() == []


def test_a_front_follows_its_pods_service(world: World) -> None:
    world.put(front(), PODS_SERVICE, PODS, deployment())
    world.put(slice_of(endpoint("10.0.0.2"), of="hello-pods"))
    assert world.ready() == ["10.0.0.2:8080"]
    world.put(slice_of(endpoint("10.0.0.3"), of="others"))
    world.put(named(service_object({"enabled": "false"}), "others"))
    world.put(front({"pods_service": "others"}))
    assert world.ready() == ["10.0.0.3:8080"]
    world.put(named(service_object({"enabled": "false"}, selector={"app": "x"}), "others"))
    assert world.reasons() == ["no-scalable-target"]
    world.delete(named(service_object(), "others"))
    assert world.reasons() == ["wrong-pods-service"]
    assert world.revisions == {}
    world.put(service_object({"route": "takeover"}), slice_of(endpoint("10.0.0.4")))
    assert world.ready() == ["10.0.0.4:8080"]


def test_slices_that_kubernetes_leaves_behind_a_front_are_ignored(world: World) -> None:
    world.put(front(), PODS_SERVICE, PODS, deployment(), slice_of(endpoint("10.0.0.9")))
    assert world.ready() == ["10.0.0.1:8080"]
    world.put(front(selector={"app": "hello"}))
    assert world.ready() == ["10.0.0.1:8080"]
    assert world.reasons() == []


def test_a_front_that_opts_out_leaves_nothing(world: World) -> None:
    world.put(front(), PODS_SERVICE, PODS, deployment())
    world.delete(front())
    assert (world.revisions, world.ready()) == ({}, [])


@pytest.mark.parametrize(
    ("lists", "reconnect"), [(takeover_slice("10.1.0.1"), False), (PODS, True)]
)
def test_clients_of_an_activator_reconnect_when_a_front_lists_the_pods(
    world: World, lists: Any, reconnect: bool
) -> None:
    world.put(front(), PODS_SERVICE, PODS, takeover_slice() | {"endpoints": lists["endpoints"]})
    assert world.routes[HELLO].reconnect is reconnect


# -- cost of an event -----------------------------------------------------------------------------


class Counted(tuple[slices.ListedPod, ...]):
    """The pods of a slice, with a count of the passes over them."""

    passes = 0

    def __iter__(self) -> Iterator[slices.ListedPod]:
        self.passes += 1
        return super().__iter__()


def test_only_a_changed_slice_visits_the_pods_of_a_service(world: World) -> None:
    listed = (slices.ListedPod(f"10.0.0.{n}", f"u{n}", slices.Condition.READY) for n in range(200))
    pods = Counted(listed)
    key = ObjectKey("EndpointSlice", "shop", "hello-1")
    world.services.put_slice(key, None, slices.Slice("hello", False, {"": 8080}, pods))
    world.put(service_object(), deployment(container()))
    assert pods.passes == 1
    world.put(service_object({"container_concurrency": "7"}), deployment(container(), replicas=9))
    world.put(deployment(container(readinessProbe=HTTP)))
    assert world.revisions[HELLO].container_concurrency == 7
    assert pods.passes == 1
