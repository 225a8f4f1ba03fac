"""Declares a dialect: a table of kinds, and the state that sums up their objects.

A dialect is one way to describe revisions by objects: Knative's Revisions, or annotated Services.
Must not know the meaning of objects, nor which are in force.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from activator.discovery.endpoints import EndpointsSource, IpFamily
from activator.discovery.source import Sink
from activator.keda.revisions import InterceptorDefaults
from activator.knative.system_objects import SystemObjects
from activator.objects.fields import ManifestError, ObjectKey, root
from activator.plain.problems import ServiceProblem
from activator.plain.revisions import endpoints_of
from activator.plain.route_table import RouteTable, claim_of
from activator.plain.service import BufferedPort
from activator.plain.slices import NO_LISTENERS, Allotment, OwnListeners, Slice, join
from activator.plain.workloads import KINDS, Matches, PlainWorkload
from activator.plain.workloads import parse as parse_workload
from activator.records.source_status import ObjectWarning
from throttler.model import (
    AppProtocol,
    ListedEndpoints,
    Revision,
    RevisionID,
    RevisionKind,
    ServiceRoute,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
K = TypeVar("K")

_Endpoints = Mapping[AppProtocol, ListedEndpoints]

#: Most problems that the log has at once.
_MOST_LOGGED: Final = 100


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects count, and how to read them.

    Attributes:
        system_namespace: the namespace whose ConfigMaps and Secrets count; None for all namespaces.
        endpoints: whether Endpoints or EndpointSlices list the pods.
        family: the family of this process, which counts if slices list both families.
        readiness_policy: the policy of Revisions without the annotation, see revisions.parse.
        cluster_domain: the suffix of the names of Services.
        services: whether annotated Services or route objects count. Then an EndpointSlice without
            Knative's labels is no mistake.
        folder: whether objects come from a folder, where each one is meant for the activator.
        own: the ports on which this process listens: none of them is a pod of a Service.
        activators: namespace and name of the Service of the activators; None without a cluster.
        interceptor: what the settings say for all objects of the KEDA HTTP add-on.
    """

    system_namespace: str | None = None
    endpoints: EndpointsSource = EndpointsSource.AUTO
    family: IpFamily = IpFamily.IPV4
    readiness_policy: str = "auto"
    cluster_domain: str = "cluster.local"
    services: bool = False
    folder: bool = False
    own: OwnListeners = NO_LISTENERS
    activators: tuple[str, str] | None = None
    interceptor: InterceptorDefaults = InterceptorDefaults()  # noqa: RUF009  # frozen


@dataclass(frozen=True, slots=True)
class ObjectKind(Generic[T]):
    """One kind of objects.

    Attributes:
        group: its API group; empty for the core group. The kind alone is not enough: Knative has
            another kind ``Service``.
        parse: returns the value of an object; None if the object has no effect. Raises
            ``ManifestError``.
        put: replaces an object's value in the dialect's state. None stands for no object, or no
            effect.
        warning: returns which part of an object has no effect; empty if each part has one.
    """

    group: str
    parse: Callable[[ObjectKey, object, Scope], T | None]
    put: Callable[[Any, ObjectKey, T | None, T | None], None]
    warning: Callable[[object, T | None, Scope], str] = lambda obj, parsed, scope: ""


class ProblemReports:
    """The problems that several objects cause together, by revision.

    Until all kinds have been read, an object that is missing may only be late: nothing is logged.
    """

    def __init__(self) -> None:
        self._known: dict[RevisionID, tuple[str, tuple[ServiceProblem, ...]]] = {}
        self.is_settled = False

    def put(self, id_: RevisionID, kind: str, found: Iterable[ServiceProblem]) -> None:
        """Replace the problems of a revision, and log the new ones.

        Arguments:
            kind: of its object.
        """
        _, before = self._known.pop(id_, ("", ()))
        if now := tuple(found):
            self._known[id_] = kind, now
        if self.is_settled:
            for problem in now:
                if problem not in before:
                    _log_problem(id_, kind, problem)

    def settle(self) -> None:
        """Log the problems that are left, once all kinds have been read."""
        self.is_settled = True
        found = list(islice(self, _MOST_LOGGED + 1))
        for each in found[:_MOST_LOGGED]:
            _log_problem(*each)
        if len(found) > _MOST_LOGGED:
            logger.warning("more objects have problems: the admin API lists them")

    def __iter__(self) -> Iterator[tuple[RevisionID, str, ServiceProblem]]:
        """Iterate over all problems, with the kinds of their objects."""
        for id_, (kind, found) in self._known.items():
            for problem in found:
                yield id_, kind, problem

    def warnings(self) -> Iterable[ObjectWarning]:
        """Yield all problems as warnings."""
        for id_, kind, (reason, text) in self:
            yield ObjectWarning(kind, *id_[:2], id_.name, text, reason.value, id_.kind)


