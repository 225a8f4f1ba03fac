"""Objects of plain Services in every order, through inventory, driver and throttler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.autoscaler.concurrency import ConcurrencyReporter
from activator.discovery.dialect import Scope
from activator.discovery.inventory import DIALECTS, Inventory
from activator.discovery.rejections import Effect, Rejection
from activator.discovery.service_kinds import ServicesDialect
from activator.driver import Driver
from activator.knative.system_objects import SystemObjects
from activator.objects.fields import ObjectKey
from activator.plain.route_table import RouteTable
from activator.records.entries import Entries
from tests.activator.discovery.recording import RecordingSink, private, replace, revision
from tests.activator.objects.test_fields import json_values
from tests.activator.plain.objects import (
    container,
    deployment,
    endpoint,
    named,
    service,
    slice_of,
    takeover_slice,
)
from tests.rows import in_one_test
from throttler.errors import RevisionNotFound
from throttler.model import ProbeKind, ReadinessRule, RevisionKind
from throttler.pod import PodTracker
from throttler.reason import Reason
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import Ticket

NO_SYSTEM_OBJECTS = SystemObjects({}, {}, lambda pems: None)
HTTP = {"httpGet": {"port": 8080, "path": "/up"}}


class World:
    """An activator without sockets, which reads both dialects."""

    def __init__(self, *dialects: str) -> None:
        throttler = Throttler(Limits(), random=lambda: 0.0)
        load_for = ConcurrencyReporter(lambda _: None).load
        entries = Entries(throttler, load_for, table=RouteTable())
        self.driver = Driver(throttler, entries, clock=lambda: 0.0)
        self.driver.prober = self.driver.pools = self
        self.rejections: list[Rejection] = []
        self.inventory = Inventory(
            *(self.driver, NO_SYSTEM_OBJECTS, self.rejections.append),
            scope=Scope(services=True),
            dialects=[DIALECTS[name] for name in dialects or DIALECTS],
        )
        self.inventory.settled()

    def request_began(self, now: float) -> None: ...
    def request_ended(self, now: float) -> None: ...
    def probe(self, pod: PodTracker) -> None: ...
    def hurry(self, revision: RevisionThrottler) -> None: ...
    def follow(self, pods: Iterable[PodTracker]) -> None:
        """See activator.driver.Pools."""

    def forget(self, pod: PodTracker) -> None: ...

    def apply(self, *objects: Any) -> None:
        for obj in objects:
            self.inventory.apply(obj)

    def delete(self, obj: Any) -> None:
        metadata = obj["metadata"]
        self.inventory.remove(obj["kind"], metadata["namespace"], metadata["name"])

    def throttler(self) -> RevisionThrottler:
        return self.driver.throttler.find("shop", "hello", RevisionKind.SERVICE)

    def pods(self) -> list[str]:
        return sorted(pod.address for pod in self.throttler().backends.pods.values())

    def host(self, host: bytes) -> str:
        return str(self.driver.entries.find_host(host).throttler.revision.id)

    def all(self) -> Any:
        """Return all that a request may find, whatever the order of the events was."""
        return {
            each.revision.id: (
                each.revision,
                sorted((pod.address, pod.state) for pod in each.backends.pods.values()),
            )
            for each in self.driver.throttler
        }, sorted(each for each in self.inventory.warnings if each.reason != "invalid")


@pytest.fixture
def world() -> World:
    return World()


class Owner:
    def ticket_assigned(self) -> None: ...
    def ticket_expired(self, reason: Reason, detail: str) -> None: ...


def waiting(world: World) -> Ticket:
    ticket = Ticket(Owner(), deadline=300.0)
    assert world.throttler().admit(ticket, 0.0) is None
    return ticket


def pass_probes(world: World) -> None:
    for pod in list(world.throttler().backends.pods.values()):
        world.driver.probe_passed(pod, pod.epoch)


# -- orders -------------------------------------------------------------------------------------

OBJECTS = (
    service({"hosts": "a.com", "container_concurrency": "1"}),
    slice_of(endpoint()),
    deployment(container(readinessProbe=HTTP)),
    takeover_slice(),
)


@in_one_test("order", list(permutations(range(4))))
def test_everything_is_known_whatever_comes_first(order: tuple[int, ...]) -> None:
    world = World()
    world.apply(*(OBJECTS[index] for index in order))
    assert world.pods() == ["10.0.0.1:8080"]
    found = world.throttler().revision
    assert (found.container_concurrency, found.probe.path) == (1, b"/up")
    assert world.host(b"a.com") == world.host(b"hello.shop.svc") == "shop/hello"
    assert world.rejections == list(world.inventory.warnings) == []


def states(chance: Random) -> Iterator[Any]:
    """Yield random states of objects of three Services that share hosts, ports and workloads."""
    for name in ("hello", "b", "c"):
        annotations = {"hosts": chance.choice(("", "a.com", "a.com,*.b.com"))}
        annotations["enabled"] = chance.choice(("true", "true", "true", "false", "maybe"))
        annotations["target"] = chance.choice(("", "", "deployment/b", "statefulset/x"))
        annotations["timeout_seconds"] = chance.choice(("300", "10", "soon"))
        selector = {"app": chance.choice(("hello", "b"))}
        created = f"202{chance.randrange(3)}-01-01T00:00:00Z"
        obj = service(annotations, selector=selector)
        yield named(obj, name, creationTimestamp=created, uid=chance.choice("12"))
        pods = [
            endpoint(f"10.0.{'hbc'.find(name[0])}.{n}", ready=chance.random() < 0.5)
            for n in range(3)
        ]
        yield slice_of(*pods[: chance.randrange(4)], of=name, name=f"{name}-1")
        yield slice_of(*pods[chance.randrange(4) :], of=name, name=f"{name}-2")
        port = chance.choice(("10000", "10001", "none"))
        yield takeover_slice(*chance.choice(((), ("10.9.0.1",))), of=name, port=port)
        workload = deployment(container(readinessProbe=chance.choice((None, HTTP, {"exec": {}}))))
        workload["spec"]["template"]["metadata"] = {"labels": selector}
        yield named(workload, name)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.untraced  # long when traced
def test_random_events_end_as_a_fresh_start_with_the_last_good_states(seed: int) -> None:
    chance = Random(seed)
    world = World("services")
    objects: dict[ObjectKey, Any] = {}
    for _ in range(60):
        obj = chance.choice(list(states(chance)))
        key = ObjectKey(obj["kind"], "shop", obj["metadata"]["name"])
        if chance.random() < 0.2:
            world.delete(obj)
            objects.pop(key, None)
            continue
        before = len(world.rejections)
        if chance.random() < 0.3:
            rest = [each for each in objects if each.kind == key.kind]
            listed = {each: objects[each] for each in rest if each != key} | {key: obj}
            replace(world.inventory, key.kind, listed.values())
        else:
            world.apply(obj)
        problem = world.inventory.problem(key)
        if not problem or (problem.endswith(Effect.DEFAULTS) and "/enabled" not in problem):
            objects[key] = obj
        new = [each.name for each in world.rejections[before:]]
        assert len(new) == len(set(new))
    for key in list(world.inventory.rejected):  # a broken object of a deleted one
        if key not in objects:
            world.inventory.remove(*key)
    fresh = World("services")
    fresh.apply(*chance.sample(list(objects.values()), len(objects)))
    assert world.all() == fresh.all()
    for host in (b"a.com", b"x.b.com", b"hello.shop", b"b.shop.svc.cluster.local"):
        assert found(world, host) == found(fresh, host)


def found(world: World, host: bytes) -> str:
    try:
        return world.host(host)
    except RevisionNotFound:
        return ""


# -- while requests wait ------------------------------------------------------------------------


async def test_a_request_waits_through_a_service_that_is_deleted_and_made_again(
    world: World,
) -> None:
    world.apply(service(), slice_of())
    ticket = waiting(world)
    world.delete(service())
    with pytest.raises(RevisionNotFound):
        world.throttler()
    world.apply(named(service(), "hello", uid="s2"), slice_of(endpoint()))
    pass_probes(world)
    assert ticket.pod is not None
    assert ticket.pod.address == "10.0.0.1:8080"
    world.driver.close()


async def test_a_request_waits_through_a_changed_selector_and_gets_the_other_pods(
    world: World,
) -> None:
    world.apply(service(), slice_of(endpoint("10.0.0.1", ready=False)))
    ticket = waiting(world)
    world.apply(service(selector={"app": "other"}), slice_of(endpoint("10.0.0.2")))
    pass_probes(world)
    assert ticket.pod is not None
    assert ticket.pod.address == "10.0.0.2:8080"
    world.driver.close()


async def test_a_replaced_workload_changes_the_probe_while_a_request_waits(world: World) -> None:
    world.apply(service(), deployment(), slice_of(endpoint(ready=False)))
    ticket = waiting(world)
    world.apply(deployment(container(readinessProbe={"exec": {}})))
    pass_probes(world)
    assert ticket.pod is None  # Kubernetes must list the pod as ready, too
    assert world.throttler().revision.readiness is ReadinessRule.EXEC_READINESS_PROBE
    world.apply(slice_of(endpoint()))
    assert ticket.pod is not None
    world.driver.close()


async def test_a_changed_annotation_applies_while_requests_wait(world: World) -> None:
    world.apply(service({"container_concurrency": "1"}), slice_of(endpoint()))
    first = Ticket(Owner(), deadline=300.0)
    second = Ticket(Owner(), deadline=300.0)
    assert world.throttler().admit(first, 0.0) is world.throttler().admit(second, 0.0) is None
    pass_probes(world)
    assert (first.pod is None) != (second.pod is None)
    world.apply(service({"container_concurrency": "2"}))
    assert first.pod is second.pod is not None
    world.driver.close()


# -- broken objects -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        (service({"container_concurrency": "-1"}), "[activator.dev/container-concurrency]: exp"),
        (service({"enabled": "yes"}), "[activator.dev/enabled]: expected one of true, false, got"),
        (service({"probe": "exec"}), "[activator.dev/probe]: expected http:/PATH, tcp, grpc, "),
        (service({"port": "web"}), "[activator.dev/port]: expected a TCP port of the Service,"),
        (service(ports="http"), "spec.ports: expected a list, got 'http'"),
        (slice_of(endpoint("nowhere")), "endpoints[0].addresses[0]: expected an IP address, got"),
        (deployment({"ports": 5}), "spec.template.spec.containers[0].ports: expected a list, got"),
    ],
)
def test_a_broken_object_keeps_its_last_good_state_and_stops_no_other(
    world: World, obj: Any, where: str
) -> None:
    other = named(service(), "other")
    world.apply(service({"container_concurrency": "3"}), *OBJECTS[1:])
    before = world.all()
    world.apply(obj, obj)
    replace(world.inventory, obj["kind"], [obj, *([other] if obj["kind"] == "Service" else [])])
    [rejection] = world.rejections
    assert rejection.effect is Effect.KEPT
    assert where in rejection.reason
    assert world.throttler().revision == before[0][world.throttler().revision.id][0]
    assert world.pods() == ["10.0.0.1:8080"]
    if obj["kind"] == "Service":
        world.driver.throttler.find("shop", "other", RevisionKind.SERVICE)


#: Annotations with a value that is wrong, or one that only a later version knows.
WRONG_POLICIES = {
    "while_waiting": "banner",
    "load_balancing": "next-version",
    "route": "next-version",
    "owner": "Keda",
    "readiness_policy": "maybe",
    "timeout_seconds": "soon",
    "min_scale": "3",
    "max_scale": "2",
}


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_wrong_policy_of_the_first_state_has_its_default(world: World, is_listed: bool) -> None:
    """A fresh start, as after an upgrade or a roll-back, serves the Service, and says why not all.

    A right state replaces it, and is kept from then on.
    """
    wrong = service({**WRONG_POLICIES, "hosts": "a.com", "container_concurrency": "3"})
    world.apply(*OBJECTS[1:])
    if is_listed:
        replace(world.inventory, "Service", [wrong])
    else:
        world.apply(wrong)
    found = world.throttler().revision
    assert (found.container_concurrency, found.timeout) == (3, 300.0)
    assert (world.host(b"a.com"), world.pods()) == ("shop/hello", ["10.0.0.1:8080"])
    [rejection] = world.rejections
    assert rejection.effect is Effect.DEFAULTS
    [text] = [each.text for each in world.inventory.warnings if each.reason == "invalid"]
    assert text.endswith("; it has no last good state, so each wrong annotation has a safe default")
    for name in WRONG_POLICIES.keys() - {"min_scale"}:
        assert f"[activator.dev/{name.replace('_', '-')}]: expected" in text, name
    world.apply(service({"container_concurrency": "4", "while_waiting": "banner"}))
    assert world.throttler().revision.container_concurrency == 4
    world.apply(service({"container_concurrency": "5"}))
    assert world.inventory.rejected == {}
    world.apply(service({"container_concurrency": "6", "while_waiting": "banner"}))
    assert world.throttler().revision.container_concurrency == 5
    assert world.rejections[-1].effect is Effect.KEPT


@pytest.mark.parametrize(
    "pair",
    [
        {"load_balancing": "hash"},
        {"load_balancing": "hash", "hash_key": "path", "sticky": "cookie"},
        {"load_balancing": "hash", "hash_key": "nothing"},
    ],
)
def test_annotations_that_exclude_each_other_take_no_service_off_the_air(
    world: World, pair: dict[str, str]
) -> None:
    world.apply(service(pair))
    policies = world.throttler().revision.policies
    assert (policies.load_balancing, policies.sticky is None) == ("", "sticky" not in pair)
    [rejection] = world.rejections
    assert rejection.reason.count("expected") == 1


@pytest.mark.parametrize("name", ["enabled", "port", "target"])
def test_a_wrong_workload_or_port_is_not_guessed(world: World, name: str) -> None:
    world.apply(service({name: "No!", "while_waiting": "banner"}))
    with pytest.raises(RevisionNotFound):
        world.throttler()
    assert [each.effect for each in world.rejections] == [Effect.UNUSED]


def test_a_service_that_opts_in_with_a_wrong_policy_is_in_use(world: World) -> None:
    world.apply(service({"enabled": "false"}), service({"while_waiting": "banner"}))
    assert world.throttler().revision.policies.requests is None


def test_an_object_that_is_broken_for_one_dialect_counts_for_the_other(world: World) -> None:
    """Knative's dialect reads no annotations of a Service."""
    world.apply(revision("a"), private("10.0.0.7"))
    address = {"name": "a-private", "namespace": "default"}
    broken = service({"port": "wrong"}, ports=[{"name": "http", "port": 80}])
    broken["metadata"] |= address
    world.apply(broken)
    found = world.driver.throttler.find("default", "a")
    assert found.backends.service.address == "10.96.0.7:80"
    assert [rejection.name for rejection in world.rejections] == ["a-private"]
    assert world.rejections[0].effect is Effect.UNUSED


