"""Stores objects with versions, and feeds watches with the changes.

It accepts every object: :mod:`.writes` checks them. Objects are never changed in place.
Kubernetes' counterpart: staging/src/k8s.io/apiserver/pkg/storage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final, NamedTuple

from activator.lab.control_plane.resources import ApiKind
from activator.lab.control_plane.selectors import Test
from activator.lab.control_plane.status import expired

Object = dict[str, Any]
Key = tuple[str, str]

#: Changes that watches can begin from; older ones are compacted.
HISTORY: Final = 10_000


class ObjectChange(NamedTuple):
    """One change of one object.

    Attributes:
        old: the object before; None if the change created it.
        new: the object after; None if the change deleted it.
        last: the deleted object with the version of the deletion; otherwise as ``new``.
    """

    version: int
    resource: ApiKind
    old: Object | None
    new: Object | None
    last: Object

    def event(self, test: Test) -> tuple[str, Object] | None:
        """Return type and object of the event for a watch; None if the watch gets none."""
        was = self.old is not None and test(self.old)
        if self.new is not None and test(self.new):
            return ("MODIFIED" if was else "ADDED"), self.new
        if not was or self.old is None:
            return None
        # An object that leaves the selection is sent as it last was in it.
        version = {"resourceVersion": str(self.version)}
        return "DELETED", {**self.old, "metadata": {**self.old["metadata"], **version}}


Listener = Callable[[ObjectChange], object]


class ObjectStore:
    """All objects of one control plane.

    Attributes:
        version: of the last change.
        oldest: the oldest version from which a watch can begin.
        uids: of all objects.
    """

    def __init__(self) -> None:
        self.version = 100
        self.oldest = 100
        self.uids: set[str] = set()
        self._objects: dict[ApiKind, dict[Key, Object]] = {}
        self._history: deque[ObjectChange] = deque()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call a function with each later change; it must return at once."""
        self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """End the effect of `listen`."""
        self._listeners.remove(listener)

    def get(self, resource: ApiKind, namespace: str, name: str) -> Object | None:
        """Return a copy of an object; None if there is none."""
        return deepcopy(self._objects.get(resource, {}).get((namespace, name)))

    def select(self, resource: ApiKind, namespace: str, test: Test) -> list[Object]:
        """Return the selected objects by name; the caller must not change them."""
        known = self._objects.get(resource, {})
        return [
            known[key] for key in sorted(known) if namespace in ("", key[0]) and test(known[key])
        ]

    def as_of(self, version: int, resource: ApiKind, namespace: str, test: Test) -> list[Object]:
        """Return the objects as `select` returned them at a version; do not change them.

        Raises:
            ApiError: the version is compacted.
        """
        known = dict(self._objects.get(resource, {}))
        for change in reversed(self.since(version)):
            if change.resource == resource:
                known.pop(_key(change.last), None)
                if change.old is not None:
                    known[_key(change.old)] = change.old
        return [
            known[key] for key in sorted(known) if namespace in ("", key[0]) and test(known[key])
        ]

    def everything(self) -> list[tuple[ApiKind, Object]]:
        """Return all objects; the caller must not change them."""
        return [
            (resource, found)
            for resource, known in self._objects.items()
            for found in known.values()
        ]

    def put(self, resource: ApiKind, found: Object) -> Object:
        """Store an object under the next version, and return a copy with that version."""
        stored = deepcopy(found)
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        known = self._objects.setdefault(resource, {})
        key = _key(stored)
        old = known.get(key)
        known[key] = stored
        self.uids.add(stored["metadata"].get("uid", ""))
        self._record(ObjectChange(self.version, resource, old, stored, stored))
        return deepcopy(stored)

    def delete(self, resource: ApiKind, namespace: str, name: str) -> Object:
        """Delete an object that exists, and return it with the version of the deletion."""
        old = self._objects[resource].pop((namespace, name))
        self.uids.discard(old["metadata"].get("uid", ""))
        self.version += 1
        last = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        self._record(ObjectChange(self.version, resource, old, None, last))
        return last

    def compact(self) -> None:
        """Remove all changes: watches of older versions end with 410."""
        self._history.clear()
        self.oldest = self.version

    def since(self, version: int) -> list[ObjectChange]:
        """Return the changes after a version.

        Raises:
            ApiError: the version is compacted.
        """
        if version < self.oldest:
            raise expired(version, self.oldest)
        return [change for change in self._history if change.version > version]

    def _record(self, change: ObjectChange) -> None:
        self._history.append(change)
        if len(self._history) > HISTORY:
            self.oldest = self._history.popleft().version
        for listener in list(self._listeners):
            listener(change)


def _key(found: Object) -> Key:
    metadata = found["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
