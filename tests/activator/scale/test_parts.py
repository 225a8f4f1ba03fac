from __future__ import annotations

from activator.objects.fields import ObjectKey
from activator.scale.parts import PARTS, Part, views
from activator.scale.services import Services


class Names:
    """A view that does nothing."""

    def put(self, key: ObjectKey, obj: object) -> None:
        """Ignore an object."""

    def remove(self, key: ObjectKey) -> None:
        """Ignore an object."""


def test_views_of_parts_come_after_the_views_of_the_services() -> None:
    services, names = Services(), Names()
    found = views(services, [Part(views={"EndpointSlice": names}), Part(views={"Secret": names})])
    assert found["EndpointSlice"] == [services.readiness, names]
    assert found["Secret"] == [names]
    assert set(found) >= {"Service", "Deployment", "StatefulSet"}


def test_the_table_of_parts_can_be_read() -> None:
    assert all(callable(make) for make in PARTS)
