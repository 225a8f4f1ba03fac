"""Knative's objects beside plain Services; test_inventory.py has Knative's alone."""

from __future__ import annotations

import pytest

from activator.discovery.dialect import Scope
from activator.discovery.inventory import Inventory
from activator.discovery.kinds import DIALECTS
from tests.activator.discovery.recording import A, RecordingSink, revision, slice_of
from tests.activator.plain import objects as plain


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
