from __future__ import annotations

from typing import Any

from activator.objects.fields import ObjectKey
from activator.scale.decisions.reasons import Finding, Reason
from activator.scale.part import Part, Parts, views
from activator.scale.reports.load import Name
from activator.scale.workloads.services import EnabledServices


class Names:
    """A view that does nothing."""

    def put(self, key: ObjectKey, obj: object) -> None:
        """Ignore an object."""

    def remove(self, key: ObjectKey) -> None:
        """Ignore an object."""


def test_views_of_parts_come_after_the_views_of_the_services() -> None:
    services, names = EnabledServices(), Names()
    found = views(services, [Part(views={"EndpointSlice": names}), Part(views={"Secret": names})])
    assert found["EndpointSlice"] == [services.readiness, names]
    assert found["Secret"] == [names]
    assert set(found) >= {"Service", "Deployment", "StatefulSet"}


def test_the_parts_together_are_one_guard() -> None:
    def owner(name: Name, service: object, target: object) -> str:
        return "HPA shop/hello" if name.name == "hello" else ""

    hello, other = Name("shop", "hello"), Name("shop", "other")
    known: Any = None
    guard = Parts(
        [
            Part(other_owner=lambda *_: "", slice_since=lambda *_: None),
            Part(other_owner=owner, slice_since=lambda *_: 5.0),
            Part(lease=lambda *_: 0.0),
            Part(lease=lambda *_: 60.0),
            Part(findings=lambda _: [Finding(Reason.TWO_OWNERS, "why")]),
        ]
    )
    assert guard.other_owner(hello, known, known) == "HPA shop/hello"
    assert guard.other_owner(other, known, known) == ""
    assert guard.slice_since(hello, 9.0) == 5.0
    assert guard.lease(known, known) == 60
    assert Parts([]).lease(known, known) == 30
    assert guard.findings(hello) == [Finding(Reason.TWO_OWNERS, "why")]
    assert guard.effects == []
