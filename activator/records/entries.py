"""Keeps the records of each requested revision, and finds them by a request's header fields.

The keys are the bytes of the fields, so that no request needs decoding. Only existing revisions get
an entry, so invented names take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from activator.records.agents import NO_AGENTS, Agents
from activator.records.counters import RevisionCounters
from activator.records.failures import Failures
from activator.records.kept_responses import KeptResponses
from activator.records.wake_lease import WakeLease
from throttler.errors import RevisionNotFound
from throttler.model import RevisionID, RevisionKind, ServiceRoute
from throttler.revision import RevisionThrottler
from throttler.throttler import Throttler, revision_from_host


class Load(Protocol):
    """Counts a revision's concurrent requests over time, for the autoscaler."""

    def request_began(self, now: float) -> None:
        """Count the arrival of a request."""

    def request_ended(self, now: float) -> None:
        """Count the end of a request."""


class Entry:
    """The records of one revision, which a request finds with one lookup."""

    __slots__ = ("agents", "counters", "failures", "kept", "lease", "load", "throttler")

    def __init__(self, throttler: RevisionThrottler, counters: RevisionCounters, load: Load):
        self.throttler = throttler
        self.counters = counters
        self.failures = Failures()
        self.agents = Agents()
        self.load = load
        self.kept: KeptResponses | None = None
        self.lease = WakeLease(load)


class Hosts(Protocol):
    """The hosts of plain Services (activator.plain.hosts.Hosts)."""

    def put(self, claim: tuple[str, str], hosts: Iterable[str], service: RevisionID) -> None:
        """Replace the hosts of a Service.

        Arguments:
            claim: ``creationTimestamp`` and ``namespace/name`` of the Service.
        """

    def remove(self, claim: tuple[str, str]) -> None:
        """Remove the hosts of a Service; an unknown one is no error."""

    def winner(self, host: str) -> RevisionID | None:
        """Return the Service that has exactly this host; None if none claims it."""

    def find(self, host: str) -> RevisionID | None:
        """Return the Service that a host without a port names; None if none does."""

    def is_exact(self, host: str) -> bool:
        """Return whether a Service has this host itself, not by a wildcard."""


