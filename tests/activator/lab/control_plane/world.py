"""A control plane without a socket, and objects for it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from activator.lab.control_plane.api import BUILT_IN, SCALED_OBJECTS
from activator.lab.control_plane.store import PlaneWatch
from tests.control_plane.client import plane_request
from tests.control_plane.strict import StrictControlPlane

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
APPS = "/apis/apps/v1/namespaces/shop/deployments"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/shop/events"
SERVICES = "/api/v1/namespaces/shop/services"
SCALED = "/apis/keda.sh/v1alpha1/namespaces/shop/scaledobjects"
NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class World:
    """Sends requests to a control plane."""

    def __init__(self) -> None:
        self.plane = StrictControlPlane((*BUILT_IN, SCALED_OBJECTS), clock=lambda: NOW)

    async def send(self, method: str, path: str, body: Any = None, kind: str = "") -> Any:
        """Return the decoded body; fail unless the request succeeds."""
        status, found = await self.try_(method, path, body, kind)
        assert status in (200, 201), found
        return found

    async def try_(self, method: str, path: str, body: Any = None, kind: str = "") -> Any:
        """Return status and decoded body."""
        kind = kind or (MERGE if method == "PATCH" else "application/json")
        data = b"" if body is None else json.dumps(body).encode()
        response = await self.plane.send(plane_request(method, path, data, kind, "test/1.0"))
        assert not isinstance(response, PlaneWatch)
        if response.content_type.startswith("text/plain"):
            return response.status, response.body.decode()
        return response.status, json.loads(response.body)

    async def refused(self, method: str, path: str, body: Any = None, kind: str = "") -> Any:
        """Return status and message of a request that fails."""
        status, found = await self.try_(method, path, body, kind)
        assert status >= 400, found
        return status, found["message"] if isinstance(found, dict) else found

    async def watch(self, path: str) -> PlaneWatch:
        found = await self.plane.send(plane_request("GET", path))
        assert isinstance(found, PlaneWatch), found
        return found

    async def events(self, watch: PlaneWatch) -> list[tuple[str, str]]:
        """End a watch, and return types and names of its events."""
        watch.close()
        lines = [json.loads(line) async for line in watch.lines()]
        return [(line["type"], line["object"]["metadata"].get("name", "")) for line in lines]


def deployment(name: str = "w", replicas: int | None = 0, **spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}}
    known = {} if replicas is None else {"replicas": replicas}
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {**known, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def service(name: str = "web", **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "shop", **metadata},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]},
    }


def slice_(name: str = "web-1", *addresses: str, kind: str = "IPv4", **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "shop", **metadata},
        "addressType": kind,
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [address]} for address in addresses],
    }


def lease(**spec: Any) -> Object:
    time = "2026-03-01T12:00:00.000000Z"
    known = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": time}
    return {"metadata": {"name": "leader", "namespace": "shop"}, "spec": {**known, **spec}}


def event(**fields: Any) -> Object:
    return {
        "metadata": {"name": "web.1a", "namespace": "shop"},
        "eventTime": "2026-03-01T12:00:00.000000Z",
        "reportingController": "activator.dev/scale",
        "reportingInstance": "scale-1",
        "action": "Scale",
        "reason": "scale-forbidden",
        "type": "Warning",
        "regarding": {"kind": "Service", "name": "web", "namespace": "shop"},
        "note": "n",
        **fields,
    }
