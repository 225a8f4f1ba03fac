"""The kinds of the dialect keda: route objects, their Services, slices and ConfigMaps.

Joins each route object (HTTPScaledObject or InterceptorRoute) with the objects that it names, and
passes changed values to a sink. An event costs as much as the route objects that it concerns. Must
not know where objects come from, nor which of them are in force.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeVar

from activator.discovery.dialect import JoiningDialect, ObjectKind, Scope, claim_of
from activator.discovery.source import Sink
from activator.keda import objects
from activator.keda.objects import ROUTE, SCALED_OBJECT, RouteObject, Target
from activator.keda.revisions import (
    Bodies,
    parse_ports,
    port_of,
    problems_of,
    revision_of,
    route_of,
)
from activator.knative.system_objects import SystemObjects
from activator.objects.fields import ObjectKey
from activator.plain import problems, slices
from activator.plain.problems import ProblemReason, ServiceProblem
from activator.plain.slices import Slice
from activator.plain.workloads import Index
from throttler.model import (
    AppProtocol,
    ListedEndpoints,
    Revision,
    RevisionID,
    RevisionKind,
    ServiceRoute,
)

T = TypeVar("T")

_NO_ROUTE: Final = ServiceRoute()


@dataclass(slots=True)
class _Passed:
    """What the sink has of one revision; None for nothing."""

    revision: Revision | None = None
    endpoints: Mapping[AppProtocol, ListedEndpoints] | None = None


@dataclass(slots=True)
class _Known:
    """The objects of one name, and the values that the sink has of them.

    Attributes:
        objects: by kind.
        uses: the Services and ConfigMaps that the object in force names.
        passed: by the kind of the revision.
    """

    objects: dict[str, RouteObject] = field(default_factory=dict)
    uses: frozenset[ObjectKey] = frozenset()
    passed: dict[RevisionKind, _Passed] = field(default_factory=dict)
    route: ServiceRoute = _NO_ROUTE

    @property
    def in_force(self) -> RouteObject | None:
        """The object that counts: an InterceptorRoute hides an HTTPScaledObject."""
        return self.objects.get(ROUTE) or self.objects.get(SCALED_OBJECT)


def _of_namespace(
    parse: Callable[[object], T | None],
) -> Callable[[ObjectKey, object, Scope], T | None]:
    """Return a parser of the objects of the only namespace that counts, or of all namespaces."""
    return lambda key, obj, scope: (
        parse(obj) if scope.interceptor.watch_namespace in ("", key.namespace) else None
    )


def _unknown_fields(obj: object, found: RouteObject | None, scope: Scope) -> str:
    """Return the unknown fields of an object of a folder: elsewhere the API server drops them."""
    return objects.unknown_fields(obj, found.kind) if scope.folder and found else ""


class KedaDialect(JoiningDialect):
    """All route objects of the KEDA HTTP add-on.

    Arguments:
        sink: takes changed values. It keeps a deleted route object for some seconds.
        scope: the family of addresses, the ports of this process, and the add-on's settings.
    """

    name = "keda"
    main: ClassVar[tuple[str, ...]] = (SCALED_OBJECT, ROUTE)
    revision_kind: ClassVar[RevisionKind | None] = RevisionKind.HTTP_ROUTE

    def __init__(self, sink: Sink, system: SystemObjects, scope: Scope) -> None:
        super().__init__(sink, system, scope)
        self._known: dict[RevisionID, _Known] = {}
        # The route objects that name a Service or a ConfigMap.
        self._users: Index[ObjectKey, RevisionID] = Index()
        # Of a Service its ports; of a ConfigMap its bodies.
        self._named: dict[ObjectKey, Any] = {}
        self._slices: dict[ObjectKey, dict[ObjectKey, Slice]] = {}

    # -- objects ------------------------------------------------------------------------------

    def put_route(self, key: ObjectKey, old: RouteObject | None, new: RouteObject | None) -> None:
        """Replace a route object; None if it is deleted."""
        id_ = RevisionID(key.namespace, key.name, RevisionKind.HTTP_ROUTE)
        known = self._known.setdefault(id_, _Known())
        if new is None:
            known.objects.pop(key.kind, None)
        else:
            known.objects[key.kind] = new
        uses = _uses(known.in_force, key.namespace)
        for each in known.uses - uses:
            self._users.discard(each, id_)
        for each in uses - known.uses:
            self._users.add(each, id_)
        known.uses = uses
        self._changed[id_] = None

    def put_named(self, key: ObjectKey, old: object, new: object) -> None:
        """Replace the ports of a Service, or the bodies of a ConfigMap.

        None stands for a deleted object, a Service without pods by its type, or a ConfigMap without
        the label.
        """
        if new is None:
            self._named.pop(key, None)
        else:
            self._named[key] = new
        self._changed.update(dict.fromkeys(self._users.get(key)))

    def put_slice(self, key: ObjectKey, old: Slice | None, new: Slice | None) -> None:
        """Replace an EndpointSlice; None if it is deleted, or belongs to no Service."""
        for part in (old, new):
            if part is None:
                continue
            service = ObjectKey("Service", key.namespace, part.service)
            parts = self._slices.setdefault(service, {})
            if part is new:
                parts[key] = part
            else:
                parts.pop(key, None)
            if not parts:
                del self._slices[service]
            self._changed.update(dict.fromkeys(self._users.get(service)))

    # -- values -------------------------------------------------------------------------------

    def _publish(self, id_: RevisionID) -> None:
        if (known := self._known.get(id_)) is None:
            return
        found = known.in_force
        if found is None:
            for kind in known.passed:
                self._sink.delete_revision(id_._replace(kind=kind))
            self._claim(self._rules, id_, known.route, _NO_ROUTE)
            self.reports.put(id_, "", ())
            del self._known[id_]
            return
        bodies = {
            name: self._named.get(ObjectKey("ConfigMap", id_.namespace, name))
            for name in found.config_maps
        }
        found_problems = list(problems_of(found, bodies, hides=len(known.objects) > 1))
        targets = {RevisionKind.FALLBACK: found.fallback, RevisionKind.HTTP_ROUTE: found.target}
        for kind, target in targets.items():
            of_kind = id_._replace(kind=kind)
            if target is not None:
                passed = known.passed.setdefault(kind, _Passed())
                of_target = self._pass(of_kind, passed, found, target, bodies)
                if kind is RevisionKind.FALLBACK:  # it keeps no request from the target
                    of_target = (
                        ServiceProblem(ProblemReason.LIMITED, f"the fallback: {each.text}")
                        for each in of_target
                    )
                found_problems += of_target
            elif kind in known.passed:
                self._sink.delete_revision(of_kind)
                del known.passed[kind]
        route = route_of(found)
        if known.route != route:
            self._claim(self._rules, id_, known.route, route)
            self._sink.set_route(id_, route)
            known.route = route
        taken = {
            key: f"{owner.kind} {other}"
            for key, other in self._rules.conflicts(claim_of(id_, route.created)).items()
            if (winner := self._rules.winner(key)) and (owner := self._known[winner].in_force)
        }
        found_problems += problems.of_routes(taken)
        self.reports.put(id_, found.kind, found_problems)

    def _pass(
        self, id_: RevisionID, passed: _Passed, found: RouteObject, target: Target, bodies: Bodies
    ) -> Iterable[ServiceProblem]:
        """Pass on a revision and its pods, and return what is wrong with its Service."""
        service = ObjectKey("Service", id_.namespace, target.service)
        port, problem = port_of(target, self._named.get(service))
        revision = revision_of(id_, found, port, problem, bodies, self._scope.interceptor)
        if passed.revision != revision:
            self._sink.set_revision(revision)
            passed.revision = revision
        endpoints: Mapping[AppProtocol, ListedEndpoints] = {}
        if port is None:
            known = service in self._named
            reason = ProblemReason.NO_SUCH_PORT if known else ProblemReason.NO_SUCH_SERVICE
            found_problems = [ServiceProblem(reason, f"{problem}, so requests wait")]
        else:
            listed = self._slices.get(service, {}).values()
            endpoints, own = self._behind(port, listed)
            found_problems = [*problems.of_slices(port, listed), *problems.of_own_ports(own)]
        if passed.endpoints != endpoints:
            self._sink.set_endpoints(id_, endpoints)
            passed.endpoints = endpoints
        return found_problems

    # -- problems -----------------------------------------------------------------------------

    def settled(self, unread: Collection[str]) -> None:
        self.reports.settle()

    kinds: ClassVar[Mapping[str, ObjectKind[Any]]] = {
        SCALED_OBJECT: ObjectKind(
            objects.GROUP,
            _of_namespace(objects.parse_scaled_object),
            put_route,
            _unknown_fields,
        ),
        ROUTE: ObjectKind(
            objects.GROUP, _of_namespace(objects.parse_route), put_route, _unknown_fields
        ),
        "Service": ObjectKind("", _of_namespace(parse_ports), put_named),
        "EndpointSlice": ObjectKind("discovery.k8s.io", _of_namespace(slices.parse), put_slice),
        "ConfigMap": ObjectKind("", _of_namespace(objects.parse_body), put_named),
    }


def _uses(found: RouteObject | None, namespace: str) -> frozenset[ObjectKey]:
    """Return the Services and ConfigMaps that a route object names."""
    if found is None:
        return frozenset()
    services = {each.service for each in (found.target, found.fallback) if each is not None}
    return frozenset(
        (
            *(ObjectKey("Service", namespace, name) for name in services),
            *(ObjectKey("ConfigMap", namespace, name) for name in found.config_maps),
        )
    )