class Entries:
    """The entries of all revisions.

    Arguments:
        load_for: returns the load record of a revision.
        cluster_domain: the suffix of hosts that name a revision.
        hosts: the hosts of plain Services; None if there are none.
        knative: whether a host may name a Revision. If not, an unknown host names no Service.
    """

    def __init__(
        self,
        throttler: Throttler,
        load_for: Callable[[RevisionID], Load],
        cluster_domain: str = "cluster.local",
        hosts: Hosts | None = None,
        *,
        knative: bool = True,
    ) -> None:
        self._throttler = throttler
        self._load_for = load_for
        self._cluster_domain = cluster_domain
        self._hosts = hosts
        self._knative = knative
        self._routes: dict[RevisionID, ServiceRoute] = {}
        self._entries: dict[RevisionID, Entry] = {}
        # The same entries by the bytes that name them in requests.
        self._by_name: dict[tuple[bytes, bytes], Entry] = {}
        self._by_service: dict[bytes, Entry] = {}
        self._by_host: dict[bytes, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def find(self, namespace: bytes, name: bytes) -> Entry:
        """Return the entry of a revision; makes it on the first request.

        Raises:
            RevisionNotFound: no revision has that name.
        """
        entry = self._by_name.get((namespace, name))
        if entry is None:
            entry = self.of(RevisionID(namespace.decode("latin-1"), name.decode("latin-1")))
            self._by_name[namespace, name] = entry
        return entry

    def find_service(self, full_name: bytes) -> Entry:
        """Return the entry of a plain Service; makes it on the first request.

        Arguments:
            full_name: ``namespace/name``.

        Raises:
            RevisionNotFound: no such Service opts in.
        """
        entry = self._by_service.get(full_name)
        if entry is None:
            namespace, _, name = full_name.decode("latin-1").partition("/")
            entry = self.of(RevisionID(namespace, name, RevisionKind.SERVICE))
            self._by_service[full_name] = entry
        return entry

    def of(self, revision: RevisionID) -> Entry:
        """Return the entry of a revision, whatever its kind; makes it on the first request.

        Raises:
            RevisionNotFound: there is no such revision.
        """
        entry = self._entries.get(revision)
        if entry is None:
            throttler = self._throttler.find(*revision)
            load = self._load_for(throttler.revision.id)
            entry = self._entries[revision] = Entry(throttler, RevisionCounters(), load)
        return entry

    def find_host(self, host: bytes, name: bytes = b"") -> Entry:
        """Return the entry of the revision that a host names.

        Arguments:
            name: the revision's name in the error, if the host names no revision.

        Raises:
            RevisionNotFound: the host names no revision, or one that does not exist.
        """
        entry = self._by_host.get(host)
        return self._search_host(host, name) if entry is None else entry

    def _search_host(self, host: bytes, name: bytes) -> Entry:
        """Return the entry of a revision by its host: one of Knative's first, then a Service."""
        # Host names ignore case, and may end with the root's dot (RFC 9110 section 4.2.3).
        known_as = host.decode("latin-1").lower().partition(":")[0].rstrip(".")
        revision = revision_from_host(known_as, self._cluster_domain)
        service = None if self._hosts is None else self._hosts.find(known_as)
        if service is None and not self._knative:
            raise RevisionNotFound("", kind=RevisionKind.SERVICE, host=known_as)
        if revision is None and service is None:
            # With Revisions alone, the client can mean no Service: the text is Knative's.
            knative = self._hosts is None or (not self._routes and self._throttler.has_revisions)
            of_either = None if name or knative else known_as
            raise RevisionNotFound(name.decode("latin-1"), host=of_either)
        if service is None or (revision is not None and self._exists(revision)):
            assert revision is not None
            entry = self.of(revision)
            # One host for each revision: spellings with ports, cases and dots take no memory.
            exact = f"{revision.name}.{revision.namespace}.svc.{self._cluster_domain}"
        else:
            entry = self.of(service)
            exact = known_as if self._hosts is not None and self._hosts.is_exact(known_as) else ""
        if host == exact.encode("latin-1", "replace"):
            self._by_host[host] = entry
        return entry

    def _exists(self, revision: RevisionID) -> bool:
        """Return whether a Revision exists, with or without an entry."""
        try:
            self._throttler.find(*revision)
        except RevisionNotFound:
            return False
        return True

    def set_route(self, revision: RevisionID, route: ServiceRoute) -> None:
        """Replace the hosts of a plain Service; ``Route()`` removes them."""
        hosts, before = self._hosts, self._routes.pop(revision, ServiceRoute())
        if hosts is None or before.hosts == route.hosts == ():
            return
        hosts.remove((before.created, str(revision)))
        if route.hosts:
            self._routes[revision] = route
            hosts.put((route.created, str(revision)), route.hosts, revision)
        self._by_host.clear()

    def route_of(self, revision: RevisionID) -> ServiceRoute:
        """Return the route of a plain Service; ``Route()`` for any other revision.

        Its hosts are the ones that the Service has: an older Service may have one that it claims.
        """
        route, hosts = self._routes.get(revision, ServiceRoute()), self._hosts
        if hosts is None:
            return route
        own = tuple(host for host in route.hosts if hosts.winner(host) == revision)
        return route._replace(hosts=own)

    def known(self, revision: RevisionID) -> Entry | None:
        """Return the entry of an existing revision that has had a request; else None."""
        return self._entries.get(revision)

    def failures_of(self, revision: RevisionID) -> Failures:
        """Return the failed requests of a revision; no failures for an unknown revision."""
        entry = self.known(revision)
        return Failures() if entry is None else entry.failures

    def agents_of(self, revision: RevisionID) -> Agents:
        """Return the clients that send requests to a revision one at a time."""
        entry = self.known(revision)
        return NO_AGENTS if entry is None else entry.agents

    def remove(self, revision: RevisionID) -> bool:
        """Remove the entry of a deleted revision; return whether it had one."""
        entry = self._entries.pop(revision, None)
        if entry is None:
            return False
        if revision.kind is RevisionKind.SERVICE:
            self._by_service.pop(str(revision).encode("latin-1", "replace"), None)
        else:
            self._by_name.pop(_key(revision), None)
        for host in [host for host, known in self._by_host.items() if known is entry]:
            del self._by_host[host]
        return True


def _key(revision: RevisionID) -> tuple[bytes, bytes]:
    """Return the name as header fields have it. A name that no field can have gets no entry."""
    return (
        revision.namespace.encode("latin-1", "replace"),
        revision.name.encode("latin-1", "replace"),
    )
