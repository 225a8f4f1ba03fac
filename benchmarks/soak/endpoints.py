"""The Endpoints and EndpointSlices of the revisions, right or wrong, as faults ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Final

from activator.lab.control_plane.api import ENDPOINTS, REVISIONS, SLICES, ApiKind
from activator.lab.controllers import CONTROLLER, MANAGED_BY, SERVICE_NAME
from activator.lab.objects import Object, PodAddress, private_endpoints, revision
from benchmarks.mixed.services import CONTAINER_CONCURRENCY
from benchmarks.soak.cluster import Cluster

#: Kubernetes' mark on Endpoints that lack addresses.
_TRUNCATED: Final = {"endpoints.kubernetes.io/over-capacity": "truncated"}


class View(Enum):
    """How the API server shows the pods of a revision."""

    RIGHT = "right"
    #: As they were when this view began.
    STALE = "stale"
    #: Endpoints lack half of the pods, and say so; EndpointSlices have all.
    TRUNCATED = "truncated"
    #: Each publication is another random selection, with random readiness.
    FLAPPING = "flapping"
    EMPTY = "empty"


@dataclass(slots=True)
class _Revision:
    h2c: bool
    pods: list[PodAddress] = field(default_factory=list)
    view: View = View.RIGHT


class ClusterPublisher:
    """Writes revisions and their pods into the API server; see `Publisher`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = Random()
        self._revisions: dict[str, _Revision] = {}

    def create(self, name: str, *, h2c: bool) -> None:
        """Write a revision without pods."""
        self._revisions[name] = _Revision(h2c)
        found = revision(name, container_concurrency=CONTAINER_CONCURRENCY, h2c=h2c)
        self._cluster.put((REVISIONS, found))
        self._write(name, [], [])

    def publish(self, name: str, pods: Sequence[PodAddress], *, h2c: bool) -> None:
        """Write the Endpoints of a revision, as its view shows them."""
        self._revisions[name].pods = list(pods)
        self.refresh(name)

    def set_view(self, name: str, view: View, seed: int = 0) -> None:
        """Change the view of a revision, and write what it shows.

        Arguments:
            seed: decides the selections of a flapping view.
        """
        self._random = Random(seed)
        self._revisions[name].view = view
        self.refresh(name)

    def refresh(self, name: str) -> None:
        """Write what the view of a revision shows now."""
        pods, view = self._revisions[name].pods, self._revisions[name].view
        match view:
            case View.RIGHT:
                self._write(name, pods, pods)
            case View.TRUNCATED:
                self._write(name, pods[: len(pods) // 2], pods, _TRUNCATED)
            case View.FLAPPING:
                some = self._random.sample(pods, self._random.randint(0, len(pods)))
                some = [each._replace(ready=self._random.random() < 0.5) for each in some]
                self._write(name, some, some)
            case View.EMPTY:
                self._write(name, [], [])
            case View.STALE:
                pass

    def list_activators(self, ips: Sequence[str]) -> None:
        """List these activators in the public Endpoints of each revision."""
        self._cluster.list_activators(ips)
        self._cluster.put(*((ENDPOINTS, _public(name, ips)) for name in self._revisions))

    def _write(
        self,
        name: str,
        in_endpoints: Sequence[PodAddress],
        in_slices: Sequence[PodAddress],
        annotations: dict[str, str] | None = None,
    ) -> None:
        h2c = self._revisions[name].h2c
        endpoints = private_endpoints(name, in_endpoints, h2c=h2c)
        labels = endpoints["metadata"]["labels"]
        endpoints["metadata"]["annotations"] = annotations or {}
        found: list[tuple[ApiKind, Object]] = [(ENDPOINTS, endpoints)]
        found.append((SLICES, _slice(name, in_slices, labels, h2c=h2c)))
        self._cluster.put(*found)


def _slice(name: str, pods: Sequence[PodAddress], labels: dict[str, str], *, h2c: bool) -> Object:
    """Return the slice of a revision's private Service."""
    port = {"name": "http2" if h2c else "http", "port": 8012, "protocol": "TCP"}
    own = {SERVICE_NAME: f"{name}-private", MANAGED_BY: CONTROLLER}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{name}-private-1",
            "namespace": "default",
            "labels": {**labels, **own},
        },
        "addressType": "IPv4",
        "ports": [port],
        "endpoints": [
            {
                "addresses": [pod.ip],
                "conditions": {"ready": pod.ready, "serving": pod.ready, "terminating": False},
                "targetRef": {
                    "kind": "Pod",
                    "namespace": "default",
                    "name": pod.name,
                    "uid": pod.uid,
                },
            }
            for pod in pods
        ],
    }


def _public(name: str, ips: Sequence[str]) -> Object:
    """Return the Endpoints of a revision's public Service, which list activators."""
    labels = {
        "networking.internal.knative.dev/serviceType": "Public",
        "serving.knative.dev/revision": name,
    }
    ports = [
        {"name": "http", "port": 8012, "protocol": "TCP"},
        {"name": "http2", "port": 8013, "protocol": "TCP"},
    ]
    subset = {"addresses": [{"ip": ip} for ip in ips], "ports": ports}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]}
