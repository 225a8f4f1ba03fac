"""Deletes objects whose owners are gone, as the garbage collector does.

Kubernetes' counterpart: pkg/controller/garbagecollector.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from activator.lab.control_plane.resources import ApiKind
from activator.lab.control_plane.store import ObjectChange, ObjectStore

#: Seconds from the deletion of the last owner to the deletion of its dependents.
AFTER_OWNER: Final = 0.5
#: Seconds until an object is deleted that was written with an owner that does not exist.
AFTER_WRITE: Final = 4.0


class GarbageCollector:
    """Watches a store, and deletes dependents. It needs a running loop for its timers."""

    def __init__(self, store: ObjectStore, delete: Callable[[ApiKind, str, str], object]) -> None:
        """
        Arguments:
            delete: deletes an object: resource, namespace, name.
        """
        self._store = store
        self._delete = delete
        self._timers: set[asyncio.TimerHandle] = set()
        store.listen(self._on_change)

    def close(self) -> None:
        """Delete nothing more."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._store.remove(self._on_change)

    def _on_change(self, change: ObjectChange) -> None:
        if change.new is None:
            self._later(AFTER_OWNER)
        elif _owners(change.new) != _owners(change.old) and not self._is_owned(change.new):
            self._later(AFTER_WRITE)

    def _later(self, seconds: float) -> None:
        def collect() -> None:
            self._timers.discard(timer)
            self._collect()

        timer = asyncio.get_running_loop().call_later(seconds, collect)
        self._timers.add(timer)

    def _collect(self) -> None:
        for resource, found in self._store.everything():
            if not self._is_owned(found):
                metadata = found["metadata"]
                self._delete(resource, metadata.get("namespace", ""), metadata["name"])

    def _is_owned(self, found: dict[str, Any]) -> bool:
        """Return whether an object names no owner, or one that exists."""
        owners = _owners(found)
        return not owners or not owners.isdisjoint(self._store.uids)


def _owners(found: dict[str, Any] | None) -> set[str]:
    references = found["metadata"].get("ownerReferences") if found else None
    return {reference["uid"] for reference in references or ()}
