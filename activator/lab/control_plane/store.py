"""Selects, stores and collects objects, and feeds watches with the changes.

It accepts every object: :mod:`.writes` checks them. Objects are never changed in place.
Kubernetes' counterparts: staging/src/k8s.io/apiserver/pkg/storage, and for selectors
staging/src/k8s.io/apimachinery/pkg/labels/selector.go.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

from activator.lab.control_plane.resources import ApiKind
from activator.lab.control_plane.status import bad_request, expired

Object = dict[str, Any]
Test = Callable[[Object], bool]

_SET = re.compile(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
#: Splits at commas outside parentheses.
_COMMA = re.compile(r",(?![^(]*\))")
_FIELDS = {"metadata.name": "name", "metadata.namespace": "namespace"}


def selector(query: Mapping[str, str]) -> Test:
    """Return the test that a request's query makes of each object.

    Raises:
        ApiError: a field that the server does not select by.
    """
    tests = [_label_test(term.strip()) for term in _terms(query.get("labelSelector", ""))]
    tests += [_field_test(term) for term in _terms(query.get("fieldSelector", ""))]
    return lambda found: all(test(found) for test in tests)


def matches(labels: Mapping[str, str], found: Object) -> bool:
    """Return whether an object has all of these labels."""
    return labels.items() <= _labels(found).items()


def _terms(text: str) -> list[str]:
    return [term for term in _COMMA.split(text) if term.strip()]


def _labels(found: Object) -> dict[str, str]:
    return found["metadata"].get("labels") or {}


def _label_test(term: str) -> Test:
    if in_set := _SET.match(term):
        key, operator, values = in_set.groups()
        wanted = {value.strip() for value in values.split(",")}
        if operator == "in":
            return lambda found: _labels(found).get(key) in wanted
        return lambda found: _labels(found).get(key) not in wanted
    if "!=" in term:
        key, value = (part.strip() for part in term.split("!=", 1))
        return lambda found: _labels(found).get(key) != value
    if "=" in term:
        key, value = (part.strip() for part in re.split("==?", term, maxsplit=1))
        return lambda found: _labels(found).get(key) == value
    if term.startswith("!"):
        return lambda found: term[1:] not in _labels(found)
    return lambda found: term in _labels(found)


def _field_test(term: str) -> Test:
    path, is_equal, value = term.replace("==", "=").partition("=")
    negated = path.endswith("!")
    path = path.removesuffix("!")
    if not is_equal or path not in _FIELDS:
        raise bad_request(f"field label not supported: {path}")
    key = _FIELDS[path]
    return lambda found: (found["metadata"].get(key, "") == value) is not negated


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


class PlaneStore:
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


# Deletes objects whose owners are gone, as the garbage collector does.
#
# Kubernetes' counterpart: pkg/controller/garbagecollector.

#: Seconds from the deletion of the last owner to the deletion of its dependents.
AFTER_OWNER: Final = 0.5
#: Seconds until an object is deleted that was written with an owner that does not exist.
AFTER_WRITE: Final = 4.0


class GarbageCollector:
    """Watches a store, and deletes dependents. It needs a running loop for its timers."""

    def __init__(self, store: PlaneStore, delete: Callable[[ApiKind, str, str], object]) -> None:
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
