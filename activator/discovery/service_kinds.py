"""The kinds of the services dialect: annotated Services, their slices and their workloads.

Joins each Service with its slices and its workload, and passes changed values to a sink. An event
costs as much as the Services that it concerns. A further kind needs a further row of ``kinds``.
Must not know where objects come from, nor which of them are in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from activator.discovery.dialect import (
    NO_ROUTE,
    WORKLOAD_KINDS,
    JoiningDialect,
    ObjectKind,
    Passed,
    Scope,
)
from activator.discovery.source import Sink
from activator.knative.system_objects import SystemObjects
from activator.knative.words import SERVICE_TYPE_LABEL
from activator.objects import policies
from activator.objects.fields import ManifestError, ObjectKey, root
from activator.plain import problems, service, slices
from activator.plain.annotations import ENABLED, KNOWN
from activator.plain.problems import ServiceProblem
from activator.plain.revisions import revision_id, revision_of, route_of
from activator.plain.route_table import RouteKey, RouteTable, claim_of, names_of_others
from activator.plain.service import BufferedPort, Fronts, PlainService, Selecting
from activator.plain.slices import Allotment, Condition
from activator.plain.workloads import KINDS as WORKLOADS
from activator.plain.workloads import PlainWorkload
from throttler.model import RevisionID, RevisionKind, ServiceRoute
from throttler.request_policies import RouteRule


@dataclass(slots=True)
class _Known(Passed):
    """A Service with the values that the sink has of it.

    Attributes:
        pods: the Service whose slices list the pods.
        service: as its annotations have it; None if it does not opt in.
        allotted: its oldest takeover slice, as last claimed; None without one.
        port: the last buffered port. Pods of a deleted Service may finish requests behind it.
        joined: the port whose endpoints the sink has, with ``pods``; None if a slice has changed
            since.
        activators: as last passed to the sink, with the zone of each.
        own: endpoints that lead back to this process, with the setting of each port.
    """

    pods: ObjectKey = field(kw_only=True)
    service: PlainService | None = None
    allotted: Allotment | None = None
    port: BufferedPort | None = None
    joined: tuple[BufferedPort, ObjectKey] | None = None
    activators: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


class _Read(NamedTuple):
    """A Service that opts in, or None; and its selector and ports, for Services of route ``front``.

    It is true if the Service opts in: only that is a state that an error keeps.
    """

    service: PlainService | None
    selecting: Selecting | None

    def __bool__(self) -> bool:
        return self.service is not None


def _parse_service(key: ObjectKey, obj: object, scope: Scope) -> _Read:
    selecting = service.parse_pods_service(obj)
    try:
        return _Read(service.parse(obj), selecting)
    except ManifestError as error:
        if error.instead is not None:
            error.instead = _Read(error.instead, selecting)
        raise


def _warn_service(obj: object, parsed: _Read | None, scope: Scope) -> str:
    """Return that a Service does not opt in, if it is from a folder, or seems to be meant to."""
    if parsed:
        return ""
    found = root(obj, "Service")
    metadata, spec = found["metadata"], found["spec"]
    odd = policies.unknown(metadata["annotations"], KNOWN)
    meant = ", ".join(name for name, near in odd.items() if near == ENABLED)
    if not (scope.folder or meant):
        return ""
    of_knative = metadata["labels"].at(SERVICE_TYPE_LABEL).value is not None
    says_no = metadata["annotations"].at(ENABLED).value is not None
    if of_knative or says_no or not spec["selector"].mapping():
        return ""
    hint = f", only {meant}" if meant else ""
    return f'not used, since it has no annotation {ENABLED}: "true"{hint}'


class ServicesDialect(JoiningDialect):
    """All annotated Services.

    Arguments:
        sink: takes changed values.
        scope: the family of addresses, the domain of the cluster, the ports on which this process
            listens, and the Service of the activators.
    """

    name = "services"
    main: ClassVar[tuple[str, ...]] = ("Service",)
    revision_kind: ClassVar[RevisionKind | None] = RevisionKind.SERVICE
    label = slices.SERVICE_LABEL

    def __init__(self, sink: Sink, system: SystemObjects, scope: Scope) -> None:
        super().__init__(sink, system, scope)
        self._peers = ObjectKey("Service", *scope.activators) if scope.activators else None
        self._activators: Mapping[str, str] = {}  # the zone of each
        self._known: dict[RevisionID, _Known] = {}
        self._fronts = Fronts()
        # A port is as a host: of two Services that claim one, the older has it.
        self._ports: RouteTable[RevisionID] = RouteTable()
        self._reads_workloads = True

    # -- objects ------------------------------------------------------------------------------

    def put_service(self, key: ObjectKey, old: _Read | None, new: _Read | None) -> None:
        """Replace a Service; None if it is deleted."""
        found, selecting = new if new is not None else (None, None)
        known = self._known.setdefault(revision_id(key), _Known(pods=key))
        self._fronts.move(key, known.service, found)
        known.service = found
        known.pods = key if found is None else found.pods
        for each in (key, *self._fronts.select(key, selecting)):
            self._follow(each)

    def _follow(self, key: ObjectKey) -> None:
        """Follow the workloads of a Service, and publish it again."""
        id_ = revision_id(key)
        service = self._resolved(self._known[id_])
        if service is None or service.port is None:
            self._matches.unfollow(id_)
        else:
            self._matches.follow(id_, *service.workload)
        self._changed[id_] = None

    def _resolved(self, known: _Known) -> PlainService | None:
        return None if known.service is None else self._fronts.resolve(known.service)

    def _mark_users(self, service: ObjectKey) -> None:
        for each in (service, *self._fronts.of.get(service)):
            if (known := self._known.get(revision_id(each))) is not None:
                known.joined = None
                self._changed[revision_id(each)] = None
        if service == self._peers:
            self._find_activators(service)

    # -- values -------------------------------------------------------------------------------

    def _publish(self, id_: RevisionID) -> None:
        if (known := self._known.get(id_)) is None:
            return
        service = self._resolved(known)
        if service is None or service.port is None:
            self._withdraw(id_, known)
            found = () if service is None else problems.of_service(service)
            self.reports.put(id_, "Service", found)
        else:
            known.port = service.port
            workloads = self._matches.find(*service.workload)
            workload = workloads[0] if len(workloads) == 1 else None
            self._pass_revision(known, revision_of(service, service.port, workload))
            self._set_endpoints(id_, known)
            if known.activators != self._activators:  # each has its share of the pods
                self._sink.set_activators(id_, {service.port.protocol: self._activators})
                known.activators = self._activators
            self._set_route(id_, known, service)
            self.reports.put(id_, "Service", self._problems(id_, known, service, workloads))
        if known.service is None and known.pods not in self._slices:
            del self._known[id_]

    def _withdraw(self, id_: RevisionID, known: _Known) -> None:
        """Remove a Service. Its endpoints stay as long as slices list them: requests finish."""
        self._claim_port(id_, known, None)
        self._pass_route(id_, known, NO_ROUTE)
        if known.revision is not None:
            self._sink.delete_revision(id_)
            known.revision = None
        self._set_endpoints(id_, known)

    def _set_endpoints(self, id_: RevisionID, known: _Known) -> None:
        if known.port is None or known.joined == (known.port, known.pods):
            return
        endpoints, known.own = self._behind(known.port, self._listing(known.pods))
        self._pass_endpoints(id_, known, endpoints)
        known.joined = known.port, known.pods

    def _find_activators(self, peers: ObjectKey) -> None:
        """Find the activators in the slices of their own Service; they share all pods.

        A pod has an address in one family, and so has an activator. One that is not ready gets no
        requests. The last one that ends keeps its share.
        """
        slices = (each for each in self._listing(peers) if each.is_ipv6 is self._ipv6)
        listed = chain.from_iterable(each.endpoints for each in slices)
        ready = {pod.ip: pod.zone for pod in listed if pod.condition is Condition.READY}
        if ready != self._activators:
            self._activators = ready
            self._changed.update(dict.fromkeys(self._known))

    def _set_route(self, id_: RevisionID, known: _Known, service: PlainService) -> None:
        parts = self._slices.get(service.key, {}).values()
        allotments = [each for each in parts if isinstance(each, Allotment)]
        allotment = min(allotments, default=None)
        self._claim_port(id_, known, allotment)
        port = 0 if allotment is None else allotment.port
        if self._ports.winner(RouteKey(str(port))) != id_:
            port = 0
        if self._scope.folder and service.asks.tcp.chosen:
            port = service.asks.tcp.listen_port or port
        route = route_of(service, allotments, port, self._scope.cluster_domain)
        self._pass_route(id_, known, route)

    def _claim_port(self, id_: RevisionID, known: _Known, allotment: Allotment | None) -> None:
        before, known.allotted = known.allotted, allotment
        old, new = (
            NO_ROUTE
            if each is None or not each.port
            else ServiceRoute(each.created, (RouteRule((str(each.port),)),))
            for each in (before, allotment)
        )
        self._claim(self._ports, id_, old, new)

    # -- problems -----------------------------------------------------------------------------

    def settled(self, unread: Collection[str]) -> None:
        """Log the problems that are left: from now on a missing object is missing.

        Arguments:
            unread: the kinds that cannot be read. Without workloads, none of them is missing.
        """
        if self.reports.is_settled:
            return
        self._reads_workloads = set(WORKLOADS).isdisjoint(unread)
        if not self._reads_workloads:
            self._changed.update(dict.fromkeys(self._known))
            for _ in self.publishing():
                pass
        self.reports.settle()

    def _problems(
        self,
        id_: RevisionID,
        known: _Known,
        service: PlainService,
        workloads: list[PlainWorkload],
    ) -> Iterator[ServiceProblem]:
        assert service.port is not None
        yield from problems.of_service(service)
        if workloads or self._reads_workloads:
            yield from problems.of_target(service, workloads)
        conflicts = self._rules.conflicts(claim_of(id_, service.created))
        others = names_of_others(service.asks.hosts, str(id_), self._scope.cluster_domain)
        yield from problems.of_hosts(conflicts, others)
        allotted = known.allotted.created if known.allotted else ""
        yield from problems.of_ports(self._ports.conflicts(claim_of(id_, allotted)))
        yield from problems.of_slices(service.port, self._listing(known.pods))
        yield from problems.of_own_ports(known.own)
        if not self._scope.folder:
            yield from problems.of_listen_port(service)
        if self._peers is not None and not self._activators and service.asks.container_concurrency:
            yield problems.of_activators("/".join(self._peers[1:]))

    kinds: ClassVar[Mapping[str, ObjectKind[Any]]] = {
        "Service": ObjectKind("", _parse_service, put_service, _warn_service),
        "EndpointSlice": ObjectKind(
            "discovery.k8s.io",
            lambda key, obj, scope: slices.parse_allotment(obj) or slices.parse(obj),
            JoiningDialect.put_slice,
        ),
        **WORKLOAD_KINDS,
    }
