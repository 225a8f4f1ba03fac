"""Counts the ready pods of each Service, from EndpointSlices.

Pure. The scaler needs numbers only, so it keeps no addresses: a cluster may have 100,000 pods.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from sys import intern
from typing import NamedTuple, final

from activator.objects.fields import ObjectKey, root
from activator.plain.matches import Index
from activator.plain.slices import SERVICE_LABEL, count_ready, is_takeover
from activator.scale.reports.load import Name


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
        self._slices: dict[ObjectKey, tuple[Name, _Counted]] = {}
        self._by_service = Index[Name, ObjectKey]()

    def put(self, key: ObjectKey, obj: object) -> None:
        """See objects.View."""
        slice_ = root(obj, "EndpointSlice")
        metadata = slice_["metadata"]
        name = metadata["labels"].at(SERVICE_LABEL).text()
        if not name or is_takeover(metadata):
            self.remove(key)
            return
        counted = _shared(
            _Counted(
                slice_["addressType"].text(),
                tuple(port["name"].text() for port in slice_["ports"].items()),
                count_ready(slice_["endpoints"]),
            )
        )
        owner, known = self._slices.get(key, (None, None))
        if owner is not None and (owner.name, known) == (name, counted):
            return
        if owner is None or owner.name != name:
            self.remove(key)
            owner = Name(key.namespace, intern(name))
            self._by_service.add(owner, key)
        self._slices[key] = owner, counted
        self._changed(owner)

    def remove(self, key: ObjectKey) -> None:
        """See objects.View."""
        owner, _ = self._slices.pop(key, (None, None))
        if owner is not None:
            self._by_service.discard(owner, key)
            self._changed(owner)

    def ready(self, service: Name, port: str) -> int:
        """Return how many pods behind a port are ready.

        Arguments:
            port: the name of the Service's port.

        A pod with addresses of two families counts once.
        """
        found: dict[str, int] = {}
        for key in self._by_service.get(service):
            _, each = self._slices[key]
            if port in each.ports:
                found[each.family] = found.get(each.family, 0) + each.ready
        return max(found.values(), default=0)


@lru_cache(maxsize=1024)
def _shared(counted: _Counted) -> _Counted:
    """Return the first of equal values: most slices list the same."""
    return counted
