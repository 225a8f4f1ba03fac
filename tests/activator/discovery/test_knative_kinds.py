"""Knative's objects beside plain Services; test_inventory.py has Knative's alone."""

from __future__ import annotations

import logging
from itertools import permutations
from typing import Any

import pytest

from activator.discovery.dialect import Scope
from activator.discovery.endpoints import EndpointsSource, IpFamily
from activator.discovery.inventory import DIALECTS, Inventory
from activator.discovery.knative_kinds import ANNOTATIONS
from activator.knative import revisions
from activator.knative.words import private_service
from activator.objects import policies
from activator.records.source_status import ObjectWarning
from tests.activator.discovery.recording import (
    A,
    B,
    RecordingSink,
    private,
    public,
    replace,
    revision,
    service,
    slice_of,
    truncated,
)
from tests.activator.plain import objects as plain
from throttler.model import AppProtocol, RevisionKind


@pytest.mark.parametrize(("services", "warnings"), [(False, 1), (True, 0)])
def test_a_slice_of_a_plain_service_is_a_mistake_only_where_knative_is_alone(
    services: bool, warnings: int
) -> None:
    sink = RecordingSink()
    names = ["knative", "services"] if services else ["knative"]
    scope = Scope(services=services)
    inventory = Inventory(sink, sink, scope=scope, dialects=[DIALECTS[name] for name in names])
    inventory.apply(plain.slice_of(plain.endpoint()))
    assert len(list(inventory.warnings)) == warnings


def test_a_slice_without_any_service_is_a_mistake_beside_plain_services_too() -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, scope=Scope(services=True), dialects=DIALECTS.values())
    lost = slice_of("10.0.0.1")
    lost["metadata"]["labels"] = {}
    inventory.apply(lost)
    assert [each.name for each in inventory.warnings] == ["a-private-x7f2q"]


def test_a_revision_and_a_service_may_have_one_name() -> None:
    sink = RecordingSink()
    inventory = Inventory(sink, sink, scope=Scope(services=True), dialects=DIALECTS.values())
    service = plain.service()
    service["metadata"] |= {"namespace": "default", "name": "a"}
    for obj in (revision(), service):
        inventory.apply(obj)
    assert [(*each[:2],) for each in sink.revisions] == [("default", "a")] * 2
    inventory.remove("Revision", "default", "a")
    assert A not in sink.revisions
    assert len(sink.revisions) == 1


HTTP1, H2C = AppProtocol.HTTP1, AppProtocol.H2C


def in_zones(obj: dict[str, Any], *zones: str | None) -> dict[str, Any]:
    """Return a slice with a zone for each endpoint, written as Kubernetes writes it."""
    for each, zone in zip(obj["endpoints"], zones, strict=True):
        each |= {"zone": zone, "targetRef": {"uid": ""}}
    return obj


def addresses(sink: RecordingSink) -> list[str]:
    return sorted(sink.activators[A][HTTP1])


