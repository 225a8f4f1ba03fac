"""Finds the workload of each Service: by its annotation, or by the Service's selector.

Pure. Both directions have an index, so that one event costs no more with more objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from sys import intern
from typing import Final, NamedTuple, final

from activator.objects.fields import ObjectKey, root
from activator.plain.annotations import Target as Wanted
from activator.plain.matches import Index
from activator.plain.service import PlainService
from activator.plain.workloads import KINDS
from activator.scale.reports.load import Name
from activator.scale.workloads.actuator import Target
from activator.scale.workloads.subresource import KNOWN, MOST_REPLICAS

#: Candidates that a message names.
_NAMED: Final = 5

_Pair = tuple[str, str, str]  # namespace, name and value of a label


class TargetProblem(Enum):
    """Why a Service has no workload; the value is the reason that people read."""

    NONE = "no-scalable-target"
    SEVERAL = "several-targets"
    UNKNOWN_KIND = "unknown-target-kind"


class Found(NamedTuple):
    """The workload of a Service.

    Attributes:
        target: the object to scale; None if there is none, or if its kind must be looked up.
        replicas: how many it asks for; None if no watch follows it.
        look_up: the kind to look up; None if that is not necessary.
        problem: why there is no target; None if there is one, or may be.
        detail: the problem for people.
    """

    target: Target | None
    replicas: int | None = None
    look_up: Wanted | None = None
    problem: TargetProblem | None = None
    detail: str = ""


@final
class Workloads:
    """The Deployments and StatefulSets of a cluster (objects.View).

    Arguments:
        changed: called with each Service whose workload may have changed.
    """

    def __init__(self, changed: Callable[[Name], object]) -> None:
        self._changed = changed
        self._labels: dict[ObjectKey, tuple[_Pair, ...]] = {}
        self._replicas: dict[ObjectKey, int] = {}
        self._by_label = Index[_Pair, ObjectKey]()
        self._services: dict[Name, PlainService] = {}
        self._by_selector = Index[_Pair, Name]()
        self._by_target = Index[ObjectKey, Name]()

    # -- Deployments and StatefulSets --------------------------------------------------------------

    def put(self, key: ObjectKey, obj: object) -> None:
        """See objects.View."""
        found, replicas = _read(obj, key.kind)
        labels = tuple(_pairs(key.namespace, found))
        if self._labels.get(key) == labels and self._replicas[key] == replicas:
            return
        if self._labels.get(key) != labels:
            self._notify(key)
            self._unindex(key)
            self._labels[key] = labels
            for pair in labels:
                self._by_label.add(pair, key)
        self._replicas[key] = replicas
        self._notify(key)

    def remove(self, key: ObjectKey) -> None:
        """See objects.View."""
        if key in self._labels:
            self._notify(key)
            self._unindex(key)
            del self._labels[key], self._replicas[key]

    def replicas_of(self, target: Target) -> int | None:
        """Return how many replicas a workload asks for; None if no watch follows it."""
        return self._replicas.get(ObjectKey(target.resource.kind, target.namespace, target.name))

    def _unindex(self, key: ObjectKey) -> None:
        for pair in self._labels.get(key, ()):
            self._by_label.discard(pair, key)

    def _notify(self, key: ObjectKey) -> None:
        """Report the Services that have, or may have, a workload."""
        names = {*self._by_target.get(key)}
        for pair in self._labels.get(key, ()):
            names.update(self._by_selector.get(pair))
        for name in names:
            self._changed(name)

    # -- Services ----------------------------------------------------------------------------------

    def follow(self, name: Name, service: PlainService) -> None:
        """Report changes of the workloads that a Service may have."""
        self.leave(name)
        self._services[name] = service
        named = _named(service)
        if named is not None:
            self._by_target.add(named, name)
        elif service.asks.target is None and service.selector:
            pair = next(iter(_pairs(name.namespace, service.selector)))
            self._by_selector.add(pair, name)

    def leave(self, name: Name) -> None:
        """End the effect of ``follow``."""
        service = self._services.pop(name, None)
        if service is None:
            return
        if (named := _named(service)) is not None:
            self._by_target.discard(named, name)
        for pair in _pairs(name.namespace, service.selector):
            self._by_selector.discard(pair, name)

    def find(self, service: PlainService) -> Found:
        """Return the workload of a Service."""
        wanted = service.asks.target
        if wanted is None:
            return self._selected(service)
        resource = KNOWN.get(wanted.kind.lower())
        if wanted.group and (resource is None or wanted.group != resource.group):
            return Found(None, look_up=wanted)
        if resource is None:
            return Found(
                None,
                problem=TargetProblem.UNKNOWN_KIND,
                detail=f"annotation activator.dev/target: {wanted}: the kind {wanted.kind} needs "
                f"its group and version: write GROUP/VERSION/{wanted.kind}/{wanted.name}",
            )
        target = Target(resource, service.key.namespace, wanted.name)
        replicas = self.replicas_of(target)
        if replicas is None and resource.kind in KINDS:
            return Found(
                None,
                problem=TargetProblem.NONE,
                detail=f"annotation activator.dev/target: {target} does not exist",
            )
        return Found(target, replicas)

    def _selected(self, service: PlainService) -> Found:
        selector, namespace = service.selector, service.key.namespace
        pairs = _pairs(namespace, selector)
        smallest = min((self._by_label.get(pair) for pair in pairs), key=len, default=())
        found = [key for key in smallest if all(pair in self._labels[key] for pair in pairs)]
        if len(found) == 1:
            resource = KNOWN[found[0].kind.lower()]
            return Found(Target(resource, namespace, found[0].name), self._replicas[found[0]])
        text = ",".join(f"{name}={value}" for name, value in selector.items())
        if not found:
            detail = (
                f"no Deployment or StatefulSet in {namespace} makes pods with the labels of the "
                f"Service's selector ({text}); name the object by the annotation "
                f"activator.dev/target"
            )
            return Found(None, problem=TargetProblem.NONE, detail=detail)
        names = [f"{key.kind.lower()}/{key.name}" for key in sorted(found)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        detail = (
            f"the Service's selector ({text}) matches {', '.join(names[:_NAMED])}{more}; name one "
            f"by the annotation activator.dev/target"
        )
        return Found(None, problem=TargetProblem.SEVERAL, detail=detail)


def _read(obj: object, kind: str) -> tuple[Mapping[str, str], int]:
    """Return the labels of a workload's pods, and how many it asks for."""
    spec = root(obj, kind)["spec"]
    labels = spec["template"]["metadata"]["labels"]
    return (
        {str(name): intern(labels.at(str(name)).text()) for name in labels.mapping()},
        spec["replicas"].whole(minimum=0, maximum=MOST_REPLICAS, default=1),
    )


def _named(service: PlainService) -> ObjectKey | None:
    """Return the watched object that an annotation names."""
    wanted = service.asks.target
    resource = KNOWN.get(wanted.kind.lower()) if wanted else None
    if wanted is None or resource is None or wanted.group not in ("", resource.group):
        return None
    return ObjectKey(resource.kind, service.key.namespace, wanted.name)


def _pairs(namespace: str, labels: Mapping[str, str]) -> Collection[_Pair]:
    return [(namespace, name, value) for name, value in labels.items()]