def _log_problem(id_: RevisionID, kind: str, problem: ServiceProblem) -> None:
    logger.warning(
        "%s %s: %s: %s",
        kind,
        id_,
        problem.reason,
        problem.text,
        extra={"object_kind": kind, "reason": problem.reason.value},
    )


def drain(changed: dict[K, None], publish: Callable[[K], None]) -> Iterator[None]:
    """Publish each key in a step of its own; other tasks may run between the steps.

    Arguments:
        changed: a dict, not a set: it keeps the order of the changes. A key stays in it until the
            sink has taken its value.
    """
    while changed:
        key = next(iter(changed))
        publish(key)
        del changed[key]
        yield


class Dialect:
    """One dialect: its kinds, and the sums of its objects. It passes changed sums to the sinks.

    Arguments:
        sink: takes revisions and their pods.
        system: takes the configuration of the activator.
        scope: which objects count, and how to read them.

    Attributes:
        name: as in the setting ``dialect``.
        main: the kinds of objects that revisions are made of; empty if there are no revisions.
        revision_kind: the kind of these revisions; None if there are none.
        label: the label of other kinds that names the revision of an object; empty for none.
        kinds: its kinds. The types within a row agree, which the type cannot express.
    """

    name: ClassVar[str]
    main: ClassVar[tuple[str, ...]] = ()
    revision_kind: ClassVar[RevisionKind | None] = None
    label: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, ObjectKind[Any]]]

    def __init__(self, sink: Sink, system: SystemObjects, scope: Scope) -> None:
        self._sink = sink
        self._system = system
        self._scope = scope

    def publishing(self) -> Iterator[None]:
        """Pass on the sums that have changed, one in each step."""
        raise NotImplementedError

    def warnings(self) -> Iterable[ObjectWarning]:
        """Return the problems that several objects cause together; by default there are none."""
        return ()

    def settled(self, unread: Collection[str]) -> None:
        """Record that all kinds have been read once: from now on a missing object is missing.

        Arguments:
            unread: the kinds that the cluster lacks, or that no role allows to read.
        """


class Behind(NamedTuple):
    """The pods behind a port of a Service.

    Attributes:
        own: addresses that lead back to this process, with the setting of each port; they are no
            endpoints.
    """

    endpoints: _Endpoints
    own: Mapping[str, str]


NO_ROUTE: Final = ServiceRoute()


@dataclass(slots=True)
class Passed:
    """What the sink has of one revision; None and an empty route for nothing."""

    revision: Revision | None = None
    endpoints: _Endpoints | None = None
    route: ServiceRoute = NO_ROUTE


