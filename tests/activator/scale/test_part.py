from __future__ import annotations

from activator.objects.fields import ObjectKey
from activator.scale.decisions.record import Facts
from activator.scale.part import Part, views
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.workloads.services import EnabledServices
from tests.activator.scale.decisions.records import facts, with_owner


class Names:
    """A view that does nothing."""

    def put(self, key: ObjectKey, obj: object) -> None:
        """Ignore an object."""

    def remove(self, key: ObjectKey) -> None:
        """Ignore an object."""


class Known(Part):
    """A part that knows what a test says."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def complete(self, name: ServiceName, facts: Facts) -> Facts:
        return with_owner(super().complete(name, facts), self._owner)


class Finds(Part):
    """A part with a finding."""

    def findings(self, name: ServiceName) -> list[Finding]:
        return [Finding(ScaleReason.TWO_OWNERS, "why")]


class Views(Part):
    """A part with a view."""

    def __init__(self, kind: str, view: Names) -> None:
        self.views = {kind: view}


def test_views_of_parts_come_after_the_views_of_the_services() -> None:
    services, names = EnabledServices(), Names()
    found = views(services.views(), [Views("EndpointSlice", names), Views("Secret", names)])
    assert found["EndpointSlice"] == [services.readiness, names]
    assert found["Secret"] == [names]
    assert set(found) >= {"Service", "Deployment", "StatefulSet"}


def test_the_parts_complete_the_facts_about_a_service() -> None:
    name, known = ServiceName("shop", "hello"), facts()
    why, found = Finding(ScaleReason.TWO_OWNERS, "why"), known
    for part in (Part(), Finds(), Known("HPA shop/hello"), Finds()):
        found = part.complete(name, found)
    assert (found.other_owner, found.findings) == ("HPA shop/hello", (why, why))
    assert Part().complete(name, known) == known
    assert Part().slice_since(name, 9.0) is None
