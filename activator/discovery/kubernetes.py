"""Follows the resources of a cluster that matter, each by a reflector of its own.

Decides which resources those are, and when each is followed. It must not know what objects mean,
nor how requests are sent.
Knative's counterpart: the informers that cmd/activator/main.go starts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from activator.discovery import version
from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.credentials import ClusterConfigError
from activator.discovery.destinations import EndpointsSource
from activator.discovery.inventory import Inventory
from activator.discovery.listing import Resource
from activator.discovery.reflector import Reflector
from activator.discovery.self_check import SelfCheck
from activator.discovery.version import ClusterVersionError
from activator.knative.labels import REVISIONS_PATH, SERVICE_TYPE_LABEL

__all__ = ["ClusterConfigError", "ClusterVersionError", "KubernetesWatch", "resources"]
from activator.records.source_status import SourceStatus, WatchCounters

# What is read of Endpoints and EndpointSlices carries this label in any case, so the server need
# not send the others: a cluster has as many of them as it has Services. Services and Revisions
# are known by their names, and Knative asks for no label of theirs.
_OF_KNATIVE = MappingProxyType({"labelSelector": SERVICE_TYPE_LABEL})


def resources(
    system_namespace: str, source: EndpointsSource = EndpointsSource.AUTO
) -> tuple[Resource, ...]:
    """The resources that are always followed: all namespaces, but ConfigMaps of one only.

    Arguments:
        system_namespace: where the ConfigMaps are.
        source: which objects list the pods; the others are not read. With ``AUTO`` slices may be
            missing: Knative's own ClusterRole does not allow to read them.
    """
    slices = Resource(
        "EndpointSlice",
        "/apis/discovery.k8s.io/v1/endpointslices",
        _OF_KNATIVE,
        optional=source is EndpointsSource.AUTO,
    )
    endpoints = Resource("Endpoints", "/api/v1/endpoints", _OF_KNATIVE)
    return (
        Resource("Revision", REVISIONS_PATH, if_missing="is Knative Serving installed?"),
        Resource("Service", "/api/v1/services"),
        *((endpoints,) if source is not EndpointsSource.SLICES else ()),
        *((slices,) if source is not EndpointsSource.ENDPOINTS else ()),
        Resource("ConfigMap", f"/api/v1/namespaces/{system_namespace}/configmaps"),
    )


class KubernetesWatch:
    """Keeps an inventory equal to a cluster (discovery.source.Source).

    Arguments:
        inventory: takes every object.
        system_namespace: where Knative Serving keeps its ConfigMaps and Secrets.
        kubeconfig: path of a kubeconfig file, or several joined by ``:``; None or empty for the
            cluster that this process runs in, or else ``~/.kube/config``.
        timings: all times.
        environ: environment variables; None for those of the process.
        self_check_interval: seconds between two comparisons with fresh lists; 0 for none.
        requests_wait: returns whether any request waits for a pod. While one does, no pause after
            a failure is longer than ``Timings.backoff_waiting``.
        minimum_version: the oldest version of the API server that ``start`` accepts.

    Attributes:
        self_check: the comparisons.
    """

    def __init__(
        self,
        inventory: Inventory,
        system_namespace: str,
        kubeconfig: str | None = None,
        timings: Timings | None = None,
        environ: Mapping[str, str] | None = None,
        self_check_interval: float = 0.0,
        requests_wait: Callable[[], bool] = lambda: False,
        minimum_version: str = "",
    ) -> None:
        self._minimum_version = minimum_version
        self._inventory = inventory
        self._system_namespace = system_namespace
        self._timings = timings or Timings()
        self._requests_wait = requests_wait
        environ = os.environ if environ is None else environ
        self._api = ApiServer(kubeconfig, self._timings, environ)
        self._group: asyncio.TaskGroup | None = None
        self._reflectors: dict[str, Reflector] = {}
        self.self_check = SelfCheck(
            self._api, inventory, self._reflectors, self._timings, self_check_interval
        )
        for resource in resources(system_namespace, inventory.scope.endpoints):
            self._follow(resource)

    async def start(self) -> None:
        """See Source and ``check_version``."""
        await self.check_version(self._minimum_version)

    def status(self, now: float) -> SourceStatus:
        """See Source."""
        kinds, ages = self._inventory.status(), self.ages(now)
        for kind, reflector in self._reflectors.items():
            kinds[kind] = replace(
                kinds[kind],
                synced=reflector.settled.is_set(),
                age=ages.get(kind),
                watch=replace(reflector.counters),
                error=reflector.last_error,
            )
        return SourceStatus(
            kind="kubernetes",
            name=f"namespace {self._system_namespace}",
            kinds=kinds,
            missed=self.self_check.counters.snapshot(),
            warnings=tuple(self._inventory.warnings),
        )

    @property
    def synced(self) -> bool:
        """Whether every resource has been listed once that can be."""
        return all(reflector.settled.is_set() for reflector in self._reflectors.values())

    @property
    def counters(self) -> Mapping[str, WatchCounters]:
        """What happened on each watch, by kind."""
        return {kind: reflector.counters for kind, reflector in self._reflectors.items()}

    @property
    def errors(self) -> Mapping[str, str]:
        """Why a watch fails at present, by kind; those that do not fail are left out."""
        return {
            kind: reflector.last_error
            for kind, reflector in self._reflectors.items()
            if reflector.last_error
        }

    async def wait_synced(self, *kinds: str) -> None:
        """Wait until resources have been listed once; ``run`` must be under way.

        For an optional resource any first response is enough.

        Arguments:
            kinds: which ones, as in ``ConfigMap``; none for all that are followed by now.
        """
        for kind in kinds or tuple(self._reflectors):
            await self._reflectors[kind].settled.wait()

    def hurry(self) -> None:
        """Cut all pauses after failures: a request has begun to wait."""
        for reflector in self._reflectors.values():
            reflector.hurry()

    async def follow_secret(self, name: str) -> None:
        """Follow one Secret of the system namespace from now on; no other Secret is ever read.

        Returns after one round trip, when the sink has taken the Secret or there is none yet. While
        a Role does not allow the verbs list and watch for this name, this waits, and the log says
        why.

        Arguments:
            name: the Secret's name. Only one can be followed.
        """
        if "Secret" in self._reflectors:
            raise RuntimeError("a Secret is followed already")
        path = f"/api/v1/namespaces/{self._system_namespace}/secrets"
        resource = Resource("Secret", path, {"fieldSelector": f"metadata.name={name}"})
        await self._follow(resource).settled.wait()

    def ages(self, now: float) -> Mapping[str, float]:
        """How old the knowledge of each resource is.

        Arguments:
            now: the loop's time.

        Returns:
            Seconds since the last sign of life (since the start if there was none), by kind.
            What may be missing, and is, does not age.
        """
        return {
            kind: max(0.0, now - reflector.last_sign_of_life)
            for kind, reflector in self._reflectors.items()
            if reflector.synced.is_set() or not reflector.resource.optional
        }

    async def run(self) -> None:
        """Follows all resources until cancelled; no fault of the server ends it.

        Raises:
            ClusterConfigError: there is no usable configuration.
        """
        try:
            await self._api.connect()
            async with asyncio.TaskGroup() as self._group:
                for reflector in self._reflectors.values():
                    self._start(reflector)
                self._group.create_task(self.self_check.run(), name="self-check")
        finally:
            self._group = None
            await self._api.close()

    async def check_version(self, minimum: str) -> str:
        """Waits for the API server and checks its version; see ``version.check``.

        Arguments:
            minimum: the oldest version that will do, as in ``1.34`` or ``v1.34.0``.

        Returns:
            The server's version, as in ``v1.35.2``.

        Raises:
            ClusterConfigError: there is no usable configuration.
            ClusterVersionError: no answer in time, or the server is older.
        """
        return await version.check(self._api, minimum, self._timings)

    async def close(self) -> None:
        """See Source: close the connections, which ``run`` does at its end."""
        await self._api.close()

    def _follow(self, resource: Resource) -> Reflector:
        """Adds a resource; it is followed at once if ``run`` is under way."""
        reflector = Reflector(
            resource, self._api, self._inventory, self._timings, self._requests_wait
        )
        self._reflectors[resource.kind] = reflector
        self._start(reflector)
        return reflector

    def _start(self, reflector: Reflector) -> None:
        if self._group is not None:
            self._group.create_task(reflector.run(), name=f"watch {reflector.resource.kind}")
