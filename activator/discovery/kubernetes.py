"""Follows the resources of a cluster, each by its own reflector, once its API server is new enough.

Decides which resources to follow, and from when. It must not know the meaning of objects, nor how
to send requests. Knative's counterparts: the informers that cmd/activator/main.go starts, and the
version check of pkg/injection/sharedmain.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import msgspec
import tenacity

from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.backoff import Timings
from activator.discovery.endpoints import EndpointsSource
from activator.discovery.inventory import Inventory, SystemDialect
from activator.discovery.keda_kinds import KedaDialect
from activator.discovery.knative_kinds import KnativeDialect
from activator.discovery.reflector import Reflector
from activator.discovery.self_check import SelfCheck
from activator.discovery.service_kinds import ServicesDialect
from activator.discovery.source import Source, SourceError
from activator.discovery.wire import (
    ROUTE_OBJECTS,
    UNDECODABLE,
    ConnectionLostError,
    ServerResponseError,
    WatchedResource,
)
from activator.keda.objects import BODY_LABEL
from activator.knative.words import REVISIONS_PATH, SERVICE_TYPE_LABEL
from activator.plain.workloads import KINDS as WORKLOADS
from activator.records.source_status import SourceStatus

logger = logging.getLogger(__name__)

_VERSION_BYTES = 65_536


class ClusterVersionError(SourceError):
    """The API server did not respond in time, or is too old."""


async def check_version(api: ApiServer, minimum: str, timings: Timings) -> str:
    """Wait for the API server, and check its version.

    Arguments:
        api: the server.
        minimum: the oldest accepted version, as in ``1.34`` or ``v1.34.0``.
        timings: interval and time-out of the requests.

    Returns:
        The server's version, as in ``v1.35.2``.

    Raises:
        ClusterConfigError: there is no usable configuration.
        ClusterVersionError: there is no response in time, or the server is older.
    """
    try:
        needed = _parts(minimum)
    except ValueError:
        raise ClusterConfigError(
            f"the minimum version {minimum!a} is no version: set KUBERNETES_MIN_VERSION to one "
            "such as v1.34.0"
        ) from None
    await api.connect()
    version = await _first_response(api, timings)
    if _parts(version) < needed:
        raise ClusterVersionError(
            f"Kubernetes {version} at {api.host} is older than {minimum}: upgrade it, "
            "or set KUBERNETES_MIN_VERSION to start anyway"
        )
    return version


async def _first_response(api: ApiServer, timings: Timings) -> str:
    """Repeat the request until a response. Raises ``ClusterVersionError`` after the time-out."""
    errors: list[str] = []
    loop = asyncio.get_running_loop()
    log_at = loop.time()

    def record(state: tenacity.RetryCallState) -> None:
        nonlocal log_at
        errors[:] = [str(state.outcome.exception())] if state.outcome else []
        if loop.time() >= log_at:
            log_at = loop.time() + timings.version_reminder
            logger.warning("waiting for the API server %s: %s", api.host, "".join(errors))

    try:
        async with asyncio.timeout(timings.version_limit):
            return await tenacity.AsyncRetrying(
                wait=tenacity.wait_fixed(timings.version_interval),
                retry=tenacity.retry_if_exception_type((ConnectionLostError, ServerResponseError)),
                before_sleep=record,
                sleep=asyncio.sleep,
            )(_request, api, timings.connect)
    except TimeoutError:
        raise ClusterVersionError(
            f"the API server {api.host} gave no version within {timings.version_limit:g} s: "
            f"{''.join(errors) or 'no response'}"
        ) from None


async def _request(api: ApiServer, silence: float) -> str:
    async with api.get("/version", {}, silence) as response:
        body = await response.read(_VERSION_BYTES)
        if response.status == 401:
            api.renew_credentials()
        if response.status != 200:
            raise ServerResponseError(response.status, "", response.retry_after)
    try:
        version = msgspec.json.decode(body)["gitVersion"]
        _parts(version)
    except (*UNDECODABLE, LookupError, TypeError, ValueError):
        raise ServerResponseError(200, "the response to /version has no version") from None
    return str(version)


def _parts(version: str) -> tuple[int, int, int]:
    """Return the numbers of a version, without pre-release and build, as Knative compares them."""
    numbers = version.removeprefix("v").partition("-")[0].partition("+")[0].split(".")
    major, minor, patch = (*numbers, "0", "0")[:3]
    for number in (major, minor, patch):
        if not (number.isascii() and number.isdigit()):  # int() takes more than that
            raise ValueError(f"{number!a} is no number")
    return int(major), int(minor), int(patch)


# Knative's dialect uses only Endpoints and EndpointSlices with this label, so the server sends
# only those. A cluster has as many of them as Services. The activator knows Services and Revisions
# by their names; Knative requires no label of them.
_OF_KNATIVE = MappingProxyType({"labelSelector": SERVICE_TYPE_LABEL})


_SERVICES: Final = WatchedResource("Service", "/api/v1/services")
_SLICES: Final = WatchedResource("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices")
#: The add-on reads the same ConfigMaps of all namespaces. Its role of 0.12 does not allow that.
_BODIES: Final = WatchedResource(
    "ConfigMap",
    "/api/v1/configmaps",
    MappingProxyType({"labelSelector": f"{BODY_LABEL}=true"}),
    may_lack=True,
    dialect=KedaDialect.name,
)
_WORKLOADS: Final = tuple(
    WatchedResource(kind, f"/apis/apps/v1/{kind.lower()}s", may_lack=True) for kind in WORKLOADS
)
#: The add-on's role does not allow to read them.
_KEDA_WORKLOADS: Final = tuple(each._replace(optional=True, quiet=True) for each in _WORKLOADS)


def resources(
    system_namespace: str,
    source: EndpointsSource = EndpointsSource.AUTO,
    dialects: Collection[str] = (KnativeDialect.name,),
    keda_namespace: str = "",
) -> tuple[WatchedResource, ...]:
    """Return the resources of all namespaces, and the ConfigMaps of one.

    The dialect keda alone needs no resource that the add-on's role forbids.

    Arguments:
        system_namespace: namespace of the ConfigMaps.
        source: the kind of objects that list the pods of Knative's revisions.
        dialects: names of the dialects in use. A resource that two of them read is followed once.
        keda_namespace: the only namespace with objects of the dialect keda; empty for all.
    """
    with_services = ServicesDialect.name in dialects
    of_keda = [
        _in_namespace(each, keda_namespace)
        for each in (*ROUTE_OBJECTS, _BODIES, *(() if with_services else _KEDA_WORKLOADS))
    ]
    if set(dialects) == {KedaDialect.name}:
        return (*(_in_namespace(each, keda_namespace) for each in (_SERVICES, _SLICES)), *of_keda)
    with_keda, with_knative = KedaDialect.name in dialects, KnativeDialect.name in dialects
    followed: tuple[WatchedResource, ...] = (_SERVICES, _SLICES)
    if with_knative:
        followed = _of_knative(source, with_services=with_services)
        if with_services or with_keda:
            # All slices: no label marks the slices of the Services of these dialects.
            followed = (*(each for each in followed if each.kind != _SLICES.kind), _SLICES)
    config_maps = WatchedResource(
        "ConfigMap",
        f"/api/v1/namespaces/{system_namespace}/configmaps",
        may_lack=not with_knative,
        dialect=SystemDialect.name,
    )
    workloads = _WORKLOADS if with_services else ()
    return (*followed, *workloads, config_maps, *(of_keda if with_keda else ()))


def _in_namespace(resource: WatchedResource, namespace: str) -> WatchedResource:
    """Return the same resource of one namespace only; unchanged if that is empty."""
    group, _, name = resource.path.rpartition("/")
    path = f"{group}/namespaces/{namespace}/{name}"
    return resource._replace(path=path) if namespace else resource


def _of_knative(source: EndpointsSource, *, with_services: bool) -> tuple[WatchedResource, ...]:
    """Return the resources of Knative's dialect.

    With ``AUTO`` slices are optional, since Knative's own ClusterRole does not allow to read them.
    """
    if_missing = "is Knative Serving installed?"
    if with_services:
        if_missing = "without Knative Serving only annotated Services count"
    slices = _SLICES._replace(selector=_OF_KNATIVE, optional=source is EndpointsSource.AUTO)
    endpoints = WatchedResource("Endpoints", "/api/v1/endpoints", _OF_KNATIVE)
    return (
        WatchedResource("Revision", REVISIONS_PATH, may_lack=with_services, if_missing=if_missing),
        _SERVICES,
        *((endpoints,) if source is not EndpointsSource.SLICES else ()),
        *((slices,) if source is not EndpointsSource.ENDPOINTS else ()),
    )


class KubernetesWatch(Source):
    """Keeps an inventory equal to a cluster.

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
        scope = inventory.scope
        self._place = system_namespace or scope.interceptor.watch_namespace
        for resource in resources(
            system_namespace,
            scope.endpoints,
            inventory.dialects,
            scope.interceptor.watch_namespace,
        ):
            self._follow(resource)

    async def start(self) -> None:
        """Wait for the API server, and check its version; ``check_version`` has the errors."""
        await check_version(self._api, self._minimum_version, self._timings)

    def status(self, now: float) -> SourceStatus:
        """Return the state of each resource. Its age is that of the server's last sign of life.

        A missing resource that may be missing has no age.
        """
        kinds = self._inventory.status()
        for name, reflector in self._reflectors.items():
            resource = reflector.resource
            known = self._inventory.only(resource.dialect).status()[resource.kind]
            settled = reflector.settled.is_set()
            is_followed = reflector.synced.is_set() or not settled
            kinds[name] = replace(
                known,
                synced=settled,
                age=max(0.0, now - reflector.last_sign_of_life) if is_followed else None,
                watch=replace(reflector.counters),
                error=reflector.last_error,
            )
        return SourceStatus(
            kind="kubernetes",
            name=f"namespace {self._place}" if self._place else "all namespaces",
            kinds=kinds,
            missed=deepcopy(self.self_check.counters),
            warnings=tuple(self._inventory.warnings),
        )

    async def wait_synced(self, *kinds: str) -> None:
        """Wait until resources have been listed once; ``run`` must be in progress.

        For an optional resource any first response is enough.

        Arguments:
            kinds: their kinds, such as ``ConfigMap``; none for all present resources.
        """
        for kind in kinds or tuple(self._reflectors):
            await self._reflectors[kind].settled.wait()
        if all(reflector.settled.is_set() for reflector in self._reflectors.values()):
            every = self._reflectors.items()
            self._inventory.settled([kind for kind, each in every if not each.synced.is_set()])

    def hurry(self) -> None:
        """Shorten all pauses after failures, since a request has begun to wait."""
        for reflector in self._reflectors.values():
            reflector.pauses.hurry()

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
        resource = WatchedResource("Secret", path, {"fieldSelector": f"metadata.name={name}"})
        await self._follow(resource).settled.wait()

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

    async def close(self) -> None:
        """Close the connections; ``run`` does so at its end."""
        await self._api.close()

    def _follow(self, resource: WatchedResource) -> Reflector:
        """Add a resource, and follow it at once if ``run`` is in progress."""
        inventory = self._inventory.only(resource.dialect)
        reflector = Reflector(resource, self._api, inventory, self._timings, self._requests_wait)
        is_second = resource.kind in self._reflectors
        name = f"{resource.kind} of {resource.dialect}" if is_second else resource.kind
        self._reflectors[name] = reflector
        self._start(reflector)
        return reflector

    def _start(self, reflector: Reflector) -> None:
        if self._group is not None:
            self._group.create_task(reflector.run(), name=f"watch {reflector.resource.kind}")
