"""Joins each Service with its slices and its workload, and passes changed values to a sink.

An event costs as much as the Services that it concerns. Must not know the form of objects, nor
which of them are in force: the inventory knows that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from activator.objects.fields import ObjectKey
from activator.plain import problems
from activator.plain.allotments import NO_LISTENERS, Allotment, OwnListeners, PortClaims
from activator.plain.hosts import Claim, Hosts, names_of_others
from activator.plain.matches import Matches, known_target
from activator.plain.problems import Problem
from activator.plain.revisions import endpoints_of, revision_id, revision_of, route_of
from activator.plain.service import Fronts, PlainService, Port, Selecting
from activator.plain.slices import Condition, Slice, join
from activator.plain.workloads import Workload
from throttler.model import (
    AppProtocol,
    ListedEndpoints,
    Revision,
    RevisionID,
    RevisionKind,
    Route,
)

logger = logging.getLogger(__name__)

_NO_ROUTE: Final = Route()
#: Most problems that the log has at once.
_MOST_LOGGED: Final = 100


class ServiceSink(Protocol):
    """Takes Services and their pods. activator.discovery.source has the same for revisions."""

    def set_revision(self, revision: Revision) -> None:
        """Add or replace a revision; another uid means another revision."""

    def delete_revision(self, revision_id: RevisionID) -> None:
        """Remove a deleted revision."""

    def set_endpoints(
        self, revision_id: RevisionID, endpoints: Mapping[AppProtocol, ListedEndpoints]
    ) -> None:
        """Replace all pods of a revision, by protocol."""

    def set_activators(
        self, revision_id: RevisionID, addresses: Mapping[AppProtocol, frozenset[str]]
    ) -> None:
        """Replace the IPs of the activators that share the pods of a revision, by protocol."""

    def set_route(self, revision_id: RevisionID, route: Route) -> None:
        """Replace the hosts and the port of a Service; ``Route()`` if it has none.

        May come before the Service. The caller also resets it when the Service is deleted.
        """


@dataclass(slots=True)
class _Known:
    """The objects of one Service, and the values that the sink has of it.

    Attributes:
        pods: the Service whose slices list the pods; None for a Service that does not opt in.
        port: the last buffered port. Pods of a deleted Service may finish requests behind it.
        joined: the port whose endpoints the sink has, with ``pods``; None if a slice has changed
            since.
        revision, endpoints, activators, route: as last passed to the sink; None, an empty set and
            ``Route()`` for nothing.
        own: endpoints that lead back to this process, with the setting of each port.
    """

    service: PlainService | None = None
    pods: RevisionID | None = None
    slices: dict[ObjectKey, Slice] = field(default_factory=dict)
    allotments: dict[ObjectKey, Allotment] = field(default_factory=dict)
    port: Port | None = None
    joined: tuple[Port, RevisionID | None] | None = None
    revision: Revision | None = None
    endpoints: Mapping[AppProtocol, ListedEndpoints] | None = None
    activators: frozenset[str] = frozenset()
    route: Route = _NO_ROUTE
    own: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self.service is None and not self.slices and not self.allotments


class Services:
    """All annotated Services.

    Arguments:
        sink: takes changed values.
        ipv6: which addresses to use where pods have both families.
        cluster_domain: the suffix of a Service's name in the cluster.
        own: the ports on which this process listens.
        activators: namespace and name of the Service of the activators; None without a cluster.
    """

    def __init__(
        self,
        sink: ServiceSink,
        *,
        ipv6: bool,
        cluster_domain: str,
        own: OwnListeners = NO_LISTENERS,
        activators: tuple[str, str] | None = None,
    ) -> None:
        self._sink = sink
        self._ipv6 = ipv6
        self._cluster_domain = cluster_domain
        self._own = own
        self._peers = RevisionID(*activators, RevisionKind.SERVICE) if activators else None
        self._activators: frozenset[str] = frozenset()
        self._known: dict[RevisionID, _Known] = {}
        self._fronts = Fronts()
        # A dict, not a set: it keeps the order of the changes.
        self._changed: dict[RevisionID, None] = {}
        self._matches: Matches[RevisionID] = Matches()
        self._hosts: Hosts[RevisionID] = Hosts()
        self._ports: PortClaims[RevisionID] = PortClaims()
        self._is_settled = False
        self._reads_workloads = True

    # -- objects ------------------------------------------------------------------------------

    def put_service(
        self, key: ObjectKey, service: PlainService | None, selecting: Selecting | None = None
    ) -> None:
        """Replace a Service.

        Arguments:
            service: None if it is deleted, or does not opt in any more.
            selecting: what it selects; None if it is deleted.
        """
        known = self._known.setdefault(revision_id(key), _Known())
        self._fronts.move(key, known.service, service)
        known.service = service
        known.pods = None if service is None else revision_id(service.pods)
        for each in (key, *self._fronts.select(key, selecting)):
            self._follow(each)

    def _follow(self, key: ObjectKey) -> None:
        """Follow the workloads of a Service, and publish it again."""
        id_ = revision_id(key)
        service = self._resolved(self._known[id_])
        if service is None or service.port is None:
            self._matches.unfollow(id_)
        else:
            target = service.asks.target
            named = None if target is None else known_target(target, key.namespace)
            # A target of an unknown kind has no readable template, and its selector finds others.
            selector = service.selector if target is None else {}
            self._matches.follow(id_, key.namespace, selector, named)
        self._changed[id_] = None

    def _resolved(self, known: _Known) -> PlainService | None:
        return None if known.service is None else self._fronts.resolve(known.service)

    def _slices(self, known: _Known) -> Iterable[Slice]:
        """Return the slices that list the pods of a Service."""
        if known.pods is not None:
            known = self._known.get(known.pods, _Known())
        return known.slices.values()

    def put_slice(
        self, key: ObjectKey, old: Slice | Allotment | None, new: Slice | Allotment | None
    ) -> None:
        """Replace an EndpointSlice; None if it is deleted, or belongs to no Service."""
        finds_activators = False
        for part in (old, new):
            if part is None:
                continue
            service = ObjectKey("Service", key.namespace, part.service)
            known = self._known.setdefault(revision_id(service), _Known())
            for each in map(revision_id, (service, *self._fronts.of.get(service))):
                self._known[each].joined = None
                self._changed[each] = None
                finds_activators |= each == self._peers
            parts: dict[ObjectKey, Slice] | dict[ObjectKey, Allotment]
            parts = known.slices if isinstance(part, Slice) else known.allotments
            if part is new:
                parts[key] = part  # type: ignore[assignment] # both are of one type
            else:
                parts.pop(key, None)
        if finds_activators:
            self._find_activators()

    def put_workload(self, key: ObjectKey, workload: Workload | None) -> None:
        """Replace a Deployment or a StatefulSet; None if it is deleted."""
        self._changed.update(dict.fromkeys(self._matches.put(key, workload)))

    # -- values -------------------------------------------------------------------------------

    def publish_next(self) -> bool:
        """Pass on one changed Service, and return whether there was one.

        A Service stays marked as changed until the sink has taken it.
        """
        for id_ in self._changed:
            known = self._known.get(id_)
            if known is not None:
                self._publish(id_, known)
                if known.is_empty:
                    del self._known[id_]
            del self._changed[id_]
            return True
        return False

    def _publish(self, id_: RevisionID, known: _Known) -> None:
        service = self._resolved(known)
        if service is None or service.port is None:
            self._withdraw(id_, known)
            self._report(id_, known, () if service is None else problems.of_service(service))
        else:
            known.port = service.port
            workloads = self._matches.find(id_)
            workload = workloads[0] if len(workloads) == 1 else None
            self._set_revision(known, revision_of(service, service.port, workload))
            self._set_endpoints(id_, known)
            self._set_activators(id_, known, service.port)
            self._set_route(id_, known, service)
            self._report(id_, known, self._problems(id_, known, service, workloads))

    def _withdraw(self, id_: RevisionID, known: _Known) -> None:
        """Remove a Service. Its endpoints stay as long as slices list them: requests finish."""
        self._pass_route(id_, known, _NO_ROUTE)
        if known.revision is not None:
            self._sink.delete_revision(id_)
            known.revision = None
        self._set_endpoints(id_, known)

    def _set_revision(self, known: _Known, revision: Revision) -> None:
        if known.revision != revision:
            self._sink.set_revision(revision)
            known.revision = revision

    def _set_endpoints(self, id_: RevisionID, known: _Known) -> None:
        if known.port is None or known.joined == (known.port, known.pods):
            return
        slices = self._slices(known)
        pods = join(slices, known.port.name, ipv6=self._ipv6)
        known.own = self._own_addresses(slices, known.port, pods)
        endpoints = endpoints_of(pods, known.port, known.own)
        if known.endpoints != endpoints:
            self._sink.set_endpoints(id_, endpoints)
            known.endpoints = endpoints
        known.joined = known.port, known.pods

    def _own_addresses(
        self, slices: Iterable[Slice], port: Port, pods: Iterable[str]
    ) -> Mapping[str, str]:
        """Return the addresses that lead back to this process, with the setting of each port."""
        numbers = {each.ports.get(port.name, 0) for each in slices}
        return self._own.among(pods) if any(map(self._own.has_port, numbers)) else {}

    def _find_activators(self) -> None:
        """Find the activators in the slices of their own Service; they share all pods.

        A pod has an address in one family, and so has an activator. One that is not ready gets no
        requests. The last one that ends keeps its share.
        """
        known = self._known.get(self._peers) if self._peers else None
        slices = () if known is None else known.slices.values()
        listed = [pod for each in slices if each.is_ipv6 is self._ipv6 for pod in each.endpoints]
        ready = frozenset(pod.ip for pod in listed if pod.condition is Condition.READY)
        if ready != self._activators:
            self._activators = ready
            self._changed.update(dict.fromkeys(self._known))

    def _set_activators(self, id_: RevisionID, known: _Known, port: Port) -> None:
        """Pass on the activators: each has its share of the pods."""
        if known.activators != self._activators:
            self._sink.set_activators(id_, {port.protocol: self._activators})
            known.activators = self._activators

    def _set_route(self, id_: RevisionID, known: _Known, service: PlainService) -> None:
        allotments = known.allotments.values()
        self._claim_port(id_, min(allotments, default=None))
        port = self._ports.granted(id_)
        self._pass_route(id_, known, route_of(service, allotments, port, self._cluster_domain))

    def _pass_route(self, id_: RevisionID, known: _Known, route: Route) -> None:
        before = known.route
        if before == route:
            return
        if route is _NO_ROUTE:
            self._claim_port(id_, None)
        self._claim_hosts(id_, before, route)
        self._sink.set_route(id_, route)
        known.route = route

    def _claim_port(self, id_: RevisionID, allotment: Allotment | None) -> None:
        created, port = ("", 0) if allotment is None else (allotment.created, allotment.port)
        self._mark(id_, self._ports.put(id_, (created, str(id_)), port))

    def _claim_hosts(self, id_: RevisionID, before: Route, route: Route) -> None:
        if (before.created, before.hosts) == (route.created, route.hosts):
            return
        hosts, name = self._hosts, str(id_)
        winners = {host: hosts.winner(host) for host in (*before.hosts, *route.hosts)}
        hosts.remove(Claim(before.created, name))
        if route.hosts:
            hosts.put(Claim(route.created, name), route.hosts, id_)
        for host, winner in winners.items():
            if hosts.winner(host) != winner:
                self._mark(id_, hosts.claimants(host))

    def _mark(self, id_: RevisionID, others: Iterable[RevisionID]) -> None:
        """Publish other Services again: a claim of one Service decides about theirs."""
        self._changed.update((other, None) for other in others if other != id_)

    # -- problems -----------------------------------------------------------------------------

    def settled(self, *, reads_workloads: bool = True) -> None:
        """Record that all objects have been read once, and log the problems that are left.

        Arguments:
            reads_workloads: whether workloads can be read. If not, none of them is missing.
        """
        if self._is_settled:
            return
        self._is_settled = True
        self._reads_workloads = reads_workloads
        if not reads_workloads:
            self._changed.update(dict.fromkeys(self._known))
            while self.publish_next():
                pass
            return
        found = list(islice(self.problems(), _MOST_LOGGED + 1))
        for id_, problem in found[:_MOST_LOGGED]:
            self._log(id_, [problem])
        if len(found) > _MOST_LOGGED:
            logger.warning("more Services have problems: the admin API lists them")

    def problems(self) -> Iterator[tuple[RevisionID, Problem]]:
        """Yield the problems of all Services."""
        for id_, known in self._known.items():
            for problem in known.problems:
                yield id_, problem

    def _problems(
        self,
        id_: RevisionID,
        known: _Known,
        service: PlainService,
        workloads: list[Workload],
    ) -> Iterator[Problem]:
        assert service.port is not None
        yield from problems.of_service(service)
        if workloads or self._reads_workloads:
            yield from problems.of_target(service, workloads)
        conflicts = self._hosts.conflicts(Claim(service.created, str(id_)))
        others = names_of_others(service.asks.hosts, str(id_), self._cluster_domain)
        yield from problems.of_hosts(conflicts, others)
        yield from problems.of_port(*self._ports.refused(id_))
        yield from problems.of_slices(service.port, self._slices(known))
        yield from problems.of_own_ports(known.own)
        if self._peers is not None and not self._activators and service.asks.container_concurrency:
            yield problems.of_activators(str(self._peers))

    def _report(self, id_: RevisionID, known: _Known, found: Iterable[Problem]) -> None:
        before, known.problems = known.problems, tuple(found)
        if self._is_settled:
            self._log(id_, [each for each in known.problems if each not in before])

    @staticmethod
    def _log(id_: RevisionID, found: Iterable[Problem]) -> None:
        for problem in found:
            logger.warning(
                "Service %s: %s: %s",
                id_,
                problem.reason,
                problem.text,
                extra={"object_kind": "Service", "reason": problem.reason.value},
            )
