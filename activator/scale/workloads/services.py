"""Joins each Service that opts in with its workload and its ready pods.

Pure: objects go in by the views, and the names of changed Services come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from sys import intern
from typing import NamedTuple, TypeVar, final

from activator.discovery.object_warnings import Effect
from activator.objects.fields import ManifestError, ObjectKey, root
from activator.plain import service
from activator.plain import service as services
from activator.plain.annotations import Annotations, Route
from activator.plain.service import Fronts, PlainService, Selecting
from activator.scale.cluster.objects import View
from activator.scale.reports.load import Name
from activator.scale.workloads.readiness import Readiness
from activator.scale.workloads.targets import Found, Workloads

T = TypeVar("T")


class Joined(NamedTuple):
    """A Service with everything that is known of it.

    Attributes:
        ready: pods behind its buffered port that are ready.
    """

    service: PlainService
    found: Found
    ready: int


@final
class Services:
    """All Services that opt in (objects.View).

    Arguments:
        changed: called with each Service that has changed, or is gone. It may be called several
            times for one event.
    """

    def __init__(self, changed: Callable[[Name], object] = lambda name: None) -> None:
        self._changed = changed
        self._services: dict[Name, PlainService] = {}
        self._fronts = Fronts()
        self.readiness = Readiness(self._part_changed)
        self.workloads = Workloads(self._part_changed)

    def put(self, key: ObjectKey, obj: object) -> None:
        """See objects.View. An invalid Service is known as well, so that people see the reason."""
        self._select(key, _shared(service.parse_pods_service(obj)))
        try:
            found = services.parse(obj)
        except ManifestError as error:
            self._set(key, self._invalid(key, obj, error))
            raise
        if found is None:
            self._leave(key)
        else:
            self._set(key, found)

    def _select(self, key: ObjectKey, selecting: Selecting | None) -> None:
        """Record what a Service selects, and renew the fronts before it."""
        for front in self._fronts.select(key, selecting):
            self._renew(Name(front.namespace, front.name))

    def _renew(self, name: Name) -> None:
        self.workloads.follow(name, self._fronts.resolve(self._services[name]))
        self._changed(name)

    def _invalid(self, key: ObjectKey, obj: object, error: ManifestError) -> PlainService:
        """Return the last good state or safe defaults, with a warning; or a refused Service."""
        known = self._services.get(Name(key.namespace, key.name))
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
        return PlainService(key, uid, created, {}, asks, None, str(error), is_good=False)

    def _set(self, key: ObjectKey, found: PlainService) -> None:
        name = Name(key.namespace, key.name)
        # Most Services ask for the same, and the value of a selector is often the Service's name.
        found = replace(
            found,
            key=key,
            selector={label: intern(value) for label, value in found.selector.items()},
            asks=_shared(found.asks),
            port=_shared(found.port),
        )
        if (before := self._services.get(name)) != found:
            self._fronts.move(key, before, found)
            self._services[name] = found
            self._renew(name)

    def remove(self, key: ObjectKey) -> None:
        """See objects.View."""
        self._select(key, None)
        self._leave(key)

    def _leave(self, key: ObjectKey) -> None:
        """Record that a Service does not opt in any more."""
        name = Name(key.namespace, key.name)
        service = self._services.pop(name, None)
        if service is not None:
            self._fronts.move(key, service, None)
            self.workloads.leave(name)
            self._changed(name)

    def get(self, name: Name) -> Joined | None:
        """Return a Service; None if it does not exist or does not opt in."""
        service = self._services.get(name)
        if service is None:
            return None
        service, ready = self._fronts.resolve(service), 0
        if service.port is not None:
            pods = Name(service.pods.namespace, service.pods.name)
            ready = self.readiness.ready(pods, service.port.name)
        return Joined(service, self.workloads.find(service), ready)

    def views(self) -> Mapping[str, View]:
        """Return the view of each kind."""
        return {
            "Service": self,
            "EndpointSlice": self.readiness,
            "Deployment": self.workloads,
            "StatefulSet": self.workloads,
        }

    def __contains__(self, name: Name) -> bool:
        return name in self._services

    def __iter__(self) -> Iterator[Name]:
        return iter(self._services)

    def __len__(self) -> int:
        return len(self._services)

    def with_fronts(self, name: Name) -> Iterator[Name]:
        """Yield the Services that opt in among a Service and its fronts."""
        for key in (ObjectKey("Service", *name), *self._fronts.of.get(ObjectKey("Service", *name))):
            if (each := Name(key.namespace, key.name)) in self._services:
                yield each

    def _part_changed(self, name: Name) -> None:
        for each in self.with_fronts(name):
            self._changed(each)


@lru_cache(maxsize=1024)
def _shared(value: T) -> T:
    """Return the first of equal values."""
    return value
