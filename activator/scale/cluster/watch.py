"""Follows the kinds of objects that the scaler needs, each by its own reflector.

A cluster without KEDA has no ScaledObjects, which is no fault.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.reflector import ObjectStore, Reflector
from activator.discovery.wire import WatchedResource

SCALED_OBJECTS: Final = "/apis/keda.sh/v1alpha1/scaledobjects"
AUTOSCALERS: Final = "/apis/autoscaling/v2/horizontalpodautoscalers"

#: The kinds without which nothing can be decided.
NEEDED: Final = (
    WatchedResource("Service", "/api/v1/services"),
    WatchedResource("EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices"),
    WatchedResource("Deployment", "/apis/apps/v1/deployments"),
    WatchedResource("StatefulSet", "/apis/apps/v1/statefulsets"),
)
#: The kinds of other components that scale workloads.
OTHERS: Final = (
    WatchedResource("HorizontalPodAutoscaler", AUTOSCALERS, optional=True),
    WatchedResource(
        "ScaledObject", SCALED_OBJECTS, optional=True, if_missing="KEDA is not installed"
    ),
)


#: Seconds after which the next kind is listed although the one before is not complete.
_FIRST_LIST: Final = 5.0


class Watch:
    """Keeps objects equal to a cluster.

    Arguments:
        server: sends the requests.
        objects: takes every object.
        timings: all times.
        requests_wait: returns whether any request waits for a pod.
    """

    def __init__(
        self,
        server: ApiServer,
        objects: ObjectStore,
        timings: Timings,
        requests_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        self._timings = timings
        self._reflectors = {
            resource.kind: Reflector(
                resource, server, objects, timings, requests_wait, _TRIM.get(resource.kind, _trim)
            )
            for resource in (*NEEDED, *OTHERS)
            if resource.kind in objects.counts
        }

    async def run(self) -> None:
        """Follow all kinds until cancelled; no fault of the server ends this.

        The first lists come one after the other: two of a large cluster at a time would double
        the memory of the process.
        """
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"watch {kind}")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_FIRST_LIST):
                        await reflector.settled.wait()

    async def wait_synced(self) -> None:
        """Return when each kind has been listed once, or need not be; ``run`` must be under way."""
        for reflector in self._reflectors.values():
            await reflector.settled.wait()

    @property
    def synced(self) -> bool:
        """Whether each kind has been listed once, or need not be."""
        return all(reflector.settled.is_set() for reflector in self._reflectors.values())

    def hurry(self) -> None:
        """Shorten all pauses after failures, since a request has begun to wait."""
        for reflector in self._reflectors.values():
            reflector.hurry()

    def is_stale(self, now: float) -> bool:
        """Return whether the watch of a needed kind fails, or is silent for too long."""
        for resource in NEEDED:
            reflector = self._reflectors[resource.kind]
            age = now - reflector.last_sign_of_life
            if _error(reflector) or age > self._timings.inactivity:
                return True
        return False

    def errors(self) -> Mapping[str, str]:
        """Return the present errors of failing watches, by kind."""
        return {
            kind: error
            for kind, reflector in self._reflectors.items()
            if (error := _error(reflector)) and not reflector.resource.optional
        }

    def missing_rule(self, kind: str) -> str:
        """Return the RBAC rule without which a kind is not read; empty if none is missing."""
        reflector = self._reflectors[kind]
        if not reflector.is_forbidden:
            return ""
        _, _, group, _, plural = reflector.resource.path.split("/")
        return f'{{apiGroups: ["{group}"], resources: ["{plural}"], verbs: ["list", "watch"]}}'

    def ages(self, now: float) -> Mapping[str, float]:
        """Return the seconds since the server's last sign of life, by kind."""
        return {
            kind: max(0.0, now - reflector.last_sign_of_life)
            for kind, reflector in self._reflectors.items()
            if reflector.synced.is_set() or not reflector.resource.optional
        }


def _error(reflector: Reflector) -> str:
    """Return why a watch is not open; empty if it is, also before its first event."""
    return "" if reflector.is_following else reflector.last_error


Trim = Callable[[dict[str, object]], dict[str, object]]


def _trim(obj: dict[str, object]) -> dict[str, object]:
    """Remove the fields of a listed object that are large and without a reader."""
    obj.pop("status", None)
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return obj


def _trim_workload(obj: dict[str, object]) -> dict[str, object]:
    """Remove most of a workload: the scaler reads replicas, and the labels of pods."""
    match _trim(obj):
        case {"spec": {"template": dict(template)}}:
            template.pop("spec", None)
    return obj


_TRIM: Final[Mapping[str, Trim]] = {"Deployment": _trim_workload, "StatefulSet": _trim_workload}
