"""Joins each Service that opts in with its workload and its ready pods.

Pure: objects go in by the views, and the names of changed Services come out. Workloads are found by
the annotation, or by the Service's selector; both directions have an index, so that one event costs
no more with more objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import Any, Final, NamedTuple, final

from activator.discovery.rejections import Effect
from activator.objects.fields import ManifestError, ObjectKey, root, shared
from activator.plain import service as services
from activator.plain.annotations import Annotations, Route
from activator.plain.annotations import NamedTarget as Wanted
from activator.plain.service import Fronts, PlainService, Selecting
from activator.plain.slices import SERVICE_LABEL, count_ready, is_takeover
from activator.plain.workloads import KINDS, Groups, Matches, labels_of
from activator.scale.cluster.watch import KindView
from activator.scale.reasons import ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.workloads.replicas import KNOWN, ScaleTarget

#: Candidates that a message names.
_NAMED: Final = 5


class _Counted(NamedTuple):
    """The ready pods of one slice; ``ports`` are names."""

    family: str
    ports: tuple[str, ...]
    ready: int


@final
class ReadyPods:
    """The ready pods of all Services: numbers alone, since a cluster may have 100,000 pods.

    Arguments:
        changed: called with the Services whose pods may have changed.
    """

    def __init__(self, changed: Callable[[Iterable[ObjectKey]], object]) -> None:
        self._changed = changed
        self._slices = Groups[ObjectKey, _Counted, ObjectKey]()

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed slice.

        Raises:
            ManifestError: a field is wrong; nothing has changed.
        """
        slice_ = root(obj, "EndpointSlice")
        metadata = slice_["metadata"]
        name = metadata["labels"].at(SERVICE_LABEL).text()
        if not name or is_takeover(metadata):
            self.remove(key)
            return
        counted = shared(
            _Counted(
                slice_["addressType"].text(),
                tuple(port["name"].text() for port in slice_["ports"].items()),
                count_ready(slice_["endpoints"]),
            )
        )
        # The view of the takeovers has the same key.
        service = shared(ObjectKey("Service", key.namespace, intern(name)))
        self._changed(self._slices.put(key, service, counted))

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted slice; an unknown one is no error."""
        self._changed(self._slices.remove(key))

    def ready(self, service: ObjectKey, port: str) -> int:
        """Return how many pods behind a port are ready.

        Arguments:
            port: the name of the Service's port.

        A pod with addresses of two families counts once.
        """
        found: dict[str, int] = {}
        for _, each in self._slices.of(service):
            if port in each.ports:
                found[each.family] = found.get(each.family, 0) + each.ready
        return max(found.values(), default=0)


class Found(NamedTuple):
    """The workload of a Service.

    Attributes:
        target: the object to scale; None if there is none, or if its kind must be looked up.
        replicas: how many it asks for; None if no watch follows it.
        look_up: the kind to look up; None if that is not necessary.
        problem: why there is no target; None if there is one, or may be.
        detail: the problem for people.
    """

    target: ScaleTarget | None
    replicas: int | None = None
    look_up: Wanted | None = None
    problem: ScaleReason | None = None
    detail: str = ""


class PodRequests(NamedTuple):
    """What one pod requests: ``cpu`` in cores, ``memory`` in bytes."""

    cpu: float = 0.0
    memory: float = 0.0


class _Watched(NamedTuple):
    """What is known of a workload; ``requests`` as of ``_written_requests``."""

    replicas: int
    requests: tuple[str, ...]


@final
class Workloads:
    """The Deployments and StatefulSets of a cluster.

    Arguments:
        changed: called with the Services whose workload may have changed.
    """

    def __init__(self, changed: Callable[[Iterable[ServiceName]], object]) -> None:
        self._changed = changed
        self._matches = Matches[ServiceName, _Watched]()

    # -- Deployments and StatefulSets --------------------------------------------------------------

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed workload.

        Raises:
            ManifestError: a field is wrong; nothing has changed.
        """
        spec = root(obj, key.kind)["spec"]
        template = spec["template"]
        replicas = spec["replicas"].whole(default=1)
        watched = shared(_Watched(replicas, _written_requests(template["spec"].value)))
        labels = template["metadata"]["labels"].texts()
        self._changed(self._matches.put(key, watched, labels))

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted workload; an unknown one is no error."""
        self._changed(self._matches.put(key, None))

    def requests(self, target: ScaleTarget) -> PodRequests:
        """Return what each pod of a workload requests; zeros if that is unknown or wrong."""
        key = ObjectKey(target.resource.kind, target.namespace, target.name)
        watched = self._matches.get(key)
        return _requested(watched.requests) if watched is not None else PodRequests()

    # -- Services ----------------------------------------------------------------------------------

    def follow(self, name: ServiceName, service: PlainService) -> None:
        """Report changes of the workloads that a Service may have."""
        self._matches.follow(name, *service.workload)

    def leave(self, name: ServiceName) -> None:
        """End the effect of ``follow``."""
        self._matches.unfollow(name)

    def find(self, service: PlainService) -> Found:
        """Return the workload of a Service."""
        wanted = service.asks.target
        if wanted is None:
            return self._selected(service)
        resource = KNOWN.get(wanted.kind.lower())
        if wanted.group and (resource is None or wanted.group != resource.group):
            return Found(None, look_up=wanted)
        if resource is None:
            detail = (
                f"annotation activator.dev/target: {wanted}: the kind {wanted.kind} needs its "
                f"group and version: write GROUP/VERSION/{wanted.kind}/{wanted.name}"
            )
            return Found(None, problem=ScaleReason.UNKNOWN_TARGET_KIND, detail=detail)
        target = ScaleTarget(resource, service.key.namespace, wanted.name)
        watched = self._matches.get(ObjectKey(resource.kind, target.namespace, target.name))
        if watched is None and resource.kind in KINDS:
            detail = f"annotation activator.dev/target: {target} does not exist"
            return Found(None, problem=ScaleReason.NO_SCALABLE_TARGET, detail=detail)
        return Found(target, watched.replicas if watched is not None else None)

    def _selected(self, service: PlainService) -> Found:
        selector, namespace = service.selector, service.key.namespace
        found = self._matches.matching(labels_of(namespace, selector))
        if len(found) == 1 and (watched := self._matches.get(found[0])) is not None:
            resource = KNOWN[found[0].kind.lower()]
            return Found(ScaleTarget(resource, namespace, found[0].name), watched.replicas)
        text = ",".join(f"{name}={value}" for name, value in selector)
        if not found:
            detail = (
                f"no Deployment or StatefulSet in {namespace} makes pods with the labels of the "
                f"Service's selector ({text}); name the object by the annotation "
                f"activator.dev/target"
            )
            return Found(None, problem=ScaleReason.NO_SCALABLE_TARGET, detail=detail)
        names = [f"{key.kind.lower()}/{key.name}" for key in found]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        detail = (
            f"the Service's selector ({text}) matches {', '.join(names[:_NAMED])}{more}; name one "
            f"by the annotation activator.dev/target"
        )
        return Found(None, problem=ScaleReason.SEVERAL_TARGETS, detail=detail)


def _written_requests(pod: Any) -> tuple[str, ...]:
    """Return CPU and memory of each container, and of each sidecar, as a pod template has them.

    They are read when they are shown: nearly all events change the replicas alone.
    """
    found: list[str] = []
    with suppress(AttributeError, TypeError):  # a wrong template has no requests
        sidecars = (each for each in pod.get("initContainers") or () if each.get("restartPolicy"))
        for each in (*pod["containers"], *sidecars):
            requests = (each.get("resources") or {}).get("requests") or {}
            found += (str(requests.get(name) or 0) for name in ("cpu", "memory"))
    return tuple(found)


@lru_cache(maxsize=1024)
def _requested(written: tuple[str, ...]) -> PodRequests:
    """Return the sums of written requests; zeros if one is wrong."""
    with suppress(ManifestError):
        return PodRequests(_sum(written[::2]), _sum(written[1::2]))
    return PodRequests()


def _sum(quantities: Sequence[str]) -> float:
    fields = root({str(at): text for at, text in enumerate(quantities)}, "PodTemplate")
    return sum(fields[str(at)].quantity() for at in range(len(quantities)))


class Joined(NamedTuple):
    """A Service with everything that is known of it.

    Attributes:
        ready: pods behind its buffered port that are ready.
    """

    service: PlainService
    found: Found
    ready: int


@final
class EnabledServices:
    """All Services that opt in.

    Arguments:
        changed: called with Services that have changed, or are gone. It may be called several
            times for one event.
        wakes_all: whether the workload of each must be awake.
    """

    def __init__(
        self,
        changed: Callable[[Iterable[ServiceName]], object] = lambda names: None,
        *,
        wakes_all: bool = False,
    ) -> None:
        self._changed = changed
        self._wakes_all = wakes_all
        self._services: dict[ServiceName, PlainService] = {}
        self._fronts = Fronts()
        self.readiness = ReadyPods(self._pods_changed)
        self.workloads = Workloads(changed)

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed Service; an invalid one too, so that people see the reason.

        Raises:
            ManifestError: a field is wrong; the last good state, or safe defaults, are in force.
        """
        self._select(key, shared(services.parse_pods_service(obj)))
        try:
            found = services.parse(obj)
        except ManifestError as error:
            instead = error.instead if isinstance(error.instead, PlainService) else None
            self._set(key, services.leaving(obj, instead) or self._invalid(key, obj, error))
            raise
        found = services.leaving(obj, found) or found
        if found is None:
            self._leave(key)
        else:
            self._set(key, found)

    def _select(self, key: ObjectKey, selecting: Selecting | None) -> None:
        """Record what a Service selects, and renew the fronts before it."""
        for front in self._fronts.select(key, selecting):
            self._renew(ServiceName(front.namespace, front.name))

    def _renew(self, name: ServiceName) -> None:
        self.workloads.follow(name, self._fronts.resolve(self._services[name]))
        self._changed([name])

    def _invalid(self, key: ObjectKey, obj: object, error: ManifestError) -> PlainService:
        """Return the last good state or safe defaults, with a warning; or a refused Service."""
        known = self._services.get(ServiceName(key.namespace, key.name))
        # A state with safe defaults is better than none.
        if known is not None and (known.is_good or not (error.instead or known.refused)):
            error.instead = None
            return replace(known, warnings=(f"{error}; {Effect.KEPT}",))
        if isinstance(error.instead, PlainService):
            warnings = (f"{error}; {Effect.DEFAULTS}", *error.instead.warnings)
            return replace(error.instead, warnings=warnings, is_good=False)
        metadata = root(obj, "Service")["metadata"]
        uid, created = metadata["uid"].text(), metadata["creationTimestamp"].text()
        asks = Annotations(route=Route.UNREADABLE)
        return PlainService(key, uid, created, (), asks, None, str(error), is_good=False)

    def _set(self, key: ObjectKey, found: PlainService) -> None:
        name = ServiceName(key.namespace, key.name)
        # Most Services ask for the same.
        found = replace(
            found,
            key=key,
            asks=shared(found.asks),
            words=shared(found.words),
            port=shared(found.port),
            families=shared(found.families),
        )
        if (before := self._services.get(name)) != found:
            self._fronts.move(key, before, found)
            self._services[name] = found
            self._renew(name)

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted Service; an unknown one is no error."""
        self._select(key, None)
        self._leave(key)

    def _leave(self, key: ObjectKey) -> None:
        """Record that a Service does not opt in any more."""
        name = ServiceName(key.namespace, key.name)
        service = self._services.pop(name, None)
        if service is not None:
            self._fronts.move(key, service, None)
            self.workloads.leave(name)
            self._changed([name])

    def get(self, name: ServiceName) -> Joined | None:
        """Return a Service; None if it does not exist or does not opt in."""
        service = self._services.get(name)
        if service is None:
            return None
        service, ready = self._fronts.resolve(service), 0
        if self._wakes_all:
            service = services.awake(service)
        if service.port is not None:
            ready = self.readiness.ready(service.pods, service.port.name)
        return Joined(service, self.workloads.find(service), ready)

    def asks(self, name: ServiceName) -> Annotations | None:
        """Return the annotations of a Service; None if it does not exist or does not opt in."""
        service = self._services.get(name)
        return None if service is None else service.asks

    def views(self) -> Mapping[str, KindView]:
        """Return the view of each kind."""
        return {
            "Service": self,
            "EndpointSlice": self.readiness,
            "Deployment": self.workloads,
            "StatefulSet": self.workloads,
        }

    def __contains__(self, name: ServiceName) -> bool:
        return name in self._services

    def __iter__(self) -> Iterator[ServiceName]:
        return iter(self._services)

    def with_fronts(self, service: ObjectKey) -> Sequence[ServiceName]:
        """Return the Services that opt in among a Service and its fronts."""
        keys = (service, *self._fronts.of.get(service))
        names = (ServiceName(key.namespace, key.name) for key in keys)
        return [each for each in names if each in self._services]

    def _pods_changed(self, services: Iterable[ObjectKey]) -> None:
        for each in services:
            self._changed(self.with_fronts(each))
