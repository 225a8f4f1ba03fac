"""Counts the ready pods of each Service, from EndpointSlices.

Pure. The scaler needs numbers only, so it keeps no addresses: a cluster may have 100,000 pods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

from activator.objects.fields import Field, ObjectKey, root
from activator.plain.slices import MANAGED_BY_LABEL, OURS, SERVICE_LABEL
from activator.scale.load import Name


class _Counted(NamedTuple):
    """The ready pods of one slice; ``ports`` are names."""

    family: str
    ports: tuple[str, ...]
    ready: int


@final
class Readiness:
    """The ready pods of all Services (objects.View).

    Arguments:
        changed: called with each Service whose pods may have changed.
    """

    def __init__(self, changed: Callable[[Name], object]) -> None:
        self._changed = changed
        self._slices: dict[Name, dict[str, _Counted]] = {}
        self._owner: dict[ObjectKey, Name] = {}

    def put(self, key: ObjectKey, obj: object) -> None:
        """See objects.View."""
        slice_ = root(obj, "EndpointSlice")
        labels = slice_["metadata"]["labels"]
        name = labels.at(SERVICE_LABEL).text()
        if not name or labels.at(MANAGED_BY_LABEL).text() == OURS:
            self.remove(key)
            return
        counted = _Counted(
            slice_["addressType"].text(),
            tuple(port["name"].text() for port in slice_["ports"].items()),
            sum(map(_is_ready, slice_["endpoints"].items())),
        )
        owner = Name(key.namespace, name)
        if self._owner.get(key, owner) != owner:
            self.remove(key)
        self._owner[key] = owner
        slices = self._slices.setdefault(owner, {})
        if slices.get(key.name) != counted:
            slices[key.name] = counted
            self._changed(owner)

    def remove(self, key: ObjectKey) -> None:
        """See objects.View."""
        owner = self._owner.pop(key, None)
        if owner is None:
            return
        slices = self._slices[owner]
        del slices[key.name]
        if not slices:
            del self._slices[owner]
        self._changed(owner)

    def ready(self, service: Name, port: str) -> int:
        """Return how many pods behind a port are ready.

        Arguments:
            port: the name of the Service's port.

        A pod with addresses of two families counts once.
        """
        found: dict[str, int] = {}
        for each in self._slices.get(service, {}).values():
            if port in each.ports:
                found[each.family] = found.get(each.family, 0) + each.ready
        return max(found.values(), default=0)


def _is_ready(endpoint: Field) -> bool:
    """Return whether a pod takes new requests.

    ``terminating`` counts first: with ``publishNotReadyAddresses`` such a pod is also ready.
    """
    conditions = endpoint["conditions"]
    if conditions["terminating"].boolean(default=False):
        return False
    return conditions["ready"].boolean(default=True)