def test_a_fault_that_both_dialects_find_is_reported_once(world: World) -> None:
    obj = slice_of(endpoint())
    obj["metadata"]["labels"] = "none"
    world.apply(obj)
    assert len(world.rejections) == 1
    replace(world.inventory, "EndpointSlice", [{"metadata": {"name": 5}}])
    assert len(world.rejections) == 2


@given(json_values, st.sampled_from(list(ServicesDialect.kinds)))
def test_no_value_of_a_field_stops_the_dialect(value: Any, kind: str) -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, lambda rejection: None, dialects=[ServicesDialect])
    for obj in OBJECTS:
        if obj["kind"] == kind:
            for field in obj:
                inventory.apply(obj | {field: value, "kind": kind})
            for field in obj.get("spec", {}):
                inventory.apply(obj | {"spec": obj["spec"] | {field: value}})
    inventory.apply(service())


@pytest.mark.parametrize(
    ("folder", "change", "warnings"),
    [
        (True, {}, 1),
        (False, {}, 0),  # as most Services of a cluster
        (True, {"annotations": {"activator.dev/enabled": "false"}}, 0),
        (True, {"labels": {"networking.internal.knative.dev/serviceType": "Public"}}, 0),
    ],
)
def test_a_service_of_a_folder_that_does_not_opt_in_has_a_hint(
    folder: bool, change: Any, warnings: int
) -> None:
    sink = RecordingSink()
    scope = Scope(services=True, folder=folder)
    inventory = Inventory(sink, sink, scope=scope, dialects=DIALECTS.values())
    inventory.apply(named(service(), "hello", **({"annotations": {}} | change)))
    found = [each.text for each in inventory.warnings]
    assert (
        found == ['not used, since it has no annotation activator.dev/enabled: "true"'] * warnings
    )


