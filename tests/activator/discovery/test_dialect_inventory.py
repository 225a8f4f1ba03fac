"""One dialect's objects; test_inventory.py has the rest through the public face."""

from __future__ import annotations

import pytest

from activator.discovery.dialect import Scope
from activator.discovery.inventory import DialectInventory, not_newer
from activator.discovery.object_warnings import Effect, Rejection
from activator.discovery.service_kinds import SERVICES
from activator.objects.fields import ObjectKey
from tests.activator.discovery.recording import RecordingSink
from tests.activator.plain.objects import service

HELLO = ObjectKey("Service", "shop", "hello")


@pytest.mark.parametrize(
    ("version", "known", "expected"),
    [
        *(("7", "7", True), ("6", "7", True), ("8", "7", False), ("10", "9", False)),
        *(("", "7", False), ("7", "", False), ("a", "b", False), ("b", "b", True)),
        *(("9" * 5000, "1", False), ("１", "7", False)),
    ],
)
def test_versions(version: str, known: str, expected: bool) -> None:
    assert not_newer(version, known) is expected


def test_a_broken_object_of_a_list_leaves_its_last_good_state() -> None:
    sink, rejections = RecordingSink(), list[Rejection]()
    scope = Scope()
    state = SERVICES.make_state(sink, sink, scope)
    part = DialectInventory(SERVICES, state, rejections.append, scope)
    part.apply("Service", service())
    for _ in part.replacing("Service", [service({"enabled": "maybe"})]):
        pass
    assert [each.effect for each in rejections] == [Effect.KEPT]
    assert (part.counts["Service"], list(part.in_force)) == (1, [HELLO])
    part.remove(HELLO, "another uid")
    assert HELLO in part.in_force
    part.remove(HELLO, "s1")
    assert sink.revisions == {}
