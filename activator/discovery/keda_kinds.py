"""The kinds of the dialect keda: route objects, their Services, slices and ConfigMaps.

Joins each route object (HTTPScaledObject or InterceptorRoute) with the objects that it names, and
passes changed values to a sink. An event costs as much as the route objects that it concerns. Must
not know where objects come from, nor which of them are in force.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from activator.discovery.dialect import (
    NO_ROUTE,
    WORKLOAD_KINDS,
    JoiningDialect,
    ObjectKind,
    Passed,
    Scope,
)
from activator.discovery.source import Sink
from activator.keda import objects
from activator.keda.objects import ROUTE, SCALED_OBJECT, RouteObject, Target
from activator.keda.revisions import (
    Bodies,
    parse_service,
    port_of,
    problems_of,
    revision_of,
    route_of,
)
from activator.knative.system_objects import SystemObjects
from activator.objects.fields import ManifestError, ObjectKey
from activator.plain import problems, slices
from activator.plain.problems import ProblemReason, ServiceProblem
from activator.plain.route_table import claim_of
from activator.plain.workloads import Index
from throttler.model import RevisionID, RevisionKind

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known(Passed):
    """The objects of one name, with the values that the sink has of them.

    Attributes:
        objects: by kind.
        uses: the Services and ConfigMaps that the object in force names.
        fallback: what the sink has of its fallback.
    """

    objects: dict[str, RouteObject] = field(default_factory=dict)
    uses: frozenset[ObjectKey] = frozenset()
    fallback: Passed = field(default_factory=Passed)

    @property
    def in_force(self) -> RouteObject | None:
        """The object that counts: an InterceptorRoute hides an HTTPScaledObject."""
        return self.objects.get(ROUTE) or self.objects.get(SCALED_OBJECT)


def _parse(key: ObjectKey, obj: object, scope: Scope) -> RouteObject | None:
    """Return a route object; None if it is in another namespace than the only one that counts."""
    if scope.interceptor.watch_namespace not in ("", key.namespace):
        return None
    try:
        return objects.PARSERS[key.kind](obj)
    except ManifestError as error:  # a misspelt name may be the cause
        texts = filter(None, (error.problem, _unknown(obj, key.kind, scope)))
        raise ManifestError(error.subject, error.path, "; ".join(texts)) from None


def _unknown(obj: object, kind: str, scope: Scope) -> str:
    """Return the unknown fields of an object of a folder: elsewhere the API server drops them."""
    return objects.unknown_fields(obj, kind) if scope.folder else ""


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
        # Of a Service its ports and its selector; of a ConfigMap its bodies.
        self._named: dict[ObjectKey, Any] = {}

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
        """Replace a Service, or the bodies of a ConfigMap.

        None stands for a deleted object, a Service without pods by its type, or a ConfigMap without
        the label.
        """
        if new is None:
            self._named.pop(key, None)
        else:
            self._named[key] = new
        self._mark_users(key)

    def _mark_users(self, service: ObjectKey) -> None:
        self._changed.update(dict.fromkeys(self._users.get(service)))

    # -- values -------------------------------------------------------------------------------

    def _publish(self, id_: RevisionID) -> None:
        id_ = id_._replace(kind=RevisionKind.HTTP_ROUTE)  # also for a workload of the fallback
        if (known := self._known.get(id_)) is None:
            return
        found, fallback = known.in_force, id_._replace(kind=RevisionKind.FALLBACK)
        if found is None:
            self._delete(fallback, known.fallback)
            self._delete(id_, known)
            self._claim(self._rules, id_, known.route, NO_ROUTE)
            self.reports.put(id_, "", ())
            del self._known[id_]
            return
        bodies = {
            name: self._named.get(ObjectKey("ConfigMap", id_.namespace, name))
            for name in found.config_maps
        }
        found_problems = list(problems_of(found, bodies, hides=len(known.objects) > 1))
        if found.fallback is None:
            self._delete(fallback, known.fallback)
        else:  # a problem of the fallback keeps no request from the target
            of_fallback = self._join(fallback, known.fallback, found, found.fallback, bodies)
            found_problems += (
                ServiceProblem(ProblemReason.LIMITED, f"the fallback: {each.text}")
                for each in of_fallback
            )
        found_problems += self._join(id_, known, found, found.target, bodies)
        route = route_of(found)
        self._pass_route(id_, known, route)
        taken = {
            key: f"{owner.kind} {other}"
            for key, other in self._rules.conflicts(claim_of(id_, route.created)).items()
            if (winner := self._rules.winner(key)) and (owner := self._known[winner].in_force)
        }
        found_problems += problems.of_routes(taken)
        self.reports.put(id_, found.kind, found_problems)

    def _delete(self, id_: RevisionID, passed: Passed) -> None:
        if passed.revision is not None:
            self._sink.delete_revision(id_)
        passed.revision = passed.endpoints = None  # the sink removes the pods too
        self._matches.unfollow(id_)

    def _join(
        self, id_: RevisionID, passed: Passed, found: RouteObject, target: Target, bodies: Bodies
    ) -> Iterable[ServiceProblem]:
        """Pass on a revision and its pods, and return what is wrong with its Service."""
        service = ObjectKey("Service", id_.namespace, target.service)
        named = self._named.get(service)
        port = port_of(target, named)
        wish = id_.namespace, named.selector if named else (), None
        self._matches.follow(id_, *wish)
        workloads = self._matches.find(*wish)
        workload = workloads[0] if len(workloads) == 1 else None
        self._pass_revision(
            passed, revision_of(id_, found, port, bodies, self._scope.interceptor, workload)
        )
        if isinstance(port, ServiceProblem):
            self._pass_endpoints(id_, passed, {})
            return [port._replace(text=f"{port.text}, so requests wait")]
        listed = self._listing(service)
        endpoints, own = self._behind(port, listed)
        self._pass_endpoints(id_, passed, endpoints)
        return [*problems.of_slices(port, listed), *problems.of_own_ports(own)]

    def settled(self, unread: Collection[str]) -> None:
        missing = [f"{kind.lower()}s" for kind in unread if kind in WORKLOAD_KINDS]
        if missing and not self.reports.is_settled:
            logger.info(
                "%s of API group apps cannot be read, so a pod gets requests only once Kubernetes "
                "lists it as ready; to ask its readiness probe before that, allow list and watch "
                "of both kinds, as manifests/keda-http/workloads.yaml does",
                " and ".join(missing),
            )
        super().settled(unread)

    kinds: ClassVar[Mapping[str, ObjectKind[Any]]] = {
        **dict.fromkeys(
            main,
            ObjectKind(
                *(objects.GROUP, _parse, put_route),
                lambda obj, found, scope: _unknown(obj, found.kind, scope) if found else "",
            ),
        ),
        "Service": ObjectKind("", lambda key, obj, scope: parse_service(obj), put_named),
        "EndpointSlice": ObjectKind(
            "discovery.k8s.io", lambda key, obj, scope: slices.parse(obj), JoiningDialect.put_slice
        ),
        "ConfigMap": ObjectKind("", lambda key, obj, scope: objects.parse_body(obj), put_named),
        **WORKLOAD_KINDS,
    }


def _uses(found: RouteObject | None, namespace: str) -> frozenset[ObjectKey]:
    """Return the Services and ConfigMaps that a route object names."""
    if found is None:
        return frozenset()
    names = [("Service", each.service) for each in (found.target, found.fallback) if each]
    names += [("ConfigMap", name) for name in found.config_maps]
    return frozenset(ObjectKey(kind, namespace, name) for kind, name in names)
