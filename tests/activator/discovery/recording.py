"""A sink that records its calls, and functions that build the objects that tests feed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from activator.discovery.inventory import Inventory
from activator.knative.system_objects import SystemObjects
from throttler.model import AppProtocol, ListedEndpoints, Revision, RevisionID, ServiceRoute

A = RevisionID("default", "a")
B = RevisionID("default", "b")


class RecordingSink(SystemObjects):
    """Keep every call in order, and the state after all calls."""

    def __init__(self) -> None:
        super().__init__({}, {}, lambda pems: None)
        self.calls: list[tuple[Any, ...]] = []
        self._told = asyncio.Event()
        self.revisions: dict[RevisionID, Revision] = {}
        self.endpoints: dict[RevisionID, Mapping[AppProtocol, ListedEndpoints]] = {}
        self.activators: dict[RevisionID, Mapping[AppProtocol, Collection[str]]] = {}
        self.services: dict[RevisionID, Mapping[AppProtocol, str]] = {}
        self.routes: dict[RevisionID, ServiceRoute] = {}
        self.config_maps: dict[str, Mapping[str, str]] = {}
        self.secrets: dict[str, Mapping[str, bytes]] = {}
        self.trust_bundles: tuple[str, ...] = ()

    def set_revision(self, revision: Revision) -> None:
        self._note(("set_revision", revision.id))
        self.revisions[revision.id] = revision

    def delete_revision(self, revision_id: RevisionID) -> None:
        self._note(("delete_revision", revision_id))
        del self.revisions[revision_id]

    def set_endpoints(
        self, revision_id: RevisionID, endpoints: Mapping[AppProtocol, ListedEndpoints]
    ) -> None:
        self._note(("set_endpoints", revision_id, self._ready(endpoints)))
        self.endpoints[revision_id] = endpoints

    def set_activators(
        self, revision_id: RevisionID, addresses: Mapping[AppProtocol, Collection[str]]
    ) -> None:
        self._note(("set_activators", revision_id))
        self.activators[revision_id] = addresses

    def set_route(self, revision_id: RevisionID, route: ServiceRoute) -> None:
        self._note(("set_route", revision_id, route))
        self.routes[revision_id] = route

    def set_config_map(self, name: str, data: Mapping[str, str]) -> None:
        self._note(("set_config_map", name))
        self.config_maps[name] = data

    def set_service(self, revision_id: RevisionID, addresses: Mapping[AppProtocol, str]) -> None:
        self._note(("set_service", revision_id))
        self.services[revision_id] = addresses

    def set_secret(self, name: str, data: Mapping[str, bytes]) -> None:
        self._note(("set_secret", name))
        self.secrets[name] = data

    def set_trust_bundles(self, pems: tuple[str, ...]) -> None:
        self._note(("set_trust_bundles", pems))
        self.trust_bundles = pems

    def _note(self, call: tuple[Any, ...]) -> None:
        self.calls.append(call)
        self._told.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the calls make a condition true."""
        while not holds():
            self._told.clear()
            await self._told.wait()

    @staticmethod
    def _ready(endpoints: Mapping[AppProtocol, ListedEndpoints]) -> list[str]:
        listed = endpoints.get(AppProtocol.HTTP1, ListedEndpoints())
        return sorted(endpoint.address for endpoint in listed.ready)

    def ready(self, revision_id: RevisionID = A) -> list[str]:
        """Return the addresses that are ready by HTTP/1, sorted."""
        return self._ready(self.endpoints.get(revision_id, {}))


def replace(inventory: Inventory, kind: str, objects: Iterable[object]) -> None:
    """Apply the complete list of a kind in one step."""
    for _ in inventory.replacing(kind, objects):
        pass


def metadata(name: str, uid: str = "", version: str = "", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "default",
        **({"uid": uid} if uid else {}),
        **({"resourceVersion": version} if version else {}),
        **more,
    }


def revision(name: str = "a", uid: str = "", version: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Revision",
        "metadata": metadata(name, uid, version),
        "spec": spec,
    }


def private(
    *ips: str,
    of: str = "a",
    name: str = "",
    not_ready: tuple[str, ...] = (),
    uid: str = "",
    version: str = "",
) -> dict[str, Any]:
    """Return the private Endpoints of the revision ``of``, with the port name of HTTP/1."""
    labels = {
        "networking.internal.knative.dev/serviceType": "Private",
        "serving.knative.dev/revisionUID": "0",
        "serving.knative.dev/revision": of,
    }
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": metadata(name or f"{of}-private", uid, version, labels=labels),
        "subsets": [
            {
                "addresses": [{"ip": ip} for ip in ips],
                "notReadyAddresses": [{"ip": ip} for ip in not_ready],
                "ports": [{"name": "metrics", "port": 9090}, {"name": "http", "port": 8012}],
            }
        ],
    }


def public(*ips: str, of: str = "a") -> dict[str, Any]:
    endpoints = private(*ips, of=of, name=of)
    labels = endpoints["metadata"]["labels"]
    labels["networking.internal.knative.dev/serviceType"] = "Public"
    return endpoints


def slice_of(
    *ips: str,
    of: str = "a",
    name: str = "",
    not_ready: tuple[str, ...] = (),
    terminating: tuple[str, ...] = (),
    service_type: str = "Private",
    **more: Any,
) -> dict[str, Any]:
    """Return an EndpointSlice of the revision ``of`` as Kubernetes fills it, with the port of
    HTTP/1.
    """
    endpoints = private(of=of)
    labels = endpoints["metadata"]["labels"] | {
        "kubernetes.io/service-name": f"{of}-private",
        "networking.internal.knative.dev/serviceType": service_type,
    }
    states = [(ips, True, False), (not_ready, False, False), (terminating, False, True)]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata(name or f"{of}-private-x7f2q", labels=labels),
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [ip], "conditions": _conditions(ready=ready, terminating=ending)}
            for group, ready, ending in states
            for ip in group
        ],
        "ports": [{"name": "metrics", "port": 9090}, {"name": "http", "port": 8012}],
        **more,
    }


def _conditions(*, ready: bool, terminating: bool) -> dict[str, bool]:
    return {"ready": ready, "serving": ready or terminating, "terminating": terminating}


def truncated(endpoints: dict[str, Any]) -> dict[str, Any]:
    """Return the same Endpoints with the mark that Kubernetes sets on a list without all pods."""
    annotations = {"endpoints.kubernetes.io/over-capacity": "truncated"}
    return endpoints | {"metadata": endpoints["metadata"] | {"annotations": annotations}}


def service(name: str = "a-private", cluster_ip: Any = "10.96.0.1") -> dict[str, Any]:
    """Return a private Service as Knative makes it."""
    ports = [
        {"name": "http", "port": 80, "targetPort": 8012},
        {"name": "http2", "port": 81, "targetPort": 8013},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name),
        "spec": {"clusterIP": cluster_ip, "ports": ports},
    }


def config_map(name: str, namespace: str = "knative-serving", **data: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def trust_bundle(name: str, *pems: str, **more: Any) -> dict[str, Any]:
    obj = config_map(name, **{f"{index}.pem": pem for index, pem in enumerate(pems)}, **more)
    obj["metadata"]["labels"] = {"networking.knative.dev/trust-bundle": "true"}
    return obj


def secret(name: str, namespace: str = "knative-serving", **data: bytes) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
