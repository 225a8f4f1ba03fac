"""Which takeover slices there are, and which writes make them right: events in, requests out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activator.discovery.api_server import ApiResponse, no_response
from activator.objects.fields import ObjectKey
from activator.plain.service import PlainService
from activator.plain.service import parse as parse_service
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.takeover.pods import Pods
from activator.scale.takeover.ports import REST, Ports
from activator.scale.takeover.slices import (
    CONTESTED_PAUSES,
    DOUBT,
    FIRST_RETRY,
    LAST_RETRY,
    MOST_EDITS,
    ActivatorAddress,
    SliceFamily,
    Write,
)
from activator.scale.takeover.takeovers import ORPHAN_STAYS, Takeovers
from tests.activator.plain.objects import endpoint, service, slice_of
from tests.activator.scale.takeover.slice_api import SliceApi, deliver
from tests.rows import in_one_test

A, B, C = (ActivatorAddress(f"10.1.0.{n}", f"node-{n}") for n in (1, 2, 3))
A6 = ActivatorAddress("fd00::1", "node-1")
HELLO = ServiceName("shop", "hello")
KEY = ("shop", "hello-activator")
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"


def parsed(name: str = "hello", uid: str = "s1", labels: Any = None, **spec: Any) -> PlainService:
    obj = service({"route": "takeover"}, **spec)
    obj["metadata"] |= {"name": name, "uid": uid, "labels": labels}
    found = parse_service(obj)
    assert found is not None
    return found


class World:
    """The takeovers of one scaler, and the API server that it writes to."""

    def __init__(
        self,
        api: SliceApi | None = None,
        ports: Ports | None = None,
        pod_nodes: Pods | None = None,
    ) -> None:
        self.api = api or SliceApi()
        self.takeovers = Takeovers(ports, pod_nodes)
        self.now = 100.0
        self.takeovers.set_activators({SliceFamily.IPV4: (A,)})
        for obj in self.api.slices.values():
            self.takeovers.observe(obj, self.now)
        self.api.events.clear()

    def started(self) -> World:
        self.takeovers.start()
        return self

    def put(self, takes_over: bool, **fields: Any) -> World:
        self.takeovers.put(parsed(**fields), self.now, takes_over=takes_over)
        return self

    def due(self) -> Write | None:
        """Return the next write, however many slices must be compared before it."""
        while True:
            write = self.takeovers.due(self.now)
            if write is not None or self.takeovers.next() > self.now:
                return write

    def write(self) -> list[str]:
        """Carry out all writes that are due now, and return their methods."""
        methods = []
        while (write := self.due()) is not None:
            methods.append(write.request.method)
            self.takeovers.done(write, self.api.handle(*write.request), self.now)
        return methods

    def watch(self) -> None:
        """Deliver the events of the watch."""
        while self.api.events:
            event, obj = self.api.events.popleft()
            deliver(self.takeovers, event, obj, self.now)

    def settle(self) -> list[str]:
        methods = self.write()
        self.watch()
        assert self.write() == []
        return methods

    @property
    def slice(self) -> Any:
        return self.api.slices[KEY]

    @property
    def addresses(self) -> list[str]:
        return [each["addresses"][0] for each in self.slice["endpoints"] or ()]

    def in_place_since(self, name: ServiceName = HELLO) -> float | None:
        return self.takeovers.in_place_since(name, self.now)

    def reasons(self, name: ServiceName = HELLO) -> list[ScaleReason]:
        return [finding.reason for finding in self.takeovers.findings(name)]


# -- the life of a slice --------------------------------------------------------------------------


def test_a_service_that_sleeps_gets_a_slice_with_the_activators() -> None:
    world = World().started().put(True)
    assert world.settle() == ["POST"]
    assert world.api.requests == [("POST", SLICES)]
    assert world.addresses == ["10.1.0.1"]
    assert world.slice["metadata"]["annotations"] == {"activator.dev/port": "10000"}
    assert world.in_place_since() == 100
    assert world.takeovers.port_of(HELLO) == 10_000


def test_a_service_that_is_awake_gets_an_empty_slice_with_its_port() -> None:
    world = World().started().put(False)
    assert world.settle() == ["POST"]
    assert (world.addresses, world.in_place_since()) == ([], None)
    assert world.slice["metadata"]["annotations"] == {"activator.dev/port": "10000"}


def test_a_slice_is_filled_and_emptied_by_patches_that_name_the_version() -> None:
    world = World().started().put(False)
    world.settle()
    before = world.slice["metadata"]["resourceVersion"]
    world.put(True)
    write = world.due()
    assert write is not None
    assert write.request.path == f"{SLICES}/hello-activator"
    body = json.loads(write.request.body)
    assert body["metadata"]["resourceVersion"] == before
    assert "addressType" not in body
    world.takeovers.done(write, ApiResponse(500, b""), world.now)
    world.now += FIRST_RETRY
    assert world.settle() == ["PATCH"]
    assert world.addresses == ["10.1.0.1"]
    assert world.put(False).settle() == ["PATCH"]
    assert world.addresses == []


def test_nothing_is_written_before_all_objects_are_listed() -> None:
    world = World().put(True)
    assert world.due() is None
    assert world.takeovers.next() == float("inf")


def test_what_is_right_is_not_written_again() -> None:
    world = World().started().put(True)
    world.settle()
    assert world.put(True).write() == []
    world.takeovers.set_activators({SliceFamily.IPV4: (A,)})
    assert world.write() == []


def test_the_slice_follows_the_activators_while_they_take_over() -> None:
    world = World().started().put(True)
    world.settle()
    world.takeovers.set_activators({SliceFamily.IPV4: (A, B)})
    assert world.settle() == ["PATCH"]
    assert world.addresses == ["10.1.0.1", "10.1.0.2"]
    world.put(False).settle()
    world.takeovers.set_activators({SliceFamily.IPV4: (B,)})
    assert world.write() == []


def test_without_activators_the_slice_stays_and_the_user_learns_it() -> None:
    world = World().started().put(True)
    world.settle()
    world.takeovers.set_activators({})
    assert world.write() == []
    assert world.addresses == ["10.1.0.1"]
    assert world.in_place_since() is None
    assert world.reasons() == [ScaleReason.NO_ACTIVATORS]


def test_a_service_of_two_families_has_two_slices_with_one_port() -> None:
    world = World().started()
    world.put(True, ipFamilies=["IPv4", "IPv6"])
    world.settle()
    # An IPv6 client would meet an empty Service.
    assert world.in_place_since() is None
    assert world.reasons() == [ScaleReason.NO_ACTIVATORS]
    world.now += 5
    world.takeovers.set_activators({SliceFamily.IPV4: (A,), SliceFamily.IPV6: (A6,)})
    assert world.settle() == ["PATCH"]
    assert world.in_place_since() == 105
    second = world.api.slices["shop", "hello-activator-ipv6"]
    assert second["addressType"] == "IPv6"
    assert second["endpoints"][0]["addresses"] == ["fd00::1"]
    assert second["ports"] == world.slice["ports"]
    world.put(True, ipFamilies=["IPv6"])
    assert world.settle() == ["DELETE"]
    assert list(world.api.slices) == [("shop", "hello-activator-ipv6")]


def test_a_slice_follows_its_service() -> None:
    world = World().started().put(True)
    world.settle()
    world.put(
        *(True,), labels={"service.kubernetes.io/service-proxy-name": "cilium"}, uid="s2",
        ports=[{"name": "web", "port": 80}],
    )  # fmt: skip
    assert world.settle() == ["PATCH"]
    assert world.slice["ports"] == [{"name": "web", "port": 10_000, "protocol": "TCP"}]
    assert world.slice["metadata"]["ownerReferences"][0]["uid"] == "s2"
    labels = world.slice["metadata"]["labels"]
    assert labels["service.kubernetes.io/service-proxy-name"] == "cilium"
    assert world.put(True).settle() == ["PATCH"]
    assert "service.kubernetes.io/service-proxy-name" not in world.slice["metadata"]["labels"]


def test_a_service_that_opts_out_loses_its_slice_and_releases_its_port() -> None:
    world = World(ports=Ports(range(10_000, 10_001))).started().put(True)
    world.settle()
    world.put(True, name="other")
    assert world.write() == []
    assert world.reasons(ServiceName("shop", "other")) == [ScaleReason.PORTS_EXHAUSTED]
    world.takeovers.remove(HELLO, world.now)
    assert world.settle() == ["DELETE"]
    # Until proxies have the change, clients of the first Service connect to its port.
    world.now += REST - 0.1
    assert world.write() == []
    assert world.reasons(ServiceName("shop", "other")) == [ScaleReason.PORTS_EXHAUSTED]
    world.now += 0.1
    assert world.settle() == ["POST"]
    assert world.reasons(ServiceName("shop", "other")) == []
    assert list(world.api.slices) == [("shop", "other-activator")]
    assert world.takeovers.findings(HELLO) == ()


def test_a_service_that_opts_out_during_a_write_loses_its_slice_too() -> None:
    world = World().started().put(True)
    write = world.due()
    assert write is not None
    world.takeovers.remove(HELLO, world.now)
    assert world.write() == []
    response = world.api.handle(*write.request)
    world.takeovers.done(write, response, world.now)
    assert world.settle() == ["DELETE"]


def test_a_slice_is_not_in_place_while_a_request_may_still_change_it() -> None:
    world = World().started().put(True)
    world.settle()
    world.put(False)
    write = world.due()
    assert write is not None
    world.put(True)
    assert world.in_place_since() is None
    world.takeovers.done(write, no_response("time-out"), world.now)
    assert world.write() == []  # it is right, as far as known
    world.now += DOUBT - 1
    assert world.in_place_since() is None
    world.now += 1
    assert world.in_place_since() == 100
    # The request was carried out late after all.
    world.api.handle(*write.request)
    world.watch()
    assert world.in_place_since() is None
    assert world.settle() == ["PATCH"]
    assert world.in_place_since() == world.now


# -- restart --------------------------------------------------------------------------------------


def test_a_restart_reads_the_ports_back_from_the_slices() -> None:
    first = World().started()
    for name in ("a", "b", "c"):
        first.put(True, name=name)
        first.settle()
    first.takeovers.remove(ServiceName("shop", "a"), first.now)
    first.settle()
    before = {key: obj["ports"] for key, obj in first.api.slices.items()}
    again = World(first.api)
    for name in ("c", "b"):
        again.put(True, name=name)
    assert again.started().write() == []
    assert {key: obj["ports"] for key, obj in again.api.slices.items()} == before
    assert again.in_place_since(ServiceName("shop", "b")) == 100
    again.put(True, name="d").settle()
    assert again.takeovers.port_of(ServiceName("shop", "d")) not in (10_001, 10_002)


def test_a_restart_deletes_the_slice_of_a_service_that_has_opted_out_meanwhile() -> None:
    api = World().started().put(True)
    api.settle()
    again = World(api.api).started()
    assert again.settle() == []
    again.now += ORPHAN_STAYS
    assert again.settle() == ["DELETE"]
    assert again.api.slices == {}


def test_a_new_leader_deletes_nothing_while_it_decides_about_its_services() -> None:
    first = World().started().put(True)
    first.settle()
    again = World(first.api).started()
    assert again.write() == []
    again.now += ORPHAN_STAYS - 1
    again.put(True)
    again.now += ORPHAN_STAYS
    assert again.settle() == []
    assert again.in_place_since() == 100


def test_a_leader_that_stops_leaves_the_slices_and_may_lead_again() -> None:
    world = World().started().put(True).put(True, name="other")
    world.settle()
    write = None
    for stops in range(3):
        world.takeovers.set_activators({SliceFamily.IPV4: (A, B) if stops % 2 else (A, C)})
        write = world.due()
        assert write is not None
        world.takeovers.stop(world.now)
        assert world.due() is None
        assert world.takeovers.next() == float("inf")
        response = world.api.handle(*write.request)
        world.takeovers.done(write, response, world.now)
        world.watch()
        world.now += 100
        world.started()
        assert world.write() == []
        world.put(True).put(True, name="other")
        assert set(world.settle()) <= {"PATCH"}
        assert len(world.api.slices) == 2


def test_a_scaler_that_leads_again_takes_over_the_ports_of_the_leader_between() -> None:
    first = World().started().put(True).put(True, name="unwritten")
    write = first.due()
    assert write is not None
    first.takeovers.done(write, ApiResponse(403, b"no"), first.now)
    first.takeovers.stop(first.now)
    second = World(first.api).started().put(True, name="other")
    second.settle()
    second.put(True).settle()
    for obj in second.api.slices.values():
        first.takeovers.observe(obj, first.now)
    first.started().put(True).put(True, name="other").put(True, name="unwritten")
    assert first.settle() == ["POST"]
    ports = {name: obj["ports"][0]["port"] for (_, name), obj in first.api.slices.items()}
    assert ports["other-activator"] == 10_000
    assert ports["hello-activator"] == 10_001
    assert ports["unwritten-activator"] == 10_002


def test_a_service_whose_annotations_cannot_be_read_keeps_its_slice() -> None:
    first = World().started().put(True)
    first.settle()
    again = World(first.api)
    again.takeovers.keep(HELLO)
    assert again.started().write() == []
    again.put(False)
    assert again.settle() == ["PATCH"]


def test_a_slice_of_an_unknown_service_stays_until_the_watches_agree() -> None:
    world = World().started()
    other = World().started().put(True)
    other.settle()
    world.api.put(other.slice)
    world.watch()
    assert world.write() == []
    assert world.takeovers.next() == 100 + ORPHAN_STAYS
    world.now += ORPHAN_STAYS
    assert world.settle() == ["DELETE"]


# -- other components -----------------------------------------------------------------------------


def edits() -> list[Any]:
    def metadata(**fields: Any) -> Any:
        return lambda obj: obj["metadata"].update(fields)

    def endpoint(**fields: Any) -> Any:
        return lambda obj: obj["endpoints"][0].update(fields)

    def label(name: str, value: str) -> Any:
        return lambda obj: obj["metadata"]["labels"].update({name: value})

    return [
        metadata(annotations={}),
        metadata(annotations={"activator.dev/port": "70000"}),
        metadata(annotations={"activator.dev/port": "10999"}),
        metadata(ownerReferences=[]),
        label("service.kubernetes.io/headless", ""),
        label("service.kubernetes.io/service-proxy-name", "other"),
        lambda obj: obj["metadata"]["labels"].pop("endpointslice.kubernetes.io/managed-by"),
        lambda obj: obj["metadata"]["labels"].pop("kubernetes.io/service-name"),
        lambda obj: obj.update(endpoints=[]),
        lambda obj: obj["endpoints"].append(obj["endpoints"][0] | {"addresses": ["10.9.9.9"]}),
        lambda obj: obj["endpoints"].append(obj["endpoints"][0]),
        endpoint(conditions={}),
        endpoint(conditions={"ready": True}),
        endpoint(nodeName="other"),
        endpoint(hints={"forZones": [{"name": "a"}]}),
        endpoint(targetRef={"kind": "Pod", "name": "x"}),
        lambda obj: obj.update(ports=None),
        lambda obj: obj["ports"][0].update(port=10_001),
        lambda obj: obj["ports"][0].update(name="other"),
    ]


@pytest.mark.untraced
@in_one_test("edit", edits())
def test_a_slice_that_another_component_has_edited_is_written_again(edit: Any) -> None:
    world = World().started().put(True)
    world.settle()
    right = {**world.slice, "metadata": None}
    metadata = {**world.slice["metadata"], "resourceVersion": None}
    world.api.edit(*KEY, edit)
    world.watch()
    assert world.settle() == ["PATCH"]
    assert {**world.slice, "metadata": None} == right
    assert {**world.slice["metadata"], "resourceVersion": None} == metadata


def test_a_deleted_slice_is_written_again_with_its_port() -> None:
    world = World().started().put(True)
    world.settle()
    world.now += 5
    world.api.delete(*KEY)
    world.watch()
    assert world.in_place_since() is None
    assert world.settle() == ["POST"]
    assert world.slice["metadata"]["annotations"] == {"activator.dev/port": "10000"}
    assert world.in_place_since() == 105


def test_an_event_of_an_older_version_changes_nothing() -> None:
    world = World().started().put(True)
    world.write()
    world.put(False).write()
    assert [event for event, _ in world.api.events] == ["ADDED", "MODIFIED"]
    _, older = world.api.events.popleft()
    world.takeovers.observe(older, world.now)
    assert world.write() == []


def test_a_conflict_waits_for_the_watch() -> None:
    world = World().started().put(True)
    world.settle()
    world.api.edit(*KEY, lambda obj: obj["metadata"]["labels"].update(team="a"))
    world.put(False)
    assert world.write() == ["PATCH"]
    assert world.addresses == ["10.1.0.1"]
    world.watch()
    assert world.settle() == ["PATCH"]
    assert world.addresses == []
    assert world.slice["metadata"]["labels"]["team"] == "a"
    assert world.reasons() == []


def test_a_slice_of_another_component_is_left_alone() -> None:
    world = World().started()
    world.api.put({"metadata": {"namespace": "shop", "name": KEY[1]}, "addressType": "IPv4"})
    foreign = world.slice
    world.put(True)
    assert world.write() == ["POST"]  # 409: the watch has not brought it yet
    world.watch()
    assert world.write() == []
    assert world.slice == foreign
    assert world.reasons() == [ScaleReason.SLICE_NAME_TAKEN]
    world.api.delete(*KEY)
    world.watch()
    assert world.settle() == ["POST"]
    assert world.reasons() == []


def test_a_slice_that_another_component_keeps_changing_is_written_at_intervals() -> None:
    world = World().started().put(True)
    world.settle()
    written = [["PATCH"]]
    for _ in range(MOST_EDITS):
        assert world.reasons() == []
        world.api.edit(*KEY, lambda obj: obj.update(endpoints=[]))
        world.watch()
        written.append(world.write())
        world.watch()
    assert written == [["PATCH"]] * MOST_EDITS + [[]]
    assert world.reasons() == [ScaleReason.SLICE_CONTESTED]
    world.now += CONTESTED_PAUSES[-1][1]
    assert world.settle() == ["PATCH"]
    world.now += 60
    assert world.put(False).settle() == ["PATCH"]
    assert world.reasons() == []
    world.put(True).settle()
    world.api.edit(*KEY, lambda obj: obj.update(endpoints=[]))
    world.watch()
    assert world.settle() == ["PATCH"]
    assert world.reasons() == []


def test_a_slice_that_is_deleted_again_and_again_is_back_within_a_second_at_first() -> None:
    world = World().started().put(True)
    world.settle()
    absent = []
    end = world.now + 60
    while world.now < end:
        world.api.delete(*KEY)
        world.watch()
        deleted = world.now
        while not world.settle():
            world.now += 0.1
        absent.append(world.now - deleted)
        world.now += 0.5
    assert max(absent[:9]) < 1
    assert len(absent) < 20, "a contest that lasts must cost little"


def test_the_writes_of_the_last_leader_are_no_contest() -> None:
    leader = World().started()
    leader.put(True).write()
    follower = World(leader.api)
    for takes_over in [False, True] * 10:
        leader.put(takes_over).write()
        while leader.api.events:
            follower.takeovers.observe(leader.api.events.popleft()[1], follower.now)
    follower.started().put(True)
    assert follower.reasons() == []
    assert follower.put(False).settle() == ["PATCH"], "written at once"


def test_a_write_that_something_between_changes_is_not_repeated_at_once() -> None:
    world = World().started().put(True)
    put = world.api.put
    world.api.put = lambda obj: put({**obj, "ports": []})  # type: ignore[method-assign] # a webhook
    assert world.write() == ["POST"]
    world.watch()
    assert world.write() == []
    assert world.takeovers.next() == world.now + FIRST_RETRY


@pytest.mark.parametrize(
    "obj", [None, 5, {}, {"metadata": 5}, {"metadata": {"name": 5}}, {"metadata": {"labels": []}}]
)
def test_a_broken_object_changes_nothing(obj: Any) -> None:
    world = World().started().put(True)
    world.settle()
    assert world.takeovers.observe(obj, 1) is None
    broken = {**world.slice, "endpoints": 5}
    broken["metadata"] = {**broken["metadata"], "resourceVersion": "999"}
    assert world.takeovers.observe(broken, 1) is None
    assert world.write() == []


# -- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "reason", "note"),
    [
        (
            403,
            "no",
            ScaleReason.SLICE_FORBIDDEN,
            'resources: ["endpointslices"], verbs: ["create", "pa',
        ),
        (
            *(403, "endpoint address 10.1.0.1 is not allowed", ScaleReason.SLICE_FORBIDDEN),
            'resources: ["endpointslices/restricted"], verbs: ["create"]',
        ),
        (422, "endpoints: Too many", ScaleReason.SLICE_REFUSED, "422: endpoints: Too many"),
        (500, "etcd", None, ""),
        (429, "slow", None, ""),
        (0, "connection refused", None, ""),
    ],
)
def test_a_failed_write_is_repeated_with_pauses_and_says_what_to_do(
    status: int, message: str, reason: ScaleReason | None, note: str
) -> None:
    world = World().started().put(True)
    pauses = []
    for _ in range(10):
        write = world.due()
        assert write is not None
        world.takeovers.done(write, ApiResponse(status, message.encode()), world.now)
        [*found] = world.takeovers.findings(HELLO)
        assert [finding.reason for finding in found] == ([reason] if reason else [])
        assert all(note in finding.note for finding in found)
        assert world.due() is None
        pauses.append(world.takeovers.next() - world.now)
        world.now = world.takeovers.next()
    assert pauses[:3] == [0.5, 1, 2]
    assert pauses[-1] == LAST_RETRY
    assert world.settle() == ["POST"]
    assert world.reasons() == []


def test_of_two_slices_with_one_port_the_older_wins_and_the_other_moves() -> None:
    first = World().started().put(True)
    first.settle()
    copy = {**first.slice, "metadata": {**first.slice["metadata"], "name": "other-activator"}}
    copy["metadata"]["labels"] = copy["metadata"]["labels"] | {"kubernetes.io/service-name": "oth"}
    copy["metadata"]["creationTimestamp"] = "2026-06-01T00:00:00Z"
    for youngest_first in (False, True):
        api = SliceApi()
        for obj in (copy, first.slice) if youngest_first else (first.slice, copy):
            api.put(obj)
        world = World(api)
        world.takeovers.stop(world.now)
        world.put(True).put(True, name="other")
        assert world.started().settle() == ["PATCH"]
        assert world.takeovers.port_of(HELLO) == 10_000
        assert world.takeovers.port_of(ServiceName("shop", "other")) == 10_001
        assert world.reasons() == []
        [finding] = world.takeovers.findings(ServiceName("shop", "other"))
        assert finding.reason is ScaleReason.PORT_CONFLICT
        assert "Service shop/hello has port 10000" in finding.note


def test_with_policy_local_each_node_of_a_pod_needs_an_activator() -> None:
    nodes = Pods()
    world = World(pod_nodes=nodes).started().put(True, externalTrafficPolicy="Local")
    world.settle()
    assert world.in_place_since() == 100
    key = ObjectKey("EndpointSlice", "shop", "hello-x1")
    pods = [
        {**endpoint("10.0.0.1"), "nodeName": "node-1"},
        {**endpoint("10.0.0.2"), "nodeName": "n2"},
    ]
    nodes.put(key, slice_of(*pods))
    assert world.in_place_since() is None
    [finding] = world.takeovers.findings(HELLO)
    assert finding.reason is ScaleReason.NODE_WITHOUT_ACTIVATOR
    assert "externalTrafficPolicy is Local, and no activator runs on n2, where" in finding.note
    world.put(True)
    assert world.in_place_since() == 100
    world.put(True, internalTrafficPolicy="Local")
    world.takeovers.set_activators({SliceFamily.IPV4: (A, ActivatorAddress("10.1.0.9", "n2"))})
    assert world.settle() == ["PATCH"]
    assert world.in_place_since() == 100
    world.takeovers.set_activators({SliceFamily.IPV4: (A,)})
    assert world.in_place_since() is None
    nodes.remove(key)
    assert world.in_place_since() == 100


@pytest.mark.untraced
def test_many_slices_do_not_take_one_long_call() -> None:
    first = World().started()
    for n in range(200):
        first.put(True, name=f"s{n}")
    assert first.settle() == ["POST"] * 200
    again = World(first.api)
    for n in range(200):
        again.put(True, name=f"s{n}")
    again.started()
    calls = 0
    while again.takeovers.next() <= again.now:
        assert again.takeovers.due(again.now) is None
        calls += 1
    assert calls > 5