# -- cost ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [True, False])
def test_a_misspelt_opt_in_is_named(folder: bool) -> None:
    """In a cluster, too: most Services there do not opt in, but this one is meant to."""
    scope = Scope(folder=folder)
    for names, hint in (({"enable": "true"}, ", only activator.dev/enable"), ({"hosts": "a"}, "")):
        obj = service({name.replace("_", "-"): value for name, value in names.items()})
        del obj["metadata"]["annotations"]["activator.dev/enabled"]
        warning = ServicesDialect.kinds["Service"].warning(obj, None, scope)
        wanted = f'not used, since it has no annotation activator.dev/enabled: "true"{hint}'
        assert warning == (wanted if folder or hint else "")


def test_a_warning_about_a_service_is_about_that_one_alone() -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, scope=Scope(folder=True), dialects=DIALECTS.values())
    inventory.apply(named(service(), "hello", annotations={}))
    assert [each.revision for each in inventory.warnings] == ["hello"]


def test_a_broken_slice_is_a_problem_of_the_service_that_its_label_names() -> None:
    world = World("services")
    broken, other = slice_of(of="hello"), slice_of(of="other", name="odd")
    broken["endpoints"] = other["endpoints"] = {}
    world.apply(broken, other)
    found = {each.name: each.revision for each in world.inventory.warnings}
    assert found == {broken["metadata"]["name"]: "hello", "odd": "other"}
    wrong: list[Any] = [[], {"kubernetes.io/service-name": 5}]
    for labels in wrong:
        other["metadata"]["labels"] = labels
        world.apply(other)
        assert [each.revision for each in world.inventory.warnings] == ["hello", ""]


def test_an_event_of_one_service_concerns_that_one_among_many() -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, dialects=[ServicesDialect])
    labels = {"app.kubernetes.io/part-of": "shop"}
    for number in range(200):
        name = f"s{number}"
        selector = labels | {"app": name}
        workload = named(deployment(), name)
        workload["spec"]["template"]["metadata"] = {"labels": selector}
        for obj in (service(selector=selector), slice_of(endpoint(f"10.0.0.{number}"), of=name)):
            inventory.apply(named(obj, name))
        inventory.apply(workload)
    sink.calls.clear()
    changed = deployment(container(readinessProbe=HTTP))
    changed["spec"]["template"]["metadata"] = {"labels": labels | {"app": "s7"}}
    for obj in (slice_of(of="s7"), service(), changed):
        inventory.apply(named(obj, "s7"))
    assert {call[1].name for call in sink.calls} == {"s7"}
    assert {each.probe.kind for each in sink.revisions.values()} == {ProbeKind.TCP}
