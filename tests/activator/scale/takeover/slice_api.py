"""EndpointSlices of an API server in memory, and steps that a test puts before its responses."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable
from copy import deepcopy
from itertools import count
from typing import Any

from activator.discovery.api_server import ApiResponse, ApiServer
from activator.lab.control_plane.writes import merge
from activator.scale.takeover.slices import SliceKey
from activator.scale.takeover.takeovers import Takeovers
from tests.activator.scale.fake_api import Script, status

Event = tuple[str, Any]


class SliceApi(ApiServer):
    """Stores slices, and keeps the events of a watch until a test delivers them.

    Attributes:
        slices: the objects, by namespace and name.
        requests: method and path of all requests.
        events: what a watch sends next, as ``(type, object)``.
        script: what happens to the next requests.
        pause: awaited before each request that comes over the network.
    """

    def __init__(self) -> None:
        self.slices: dict[tuple[str, str], Any] = {}
        self.requests: list[tuple[str, str]] = []
        self.events: deque[Event] = deque()
        self.script = Script()
        self.pause: Callable[[], Awaitable[None]] | None = None
        self._versions = count(1)

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> ApiResponse:
        if self.pause is not None:
            await self.pause()
        return self.handle(method, path, body, content_type)

    def handle(self, method: str, path: str, body: bytes, content_type: str) -> ApiResponse:
        """Return the response to a request."""
        self.requests.append((method, path))
        if (response := self.script.next()) is not None:
            return response
        parts = path.split("/")
        assert parts[:5] == ["", "apis", "discovery.k8s.io", "v1", "namespaces"]
        assert parts[6] == "endpointslices"
        obj = json.loads(body)
        kind = {"PATCH": "application/merge-patch+json"}.get(method, "application/json")
        assert content_type == kind
        return getattr(self, method.lower())(parts[5], "".join(parts[7:]), obj)

    def post(self, namespace: str, name: str, obj: Any) -> ApiResponse:
        assert not name
        key = namespace, obj["metadata"]["name"]
        if key in self.slices:
            return status(409, f'endpointslices "{key[1]}" already exists')
        return self.put(obj)

    def patch(self, namespace: str, name: str, patch: Any) -> ApiResponse:
        known = self.slices.get((namespace, name))
        if known is None:
            return status(404, f'endpointslices "{name}" not found')
        version = patch["metadata"].pop("resourceVersion")
        if version != known["metadata"]["resourceVersion"]:
            return status(409, "the object has been modified")
        return self.put(merge(known, patch))

    def delete(self, namespace: str, name: str, options: Any = None) -> ApiResponse:
        """Delete a slice, as any component may."""
        known = self.slices.get((namespace, name))
        if known is None:
            return status(404, "not found")
        uid = (options or {}).get("preconditions", {}).get("uid")
        if uid not in (None, known["metadata"]["uid"]):
            return status(409, "the uid differs")
        del self.slices[namespace, name]
        self._bump(known, "DELETED")
        return ApiResponse(200, b'{"kind":"Status"}')

    def put(self, obj: Any) -> ApiResponse:
        """Create or change a slice, as any component may."""
        obj = deepcopy(obj)
        metadata = obj["metadata"]
        key = metadata["namespace"], metadata["name"]
        known = self.slices.get(key)
        self.slices[key] = obj
        if known is None:
            number = next(self._versions)
            metadata["uid"] = f"e{number}"
            metadata.setdefault("creationTimestamp", f"2026-01-01T00:{number % 60:02}:00Z")
        obj["endpoints"] = obj.get("endpoints") or None  # as the API server returns it
        self._bump(obj, "ADDED" if known is None else "MODIFIED")
        return ApiResponse(201 if known is None else 200, json.dumps(obj).encode())

    def edit(self, namespace: str, name: str, change: Callable[[Any], object]) -> None:
        """Change a slice, as any component may."""
        obj = deepcopy(self.slices[namespace, name])
        change(obj)
        self.put(obj)

    def _bump(self, obj: Any, event: str) -> None:
        obj["metadata"]["resourceVersion"] = str(next(self._versions))
        self.events.append((event, deepcopy(obj)))


def deliver(takeovers: Takeovers, event: str, obj: Any, now: float) -> None:
    """Pass an event of the watch on, as the part of the scaler does."""
    if event == "DELETED":
        metadata = obj["metadata"]
        takeovers.deleted(SliceKey(metadata["namespace"], metadata["name"]), now)
    else:
        takeovers.observe(obj, now)
