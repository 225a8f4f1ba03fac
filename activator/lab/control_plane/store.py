"""Selects, stores and collects objects; makes lists, and watches as lines of JSON.

It accepts every object: :mod:`.writes` checks them. Objects are never changed in place.
Kubernetes' counterparts: staging/src/k8s.io/apiserver/pkg/storage, and for selectors
staging/src/k8s.io/apimachinery/pkg/labels/selector.go.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any, Final, NamedTuple

from activator.lab.control_plane import api

Object = dict[str, Any]
Test = Callable[[Object], bool]

#: A comparison: key, operator, and a value or several in parentheses.
_COMPARISON = re.compile(r"(\S+?)(?:\s*(!=|==?)\s*|\s+(in|notin)\s+)(.*)$")
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
    if compared := _compared(term):
        key, is_equal, values = compared
        return lambda found: (_labels(found).get(key) in values) is is_equal
    key = term.removeprefix("!")
    return lambda found: (key in _labels(found)) is (key == term)


def _field_test(term: str) -> Test:
    path, is_equal, values = _compared(term) or (term, True, set())
    if path not in _FIELDS:
        raise api.bad_request(f"field label not supported: {path}")
    key = _FIELDS[path]
    return lambda found: (found["metadata"].get(key, "") in values) is is_equal


def _compared(term: str) -> tuple[str, bool, set[str]] | None:
    """Return key, whether its value must be one of some, and these; None for no comparison."""
    if (found := _COMPARISON.match(term)) is None:
        return None
    key, operator, of_sets, values = found.groups()
    return (
        key,
        (operator or of_sets) not in ("!=", "notin"),
        {each.strip() for each in values.strip("()").split(",")},
    )


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
    resource: api.ApiKind
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
        self._objects: dict[api.ApiKind, dict[Key, Object]] = {}
        self._history: deque[ObjectChange] = deque()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call a function with each later change; it must return at once."""
        self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """End the effect of `listen`."""
        self._listeners.remove(listener)

    def get(self, resource: api.ApiKind, namespace: str, name: str) -> Object | None:
        """Return a copy of an object; None if there is none."""
        return deepcopy(self._objects.get(resource, {}).get((namespace, name)))

    def select(self, resource: api.ApiKind, namespace: str, test: Test) -> list[Object]:
        """Return the selected objects by name; the caller must not change them."""
        return _selected(self._objects.get(resource, {}), namespace, test)

    def as_of(
        self, version: int, resource: api.ApiKind, namespace: str, test: Test
    ) -> list[Object]:
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
        return _selected(known, namespace, test)

    def everything(self) -> list[tuple[api.ApiKind, Object]]:
        """Return all objects; the caller must not change them."""
        return [
            (resource, found)
            for resource, known in self._objects.items()
            for found in known.values()
        ]

    def put(self, resource: api.ApiKind, found: Object) -> Object:
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

    def delete(self, resource: api.ApiKind, namespace: str, name: str) -> Object:
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
            raise api.expired(version, self.oldest)
        return [change for change in self._history if change.version > version]

    def _record(self, change: ObjectChange) -> None:
        self._history.append(change)
        if len(self._history) > HISTORY:
            self.oldest = self._history.popleft().version
        for listener in list(self._listeners):
            listener(change)


def _selected(known: dict[Key, Object], namespace: str, test: Test) -> list[Object]:
    return [
        found for key, found in sorted(known.items()) if namespace in ("", key[0]) and test(found)
    ]


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

    def __init__(
        self, store: PlaneStore, delete: Callable[[api.ApiKind, str, str], object]
    ) -> None:
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
        elif owners(change.new) != owners(change.old) and not self._is_owned(change.new):
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

    def _is_owned(self, found: Object) -> bool:
        """Return whether an object names no owner, or one that exists."""
        uids = owners(found)
        return not uids or not uids.isdisjoint(self._store.uids)


def owners(found: Object | None) -> set[str]:
    """Return the uids of the objects that own an object."""
    references = found["metadata"].get("ownerReferences") if found else None
    return {reference["uid"] for reference in references or ()}


_MATCHES = ("Exact", "NotOlderThan")


def listed(store: PlaneStore, place: api.ApiPath, query: Mapping[str, str]) -> Object:
    """Return the list that a request asks for.

    Raises:
        ApiError: the query contradicts itself, or the version is compacted or does not exist yet.
    """
    wanted = place.resource, place.namespace, selector(query)
    start, version = _continued(query.get("continue", ""), store.version)
    exact = _exact_version(query, store.version)
    if exact:
        version = exact
    if version < store.oldest:
        raise api.page_expired() if start else api.version_expired()
    found = store.as_of(version, *wanted) if exact or start else store.select(*wanted)
    # The server's cache has no pages.
    limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit") or 0)
    end = start + (limit or len(found) or 1)
    metadata: Object = {"resourceVersion": str(version)}
    if place.resource.is_custom:
        metadata["continue"] = ""
    if end < len(found):
        metadata["continue"] = f"{version}:{end}"
        if not (query.get("labelSelector") or query.get("fieldSelector")):
            metadata["remainingItemCount"] = len(found) - end
    resource = place.resource
    left_out = () if resource.is_custom else ("kind", "apiVersion")
    items = [
        {key: value for key, value in each.items() if key not in left_out}
        for each in found[start:end]
    ]
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
    return {**head, "metadata": metadata, "items": items}