class TestSlices:
    def test_whole_endpoints_are_enough(self, inventory: Inventory, sink: RecordingSink) -> None:
        inventory.apply(private("10.0.0.1"))
        inventory.apply(slice_of("10.0.0.9"))
        assert sink.calls == [("set_endpoints", A, ["10.0.0.1:8012"])]

    @pytest.mark.parametrize("order", list(permutations(range(3))))
    def test_all_slices_count_where_endpoints_are_cut_off(
        self, order: tuple[int, ...], inventory: Inventory, sink: RecordingSink
    ) -> None:
        objects = [
            truncated(private("10.0.0.1")),
            slice_of("10.0.0.1", "10.0.0.2", name="x"),
            slice_of("10.0.0.3", name="y"),
        ]
        for index in order:
            inventory.apply(objects[index])
        assert sink.ready() == [f"10.0.0.{n}:8012" for n in (1, 2, 3)]

    def test_endpoints_that_are_whole_again_count_again(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        inventory.apply(truncated(private("10.0.0.1")))
        inventory.apply(slice_of("10.0.0.1", "10.0.0.2"))
        inventory.apply(private("10.0.0.1"))
        assert sink.ready() == ["10.0.0.1:8012"]

    def test_slices_count_where_there_are_no_endpoints(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        inventory.apply(slice_of("10.0.0.1"))
        inventory.apply(slice_of("10.1.0.1", name="p", service_type="Public"))
        assert sink.ready() == ["10.0.0.1:8012"]
        assert addresses(sink) == ["10.1.0.1"]
        inventory.remove("EndpointSlice", "default", "a-private-x7f2q")
        inventory.remove("EndpointSlice", "default", "p")
        assert sink.ready() == []
        assert addresses(sink) == []

    def test_a_deleted_slice_takes_its_pods_alone(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        replace(inventory, "EndpointSlice", [slice_of("10.0.0.1", name="x"), slice_of("10.0.0.2")])
        inventory.remove("EndpointSlice", "default", "x")
        assert sink.ready() == ["10.0.0.2:8012"]

    def test_a_pod_that_moves_to_another_slice_in_one_list_is_never_away(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        inventory.apply(slice_of("10.0.0.1", name="x"))
        replace(inventory, "EndpointSlice", [slice_of("10.0.0.1", name="y")])
        assert sink.calls == [("set_endpoints", A, ["10.0.0.1:8012"])]

    @pytest.mark.parametrize(
        ("source", "pods", "activators"),
        [
            (EndpointsSource.ENDPOINTS, ["10.0.0.1:8012"], ["10.1.0.1"]),
            (EndpointsSource.SLICES, ["10.0.0.2:8012"], ["10.1.0.2"]),
        ],
    )
    def test_one_kind_can_be_left_out(
        self,
        source: EndpointsSource,
        pods: list[str],
        activators: list[str],
        sink: RecordingSink,
    ) -> None:
        inventory = Inventory(sink, sink, scope=Scope(endpoints=source))
        inventory.apply(truncated(private("10.0.0.1")))
        inventory.apply(slice_of("10.0.0.2"))
        inventory.apply(public("10.1.0.1"))
        inventory.apply(slice_of("10.1.0.2", name="p", service_type="Public"))
        assert sink.ready() == pods
        assert addresses(sink) == activators

    def test_slices_beside_endpoints_tell_the_zones(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        inventory.apply(private("10.0.0.1", "10.0.0.2"))
        inventory.apply(in_zones(slice_of("10.0.0.1", "10.0.0.2"), "eu-1a", None))
        assert sink.ready() == ["10.0.0.1:8012", "10.0.0.2:8012"]
        assert sink.endpoints[A][HTTP1].zones == {"10.0.0.1:8012": "eu-1a"}
        inventory.remove("Endpoints", "default", "a-private")
        assert sink.ready() == ["10.0.0.1:8012", "10.0.0.2:8012"]
        assert sink.endpoints[A][HTTP1].zones == {"10.0.0.1:8012": "eu-1a"}
        inventory.apply(in_zones(slice_of("10.0.0.3", name="x"), "eu-1b"))
        assert sink.endpoints[A][HTTP1].zones == {
            "10.0.0.1:8012": "eu-1a",
            "10.0.0.3:8012": "eu-1b",
        }
        inventory.apply(slice_of("10.0.0.3", name="x"))
        assert sink.endpoints[A][HTTP1].zones == {"10.0.0.1:8012": "eu-1a"}

    def test_the_own_family_is_used_of_two(self, sink: RecordingSink) -> None:
        inventory = Inventory(sink, sink, scope=Scope(family=IpFamily.IPV6))
        inventory.apply(slice_of("10.0.0.1", name="x"))
        inventory.apply(slice_of("fd00::1", name="y", addressType="IPv6"))
        assert sink.ready() == ["[fd00::1]:8012"]

    def test_pods_out_of_reach_are_logged_once_and_so_is_their_return(
        self, inventory: Inventory, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        for ip in ("10.0.0.1", "10.0.0.2"):
            inventory.apply(truncated(private(ip)))
        inventory.apply(slice_of("10.0.0.1"))
        inventory.apply(slice_of("10.0.0.1", "10.0.0.2"))
        told = [(record.levelname, record.getMessage()) for record in caplog.records]
        assert [level for level, _ in told] == ["WARNING", "INFO"]
        assert "this activator sends no traffic to the other pods" in told[0][1]
        assert "EndpointSlices are read instead" in told[1][1]
        inventory.remove("EndpointSlice", "default", "a-private-x7f2q")
        assert caplog.text.count("this activator sends no traffic to the other pods") == 2

    def test_endpoints_that_are_whole_are_nothing_to_tell_of(
        self, inventory: Inventory, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        inventory.apply(private("10.0.0.1"))
        inventory.apply(slice_of("10.0.0.1"))
        assert caplog.text == ""
        for _ in range(2):
            inventory.apply(truncated(private("10.0.0.1", of="b")))
            inventory.apply(private("10.0.0.1", of="b"))
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


class TestServices:
    @pytest.mark.parametrize("order", list(permutations(range(2))))
    def test_a_service_is_joined_with_its_revision_in_any_order(
        self, order: tuple[int, ...], inventory: Inventory, sink: RecordingSink
    ) -> None:
        objects = [revision(), service()]
        for index in order:
            inventory.apply(objects[index])
        assert sink.services == {A: {HTTP1: "10.96.0.1:80", H2C: "10.96.0.1:81"}}

    def test_a_long_name_is_found_by_its_digest(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        name = "r" * 63
        inventory.apply(service(private_service(name)))
        inventory.apply(revision(name))
        assert [revision_id.name for revision_id in sink.services] == [name]

    def test_a_service_that_goes_or_loses_its_address_is_reported(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        for obj in (revision(), revision("b"), service(), service("b-private", "10.96.0.2")):
            inventory.apply(obj)
        inventory.apply(service(cluster_ip="None"))
        inventory.remove("Service", "default", "b-private")
        assert sink.services == {A: {}, B: {}}

    def test_a_revision_that_comes_back_finds_its_service(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        inventory.apply(revision(uid="u1"))
        inventory.apply(service())
        inventory.remove("Revision", "default", "a")
        assert sink.services == {A: {}}
        inventory.apply(revision(uid="u2"))
        assert sink.services[A][HTTP1] == "10.96.0.1:80"

    def test_other_services_say_nothing_however_broken(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        inventory.apply(revision())
        told = len(sink.calls)
        for name in ("a", "a-private2", "ab-private", "kubernetes"):
            assert inventory.apply(service(name)) is None
        assert inventory.apply(service("kubernetes", cluster_ip=5)) is None
        assert len(sink.calls) == told

    def test_a_broken_service_keeps_its_last_good_state(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        inventory.apply(revision())
        inventory.apply(service())
        assert inventory.apply(service(cluster_ip="nonsense")) is not None
        assert sink.services[A][HTTP1] == "10.96.0.1:80"

    def test_an_unchanged_service_causes_no_call(
        self, inventory: Inventory, sink: RecordingSink
    ) -> None:
        inventory.apply(revision())
        inventory.apply(service())
        told = len(sink.calls)
        obj = service()
        obj["metadata"]["annotations"] = {"touched": "yes"}
        replace(inventory, "Service", [obj])
        assert len(sink.calls) == told


SERVICE_TYPE = "networking.internal.knative.dev/serviceType"
UID = "serving.knative.dev/revisionUID"


def annotated(**annotations: str) -> dict[str, Any]:
    found = revision()
    found["metadata"]["annotations"] = {
        f"activator.dev/{name.replace('_', '-')}": value for name, value in annotations.items()
    }
    return found


def limited(obj: dict[str, Any], concurrency: int) -> dict[str, Any]:
    obj["spec"]["containerConcurrency"] = concurrency
    return obj


def unlabelled(obj: dict[str, Any], label: str) -> dict[str, Any]:
    del obj["metadata"]["labels"][label]
    return obj


def typed(obj: dict[str, Any], service_type: str) -> dict[str, Any]:
    obj["metadata"]["labels"][SERVICE_TYPE] = service_type
    return obj


def misnamed(obj: dict[str, Any]) -> dict[str, Any]:
    ports = obj["ports"] if "ports" in obj else obj["subsets"][0]["ports"]
    ports[:] = [{"name": "web", "port": 8012}, {"port": 8013}]
    return obj


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (
            unlabelled(private("10.0.0.1"), SERVICE_TYPE),
            f"ignored, since it has no label {SERVICE_TYPE}: Private",
        ),
        (unlabelled(private("10.0.0.1"), UID), f"ignored, since it has no label {UID}"),
        (
            typed(private("10.0.0.1"), "private"),
            f"ignored, since its label {SERVICE_TYPE} is 'private', not 'Private' or 'Public'",
        ),
        (
            misnamed(private("10.0.0.1")),
            "its addresses are ignored, since no port is named http or http2 "
            "(found: 'web', nothing)",
        ),
        (
            misnamed(private(not_ready=("10.0.0.1",))),
            "its addresses are ignored, since no port is named http or http2 "
            "(found: 'web', nothing)",
        ),
        (
            unlabelled(slice_of("10.0.0.1"), SERVICE_TYPE),
            f"ignored, since it has no label {SERVICE_TYPE}: Private",
        ),
        (
            misnamed(slice_of("10.0.0.1")),
            "its addresses are ignored, since no port is named http or http2 "
            "(found: 'web', nothing)",
        ),
        (
            annotated(load_balancin="hash"),
            "the annotation 'activator.dev/load-balancin' is unknown and has no effect; "
            "did you mean activator.dev/load-balancing?",
        ),
        (
            annotated(xyz="1"),
            "the annotation 'activator.dev/xyz' is unknown and has no effect",
        ),
        (
            limited(annotated(adaptive_concurrency="on"), 10),
            "the annotation activator.dev/adaptive-concurrency has no effect, since "
            "containerConcurrency is 10",
        ),
        (
            limited(annotated(adaptive_concurrency="on", stickyy="x"), 1),
            "the annotation 'activator.dev/stickyy' is unknown and has no effect; "
            "did you mean activator.dev/sticky?; "
            "the annotation activator.dev/adaptive-concurrency has no effect, since "
            "containerConcurrency is 1",
        ),
    ],
)
def test_an_object_without_effect_is_logged_once_until_it_is_corrected(
    obj: dict[str, Any], text: str, inventory: Inventory, caplog: pytest.LogCaptureFixture
) -> None:
    kind, name = obj["kind"], obj["metadata"]["name"]
    for _ in range(2):
        inventory.apply(obj)
        replace(inventory, kind, [obj])
    assert caplog.messages == [f"{kind} default/{name}: {text}"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    expected = ObjectWarning(kind, "default", name, "a", text, "", RevisionKind.REVISION)
    assert list(inventory.warnings) == [expected]
    good = {"Endpoints": private("10.0.0.1"), "EndpointSlice": slice_of("10.0.0.1")}
    inventory.apply(good.get(kind, annotated(load_balancing="round-robin")))
    assert list(inventory.warnings) == []
    inventory.apply(obj)
    inventory.remove(kind, "default", name)
    assert list(inventory.warnings) == []


@pytest.mark.parametrize(
    "obj",
    [
        private("10.0.0.1"),
        private() | {"subsets": []},
        private() | {"subsets": [{}]},
        public("10.1.0.1"),
        slice_of("10.0.0.1"),
        slice_of(terminating=("10.0.0.1",)),
        revision(),
        annotated(load_balancing="hash", hash_key="header:user", readiness_policy="probe"),
        limited(annotated(adaptive_concurrency="on"), 0),
        limited(annotated(adaptive_concurrency="off"), 10),
    ],
)
def test_an_object_with_effect_has_no_warning(
    obj: dict[str, Any], inventory: Inventory, caplog: pytest.LogCaptureFixture
) -> None:
    inventory.apply(obj)
    assert caplog.messages == []
    assert list(inventory.warnings) == []


def test_the_number_of_warnings_has_a_limit(
    inventory: Inventory, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(150):
        obj = private("10.0.0.1", name=f"e{number}")
        inventory.apply(unlabelled(obj, SERVICE_TYPE))
    assert len(list(inventory.warnings)) == 100
    assert len(caplog.messages) == 101
    assert caplog.messages[-1] == "more than 100 objects have warnings: no more are logged"
    inventory.remove("Endpoints", "default", "e0")
    inventory.apply(unlabelled(private("10.0.0.1", name="another"), SERVICE_TYPE))
    assert caplog.messages[-1].startswith("Endpoints default/another: ")


def test_an_object_that_names_no_revision_has_a_warning_without_one(inventory: Inventory) -> None:
    obj = private("10.0.0.1")
    del obj["metadata"]["labels"]
    inventory.apply(obj)
    assert [each.revision for each in inventory.warnings] == [""]


def test_each_annotation_that_the_activator_reads_is_known() -> None:
    found = {
        value
        for module in (policies, revisions)
        for value in vars(module).values()
        if isinstance(value, str) and value.startswith("activator.dev/")
    }
    assert found <= {policies.PREFIX, *ANNOTATIONS}
