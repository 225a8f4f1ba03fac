"""The sum of several objects of a revision; the inventory feeds them."""

from __future__ import annotations

import logging
from itertools import permutations

import pytest

from activator.discovery.dialect import Scope
from activator.discovery.endpoints import AddressFamily, EndpointsSource
from activator.discovery.inventory import Inventory
from activator.knative.words import private_service
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
from throttler.model import AppProtocol

HTTP1, H2C = AppProtocol.HTTP1, AppProtocol.H2C


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

    def test_the_own_family_is_used_of_two(self, sink: RecordingSink) -> None:
        inventory = Inventory(sink, sink, scope=Scope(family=AddressFamily.IPV6))
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