def _exact_version(query: Mapping[str, str], current: int) -> int:
    """Return the version that a list must have exactly; 0 if a newer one will do."""
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match and not version:
        raise api.invalid_options(
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match not in ("", *_MATCHES):
        known = ", ".join(f'"{each}"' for each in (*_MATCHES, ""))
        raise api.invalid_options(f'Unsupported value: "{match}": supported values: {known}')
    if match == "Exact" and version == "0":
        raise api.invalid_options(
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
    if version and not version.isdigit():
        raise api.bad_request(f"invalid resource version: {unparsed(version)}")
    if version and int(version) > current:
        raise api.too_large(int(version), current)
    if match == "Exact" or ("limit" in query and "continue" not in query and not match):
        return int(version or 0)
    return 0


def unparsed(version: str) -> str:
    """Return why a text is no version."""
    why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
    return f'resourceVersion: Invalid value: "{version}": {why}'


def _continued(token: str, current: int) -> tuple[int, int]:
    """Return where a page begins, and the version of its list."""
    if not token:
        return 0, current
    version, _, start = token.partition(":")
    if not (version.isdigit() and start.isdigit()):
        raise api.bad_request("invalid continue token: continue key is not valid: no numbers")
    return int(start), int(version)


#: The annotation of the bookmark after the objects that existed before the watch.
_INITIAL_END: Final = "k8s.io/initial-events-end"
#: Seconds between two bookmarks of a watch that accepts them.
_BOOKMARK_PERIOD: Final = 60.0


class PlaneWatch:
    """One watch; it collects changes from its creation on, and must be closed.

    Attributes:
        place: of the watched objects.
    """

    def __init__(
        self,
        store: PlaneStore,
        place: api.ApiPath,
        query: Mapping[str, str],
    ) -> None:
        """
        Arguments:
            query: of the request; ``timeoutSeconds`` ends the watch.

        Raises:
            ApiError: a selector is wrong.
        """
        self.place = place
        self._store = store
        self._test = selector(query)
        self._takes_bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._seconds = float(query.get("timeoutSeconds") or "inf")
        self._lines: deque[bytes] = deque()
        self._has_more = asyncio.Event()
        self._is_over = False
        self._is_silent = False
        self.is_broken = False
        self._begin(query.get("resourceVersion", ""), query.get("sendInitialEvents") == "true")
        store.listen(self._on_change)

    def close(self) -> None:
        """End the watch; lines that have been collected still come."""
        if not self._is_over:
            self._store.remove(self._on_change)
        self._is_over = True
        self._has_more.set()

    def break_off(self) -> None:
        """End the watch as a broken connection does: `lines` raises."""
        self.is_broken = True
        self.close()

    def fall_silent(self) -> None:
        """Send no more lines, and do not end: the connection seems to be alive."""
        self._is_silent = True

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield each line of the response, until the watch ends.

        Raises:
            ConnectionError: the connection broke.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        bookmark = loop.time() + _BOOKMARK_PERIOD
        while True:
            if self.is_broken:
                raise ConnectionResetError("the API server broke the connection")
            while self._lines and not self._is_silent:
                yield self._lines.popleft()
            now = loop.time()
            if self._is_over or (now >= end and not self._is_silent):
                break
            if now >= bookmark and not self._is_silent:
                bookmark = now + _BOOKMARK_PERIOD
                self._bookmark()
                continue
            self._has_more.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if self._is_silent else min(end, bookmark)):
                    await self._has_more.wait()
        self.close()

    def _begin(self, version: str, sends_initial: bool) -> None:
        if sends_initial or version in ("", "0"):
            for found in self._store.select(self.place.resource, self.place.namespace, self._test):
                self._add("ADDED", found)
            self._bookmark({_INITIAL_END: "true"})
            return
        try:
            for change in self._store.since(int(version)):
                self._on_change(change)
        except api.ApiError as error:
            self._add("ERROR", error.status())
            self._is_over = True

    def _on_change(self, change: ObjectChange) -> None:
        place = self.place
        if change.resource != place.resource:
            return
        if place.namespace not in ("", change.last["metadata"].get("namespace", "")):
            return
        if event := change.event(self._test):
            self._add(*event)

    def _bookmark(self, annotations: Mapping[str, str] | None = None) -> None:
        if not self._takes_bookmarks:
            return
        metadata: Object = {"resourceVersion": str(self._store.version)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        resource = self.place.resource
        found = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        self._add("BOOKMARK", found)

    def _add(self, kind: str, found: Object) -> None:
        self._lines.append(json.dumps({"type": kind, "object": found}).encode() + b"\n")
        self._has_more.set()
