"""Follows the resources of a cluster, each by its own reflector.

Decides which resources to follow, and from when. It must not know the meaning of objects, nor how
to send requests. Knative's counterpart: the informers that cmd/activator/main.go starts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from activator.discovery import version
from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.backoff import Timings
from activator.discovery.endpoints import EndpointsSource
from activator.discovery.inventory import Inventory
from activator.discovery.kinds import KNATIVE, SERVICES
from activator.discovery.reflector import Reflector, Resource
from activator.discovery.self_check import SelfCheck
from activator.discovery.version import ClusterVersionError
from activator.knative.words import REVISIONS_PATH, SERVICE_TYPE_LABEL
from activator.plain.workloads import KINDS as WORKLOADS
from activator.records.source_status import SourceStatus, WatchCounters

__all__ = ["ClusterConfigError", "ClusterVersionError", "KubernetesWatch", "resources"]

# Knative's dialect uses only Endpoints and EndpointSlices with this label, so the server sends
# only those. A cluster has as many of them as Services. The activator knows Services and Revisions
# by their names; Knative requires no label of them.
_OF_KNATIVE = MappingProxyType({"labelSelector": SERVICE_TYPE_LABEL})


_SERVICES: Final = Resource("Service", "/api/v1/services")
_SLICES: Final = Resource("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices")
_WORKLOADS: Final = tuple(
    Resource(kind, f"/apis/apps/v1/{kind.lower()}s", may_lack=True) for kind in WORKLOADS
)


def resources(
    system_namespace: str,
    source: EndpointsSource = EndpointsSource.AUTO,
    dialects: Collection[str] = (KNATIVE.name,),
) -> tuple[Resource, ...]:
    """Return the resources of all namespaces, and the ConfigMaps of one.

    Arguments:
        system_namespace: namespace of the ConfigMaps.
        source: the kind of objects that list the pods of Knative's revisions.
        dialects: names of the dialects in use. A resource that two of them read is followed once.
    """
    with_services = SERVICES.name in dialects
    config_maps = Resource("ConfigMap", f"/api/v1/namespaces/{system_namespace}/configmaps")
    if KNATIVE.name not in dialects:
        return (_SERVICES, _SLICES, *_WORKLOADS, config_maps._replace(may_lack=True))
    followed = _of_knative(source, with_services=with_services)
    if with_services:
        # All slices: no label marks the slices of annotated Services.
        followed = (*(each for each in followed if each.kind != _SLICES.kind), _SLICES)
    return (*followed, *(_WORKLOADS if with_services else ()), config_maps)


def _of_knative(source: EndpointsSource, *, with_services: bool) -> tuple[Resource, ...]:
    """Return the resources of Knative's dialect.

    With ``AUTO`` slices are optional, since Knative's own ClusterRole does not allow to read them.
    """
    if_missing = "is Knative Serving installed?"
    if with_services:
        if_missing = "without Knative Serving only annotated Services count"
    slices = _SLICES._replace(selector=_OF_KNATIVE, optional=source is EndpointsSource.AUTO)
    endpoints = Resource("Endpoints", "/api/v1/endpoints", _OF_KNATIVE)
    return (
        Resource("Revision", REVISIONS_PATH, may_lack=with_services, if_missing=if_missing),
        _SERVICES,
        *((endpoints,) if source is not EndpointsSource.SLICES else ()),
        *((slices,) if source is not EndpointsSource.ENDPOINTS else ()),
    )


class KubernetesWatch:
    """Keeps an inventory equal to a cluster (discovery.source.Source).

    Arguments:
        inventory: takes every object.
        system_namespace: namespace of Knative Serving's ConfigMaps and Secrets.
        kubeconfig: as for ``credentials.load``.
        timings: all times.
        environ: environment variables; None for the variables of the process.
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
        for resource in resources(system_namespace, inventory.scope.endpoints, inventory.dialects):
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
        """Whether every readable resource has been listed once."""
        return all(reflector.settled.is_set() for reflector in self._reflectors.values())

    @property
    def counters(self) -> Mapping[str, WatchCounters]:
        """The counters of each watch, by kind."""
        return {kind: reflector.counters for kind, reflector in self._reflectors.items()}

    @property
    def errors(self) -> Mapping[str, str]:
        """The present errors of failing watches, by kind."""
        return {
            kind: reflector.last_error
            for kind, reflector in self._reflectors.items()
            if reflector.last_error
        }

    async def wait_synced(self, *kinds: str) -> None:
        """Wait until resources have been listed once; ``run`` must be in progress.

        For an optional resource any first response is enough.

        Arguments:
            kinds: their kinds, such as ``ConfigMap``; none for all present resources.
        """
        for kind in kinds or tuple(self._reflectors):
            await self._reflectors[kind].settled.wait()
        if self.synced:
            every = self._reflectors.items()
            self._inventory.settled([kind for kind, each in every if not each.synced.is_set()])

    def hurry(self) -> None:
        """Shorten all pauses after failures, since a request has begun to wait."""
        for reflector in self._reflectors.values():
            reflector.hurry()

    async def follow_secret(self, name: str) -> None:
        """Follow one Secret of the system namespace; the activator reads no other Secret.

        Returns after one round trip: the sink has the Secret, or there is none yet. If no Role
        allows the verbs list and watch for this name, the method waits, and the log has the reason.

        Arguments:
            name: of the Secret. Only one can be followed.
        """
        if "Secret" in self._reflectors:
            raise RuntimeError("a Secret is followed already")
        path = f"/api/v1/namespaces/{self._system_namespace}/secrets"
        resource = Resource("Secret", path, {"fieldSelector": f"metadata.name={name}"})
        await self._follow(resource).settled.wait()

    def ages(self, now: float) -> Mapping[str, float]:
        """Return the age of the state of each resource.

        Arguments:
            now: the loop's time.

        Returns:
            Seconds since the server's last sign of life, or since the start, by kind. A missing
            resource that may be missing has no age.
        """
        return {
            kind: max(0.0, now - reflector.last_sign_of_life)
            for kind, reflector in self._reflectors.items()
            if reflector.synced.is_set() or not reflector.settled.is_set()
        }

    async def run(self) -> None:
        """Follow all resources until cancelled; no fault of the server ends this.

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
        """Wait for the API server and check its version; see ``version.check``.

        Arguments:
            minimum: the oldest accepted version, as in ``1.34`` or ``v1.34.0``.

        Returns:
            The server's version, as in ``v1.35.2``.

        Raises:
            ClusterConfigError: there is no usable configuration.
            ClusterVersionError: there is no response in time, or the server is older.
        """
        return await version.check(self._api, minimum, self._timings)

    async def close(self) -> None:
        """See Source: close the connections, which ``run`` does at its end."""
        await self._api.close()

    def _follow(self, resource: Resource) -> Reflector:
        """Add a resource, and follow it at once if ``run`` is in progress."""
        reflector = Reflector(
            resource, self._api, self._inventory, self._timings, self._requests_wait
        )
        self._reflectors[resource.kind] = reflector
        self._start(reflector)
        return reflector

    def _start(self, reflector: Reflector) -> None:
        if self._group is not None:
            self._group.create_task(reflector.run(), name=f"watch {reflector.resource.kind}")
