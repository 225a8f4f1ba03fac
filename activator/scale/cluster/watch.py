"""Follows the objects of the cluster, and passes each change to the views of its kind.

Each kind has its own reflector. A cluster without KEDA has no ScaledObjects, which is no fault.
The versions of all objects decide whether one is new, changed, outdated or broken, as
``discovery.inventory`` does for the activator. A broken object is reported, and its last good state
stays in force.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import Final, Protocol

from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.reflector import ReflectedObjects, Reflector
from activator.discovery.rejections import Effect, Rejection, log_rejection
from activator.discovery.wire import ROUTE_OBJECTS, WatchedResource
from activator.objects.fields import ManifestError, ObjectKey, identify, root
from activator.plain.slices import SERVICE_LABEL

#: Identity and version of an object in one number, which takes a quarter of the memory of two
#: texts: the hash of the uid above the version.
_Version = int
_VERSION_BITS: Final = 64
_VERSION_MASK: Final = (1 << _VERSION_BITS) - 1
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
_ROUTES: Final = tuple(each._replace(optional=True) for each in ROUTE_OBJECTS)
#: Seconds after which the next kind is listed although the one before is not complete.
_FIRST_LIST: Final = 5.0
Trim = Callable[[dict[str, object]], dict[str, object]]


def of_dialect(
    dialect: Sequence[str], interceptors: tuple[str, str] | None
) -> Sequence[WatchedResource]:
    """Return the kinds to follow.

    Arguments:
        dialect: as in the settings. For ``keda`` alone the role of the add-on's scaler must
            suffice, and its memory: then only the slices of the interceptors are read.
        interceptors: the Service of the interceptors' admin port.
    """
    if "services" in dialect:
        return (*NEEDED, *OTHERS, *(_ROUTES if "keda" in dialect else ()))
    namespace, name = interceptors or ("", "")
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    selector = {"labelSelector": f"{SERVICE_LABEL}={name}"}
    return (*_ROUTES, WatchedResource("EndpointSlice", path, selector))


class KindView(Protocol):
    """Takes the objects of one kind."""

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed object.

        Raises:
            ManifestError: a field is wrong. The view has not changed, or it uses ``instead``.
        """

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted object; an unknown one is no error."""


class ClusterObjects:
    """All objects in force (discovery.reflector.ReflectedObjects).

    Arguments:
        views: the views of each kind.

    Attributes:
        rejected: the present unusable objects, each with the reason.
    """

    def __init__(self, views: Mapping[str, Sequence[KindView]]) -> None:
        self._views = views
        self._versions: dict[ObjectKey, _Version] = {}
        self._counts = Counter[str]()
        self.rejected: dict[ObjectKey, str] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of objects in force, by kind."""
        return {kind: self._counts[kind] for kind in self._views}

    def apply(self, obj: object) -> None:
        """Apply an object that may be new, changed or unchanged; its ``kind`` must be known."""
        kind = obj.get("kind") if isinstance(obj, dict) else None
        if isinstance(kind, str) and kind in self._views:
            self._apply(kind, obj, listed=False)

    def remove(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        """Remove a deleted object; an unknown one, or an older one of that name, is no error."""
        key = ObjectKey(kind, namespace, name)
        known = self._versions.get(key)
        if known is None or not uid or known >> _VERSION_BITS in (0, hash(uid)):
            self._delete(key)

    def replacing(self, kind: str, objects: Iterable[object]) -> Iterator[None]:
        """Apply the complete list of a kind in steps, and remove all others of that kind."""
        present = set()
        for obj in objects:
            present.add(self._apply(kind, obj, listed=True))
            yield
        known = self._versions.keys() | self.rejected.keys()
        for key in [key for key in known if key.kind == kind and key not in present]:
            self._delete(key)

    def _apply(self, kind: str, obj: object, *, listed: bool) -> ObjectKey:
        """Pass an object to the views, unless it is known; return its key as far as readable."""
        key = ObjectKey(kind, "?", "?")
        try:
            key = identify(obj, kind)
            # Thousands of objects have the same namespace, each its own text. And a Service, its
            # workload and their labels often have one name.
            key = ObjectKey(kind, intern(key.namespace), intern(key.name))
            metadata = root(obj, kind)["metadata"]
            fresh = _packed(metadata["uid"].text(), metadata["resourceVersion"].text())
            known = self._versions.get(key)
            # After a restore of etcd, a list may have an older version than the known one.
            if known is not None and (_is_same if listed else _is_old)(fresh, known):
                return key
            for view in self._views[kind]:
                view.put(key, obj)
        except ManifestError as error:
            self._reject(key, error)
            return key
        self.rejected.pop(key, None)
        self._counts[kind] += key not in self._versions
        self._versions[key] = fresh
        return key

    def _delete(self, key: ObjectKey) -> None:
        # A view may know a broken object that was never in force.
        was_broken = self.rejected.pop(key, None) is not None
        was_in_force = self._versions.pop(key, None) is not None
        self._counts[key.kind] -= was_in_force
        if was_in_force or was_broken:
            for view in self._views[key.kind]:
                view.remove(key)

    def _reject(self, key: ObjectKey, error: ManifestError) -> None:
        reason = str(error)
        if self.rejected.get(key) == reason:
            return
        if key.name != "?":
            self.rejected[key] = reason
        effect = Effect.KEPT if key in self._versions else Effect.UNUSED
        if error.instead is not None:
            effect = Effect.DEFAULTS
        log_rejection(Rejection(*key, reason, effect))


def _packed(uid: str, version: str) -> _Version:
    """Return identity and version as one number.

    A version that is no number counts as 0: each such object is new.
    """
    is_number = len(version) < 20 and version.isascii() and version.isdigit()
    return (hash(uid) << _VERSION_BITS) | (int(version) & _VERSION_MASK if is_number else 0)


def _is_same(fresh: _Version, known: _Version) -> bool:
    """Return whether an object is a known one in the same version."""
    return fresh == known and fresh & _VERSION_MASK > 0


def _is_old(fresh: _Version, known: _Version) -> bool:
    """Return whether an object is a known one in the same version or an older one."""
    if fresh >> _VERSION_BITS != known >> _VERSION_BITS:
        return False
    return 0 < fresh & _VERSION_MASK <= known & _VERSION_MASK


class ClusterWatch:
    """Keeps objects equal to a cluster.

    Arguments:
        server: sends the requests.
        objects: takes every object.
        timings: all times.
        resources: the kinds to follow, as far as ``objects`` takes them.
    """

    def __init__(
        self,
        server: ApiServer,
        objects: ReflectedObjects,
        timings: Timings,
        resources: Sequence[WatchedResource] = (*NEEDED, *OTHERS),
    ) -> None:
        self._timings = timings
        self._reflectors = {
            resource.kind: Reflector(
                resource, server, objects, timings, trim=_TRIM.get(resource.kind, _trim)
            )
            for resource in resources
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
            reflector.pauses.hurry()

    def is_stale(self, now: float) -> bool:
        """Return whether the watch of a needed kind fails, or is silent for too long."""
        needed = [self._reflectors[each.kind] for each in NEEDED if each.kind in self._reflectors]
        most = self._timings.inactivity
        return any(_error(each) or now - each.last_sign_of_life > most for each in needed)

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


def _trim(obj: dict[str, object]) -> dict[str, object]:
    """Remove the fields of a listed object that are large and without a reader."""
    obj.pop("status", None)
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return obj


def _trim_workload(obj: dict[str, object]) -> dict[str, object]:
    """Remove most of a workload: the scaler reads replicas, and labels and requests of pods."""
    match _trim(obj):
        case {"spec": {"template": {"spec": dict(pod)} as template}}:
            template["spec"] = {
                kind: [{key: each.get(key) for key in _OF_CONTAINERS} for each in pod[kind]]
                for kind in ("containers", "initContainers")
                if pod.get(kind)
            }
    return obj


_OF_CONTAINERS: Final = "resources", "restartPolicy"


_TRIM: Final[Mapping[str, Trim]] = {"Deployment": _trim_workload, "StatefulSet": _trim_workload}
