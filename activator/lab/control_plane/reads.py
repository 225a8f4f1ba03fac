"""Selects the objects, the version and the page of each list; writes watches as lines of JSON.

Source: "Resource versions" in the Kubernetes API concepts. Kubernetes' counterparts:
staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation, and
staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from activator.lab.control_plane.resources import ApiPath
from activator.lab.control_plane.status import (
    ApiError,
    bad_request,
    invalid_options,
    page_expired,
    too_large,
    version_expired,
)
from activator.lab.control_plane.store import ObjectChange, PlaneStore, selector

Object = dict[str, Any]

_MATCHES = ("Exact", "NotOlderThan")


def listed(store: PlaneStore, place: ApiPath, query: Mapping[str, str]) -> Object:
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
        raise page_expired() if start else version_expired()
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
        raise invalid_options(
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match not in ("", *_MATCHES):
        known = ", ".join(f'"{each}"' for each in (*_MATCHES, ""))
        raise invalid_options(f'Unsupported value: "{match}": supported values: {known}')
    if match == "Exact" and version == "0":
        raise invalid_options(
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
    if version and not version.isdigit():
        raise bad_request(f"invalid resource version: {unparsed(version)}")
    if version and int(version) > current:
        raise too_large(int(version), current)
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
        raise bad_request("invalid continue token: continue key is not valid: no numbers")
    return int(start), int(version)


#: The annotation of the bookmark after the objects that existed before the watch.
_INITIAL_END: Final = "k8s.io/initial-events-end"


class PlaneWatch:
    """One watch; it collects changes from its creation on, and must be closed.

    Attributes:
        place: of the watched objects.
    """

    def __init__(
        self, store: PlaneStore, place: ApiPath, query: Mapping[str, str], bookmark_period: float
    ) -> None:
        """
        Arguments:
            query: of the request; ``timeoutSeconds`` ends the watch.
            bookmark_period: seconds between bookmarks, for watches that accept them.

        Raises:
            ApiError: a selector is wrong.
        """
        self.place = place
        self._store = store
        self._test = selector(query)
        self._takes_bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._bookmark_period = bookmark_period
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
        bookmark = loop.time() + self._bookmark_period
        while True:
            if self.is_broken:
                raise ConnectionResetError("the API server broke the connection")
            while self._lines and not self._is_silent:
                yield self._lines.popleft()
            now = loop.time()
            if self._is_over or (now >= end and not self._is_silent):
                break
            if now >= bookmark and not self._is_silent:
                bookmark = now + self._bookmark_period
                self._bookmark()
                continue
            self._has_more.clear()
            try:
                async with asyncio.timeout_at(None if self._is_silent else min(end, bookmark)):
                    await self._has_more.wait()
            except TimeoutError:
                pass
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
        except ApiError as error:
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