class JoiningDialect(Dialect):
    """A dialect whose revisions are made of several objects each.

    Attributes:
        reports: the problems of all revisions.
    """

    def __init__(self, sink: Sink, system: SystemObjects, scope: Scope) -> None:
        super().__init__(sink, system, scope)
        self.reports = ProblemReports()
        self._changed: dict[RevisionID, None] = {}
        self._rules: RouteTable[RevisionID] = RouteTable()
        # By Service and name: slices that list pods, and slices of the takeover.
        self._slices: dict[ObjectKey, dict[ObjectKey, Slice | Allotment]] = {}
        self._matches: Matches[RevisionID, PlainWorkload] = Matches()
        self._ipv6 = scope.family is IpFamily.IPV6

    def put_slice(
        self, key: ObjectKey, old: Slice | Allotment | None, new: Slice | Allotment | None
    ) -> None:
        """Replace an EndpointSlice; None if it is deleted, or belongs to no Service."""
        parts = [part for part in (old, new) if part is not None]
        services = [ObjectKey("Service", key.namespace, part.service) for part in parts]
        for service, part in zip(services, parts, strict=True):
            known = self._slices.setdefault(service, {})
            known.pop(key, None)
            if part is new:
                known[key] = part
            if not known:
                del self._slices[service]
        for service in dict.fromkeys(services):
            self._mark_users(service)

    def put_workload(
        self, key: ObjectKey, old: PlainWorkload | None, new: PlainWorkload | None
    ) -> None:
        """Replace a Deployment or a StatefulSet; None if it is deleted."""
        labels = new.labels if new is not None else {}
        self._changed.update(dict.fromkeys(self._matches.put(key, new, labels)))

    def _mark_users(self, service: ObjectKey) -> None:
        """Mark the revisions that use a Service as changed."""
        raise NotImplementedError

    def _listing(self, service: ObjectKey) -> Collection[Slice]:
        """Return the slices that list the pods of a Service."""
        return [each for each in self._slices.get(service, {}).values() if isinstance(each, Slice)]

    def _claim(
        self, table: RouteTable[RevisionID], id_: RevisionID, old: ServiceRoute, new: ServiceRoute
    ) -> None:
        """Replace the rules that an object claims; publish others again if that decides theirs."""
        if old[:2] != new[:2]:
            claims = claim_of(id_, old.created), claim_of(id_, new.created)
            self._changed.update(dict.fromkeys(table.exchange(*claims, new.rules, id_)))

    def _pass_revision(self, passed: Passed, revision: Revision) -> None:
        if passed.revision != revision:
            self._sink.set_revision(revision)
            passed.revision = revision

    def _pass_endpoints(self, id_: RevisionID, passed: Passed, endpoints: _Endpoints) -> None:
        if passed.endpoints != endpoints:
            self._sink.set_endpoints(id_, endpoints)
            passed.endpoints = endpoints

    def _pass_route(self, id_: RevisionID, passed: Passed, route: ServiceRoute) -> None:
        if passed.route != route:
            self._claim(self._rules, id_, passed.route, route)
            self._sink.set_route(id_, route)
            passed.route = route

    def _behind(self, port: BufferedPort, slices: Collection[Slice]) -> Behind:
        """Return what slices list behind a port of their Service."""
        pods = join(slices, port.name, ipv6=self._ipv6)
        numbers = {each.ports.get(port.name, 0) for each in slices}
        listeners = self._scope.own
        own = listeners.among(pods) if any(map(listeners.has_port, numbers)) else {}
        return Behind(endpoints_of(pods, port, own), own)

    def publishing(self) -> Iterator[None]:
        return drain(self._changed, self._publish)

    def _publish(self, id_: RevisionID) -> None:
        raise NotImplementedError

    def warnings(self) -> Iterable[ObjectWarning]:
        return self.reports.warnings()

    def settled(self, unread: Collection[str]) -> None:
        self.reports.settle()


_WORKLOAD: Final = ObjectKind(
    "apps", lambda key, obj, scope: parse_workload(obj, key.kind), JoiningDialect.put_workload
)
WORKLOAD_KINDS: Final = dict.fromkeys(KINDS, _WORKLOAD)

# Records and logs unusable objects, and the parts of valid objects that have no effect.


def revision_of(key: ObjectKey, obj: object, dialect: Dialect) -> str:
    """Return the name of the revision that an object belongs to; empty if no label names it."""
    if key.kind in dialect.main:
        return key.name
    try:
        name = root(obj, key.kind)["metadata"]["labels"].at(dialect.label).value
    except ManifestError:  # the object is broken, too
        return ""
    return name if isinstance(name, str) else ""


class ObjectWarnings:
    """The current warnings, one for each object.

    Arguments:
        revision_kind: the kind of the revisions that the objects belong to.
        limit: maximum of warnings; the log reports once that there are more.
    """

    def __init__(self, revision_kind: RevisionKind | None, limit: int = 100) -> None:
        self._revision_kind = revision_kind
        self._limit = limit
        self._is_full = False
        self._by_object: dict[ObjectKey, ObjectWarning] = {}

    def __iter__(self) -> Iterator[ObjectWarning]:
        return iter(self._by_object.values())

    def put(self, key: ObjectKey, revision: str, text: str) -> None:
        """Replace the warning of an object, and log a new text.

        Arguments:
            revision: as from ``revision_of``.
            text: empty if the object has no warning, or none any more.
        """
        warning = ObjectWarning(*key, revision, text, "", self._revision_kind)
        if not text:
            self.remove(key)
        elif self._by_object.get(key) != warning:
            if key not in self._by_object and len(self._by_object) >= self._limit:
                self._log_full()
                return
            self._by_object[key] = warning
            logger.warning("%s: %s", key, text, extra={"object_kind": key.kind})

    def remove(self, key: ObjectKey) -> None:
        """Remove the warning of an object, if it has one."""
        if self._by_object.pop(key, None) is not None:
            self._is_full = False

    def _log_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            logger.warning("more than %d objects have warnings: no more are logged", self._limit)
