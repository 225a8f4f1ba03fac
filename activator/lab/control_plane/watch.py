"""One watch: the changes of one kind of objects, as lines of JSON.

Kubernetes' counterpart: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/watch.go.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from activator.lab.control_plane.resources import ApiPath
from activator.lab.control_plane.selectors import selector
from activator.lab.control_plane.status import ApiError
from activator.lab.control_plane.store import ObjectChange, ObjectStore

Object = dict[str, Any]

#: The annotation of the bookmark after the objects that existed before the watch.
_INITIAL_END: Final = "k8s.io/initial-events-end"


class PlaneWatch:
    """One watch; it collects changes from its creation on, and must be closed.

    Attributes:
        place: of the watched objects.
    """

    def __init__(
        self, store: ObjectStore, place: ApiPath, query: Mapping[str, str], bookmark_period: float
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
