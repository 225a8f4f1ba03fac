"""What belongs to each revision that was asked for: found by what a request says, with one look.

By what stands in the request's headers, so that nothing is decoded per request; only names that
exist get an entry, so that nobody fills this with others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from activator.records.counters import RevisionCounters
from activator.records.failures import Failures
from throttler.errors import RevisionNotFound
from throttler.model import RevisionID
from throttler.revision import RevisionThrottler
from throttler.throttler import Throttler, revision_from_host


class Load(Protocol):
    """Counts a revision's concurrent requests over time, for the autoscaler."""

    def enter(self, now: float) -> None:
        """A request came."""

    def leave(self, now: float) -> None:
        """It ended."""


class Entry:
    """What belongs to one revision name, found with one look per request."""

    __slots__ = ("counters", "failures", "load", "throttler")

    def __init__(self, throttler: RevisionThrottler, counters: RevisionCounters, load: Load):
        self.throttler = throttler
        self.counters = counters
        self.failures = Failures()
        self.load = load


class Entries:
    """The entries of all revisions.

    Arguments:
        load_for: gives the load record of a revision.
        cluster_domain: the end of hosts that name a revision.
    """

    def __init__(
        self,
        throttler: Throttler,
        load_for: Callable[[RevisionID], Load],
        cluster_domain: str = "cluster.local",
    ) -> None:
        self._throttler = throttler
        self._load_for = load_for
        self._cluster_domain = cluster_domain
        self._by_name: dict[tuple[bytes, bytes], Entry] = {}
        self._by_host: dict[bytes, Entry] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._by_name.values())

    def find(self, namespace: bytes, name: bytes) -> Entry:
        """Return what belongs to a revision.

        Raises:
            RevisionNotFound: there is none of that name.
        """
        entry = self._by_name.get((namespace, name))
        if entry is None:
            throttler = self._throttler.find(namespace.decode("latin-1"), name.decode("latin-1"))
            load = self._load_for(throttler.revision.id)
            entry = Entry(throttler, RevisionCounters(), load)
            self._by_name[namespace, name] = entry
        return entry

    def find_host(self, host: bytes, name: bytes = b"") -> Entry:
        """Return what belongs to the revision that a host names.

        Arguments:
            name: what to call the revision that is not found where the host names none.

        Raises:
            RevisionNotFound: the host names none, or there is none of that name.
        """
        entry = self._by_host.get(host)
        if entry is None:
            # Host names know no case, and may end with the root's dot (RFC 9110 section 4.2.3).
            known_as = host.decode("latin-1").lower().partition(":")[0].rstrip(".")
            revision = revision_from_host(known_as, self._cluster_domain)
            if revision is None:
                raise RevisionNotFound(name.decode("latin-1"))
            entry = self.find(*_key(revision))
            # One host a revision: nobody can fill this with ports, cases and dots.
            canonical = f"{revision.name}.{revision.namespace}.svc.{self._cluster_domain}"
            if host == canonical.encode("latin-1", "replace"):
                self._by_host[host] = entry
        return entry

    def known(self, revision: RevisionID) -> Entry | None:
        """Return what belongs to a revision that exists and was asked for; else None."""
        return self._by_name.get(_key(revision))

    def failures_of(self, revision: RevisionID) -> Failures:
        """Return the requests of a revision that were not served; none of one that is unknown."""
        entry = self.known(revision)
        return Failures() if entry is None else entry.failures

    def forget(self, revision: RevisionID) -> bool:
        """Drop what belongs to a revision that is no more; return whether there was anything."""
        entry = self._by_name.pop(_key(revision), None)
        for host in [host for host, known in self._by_host.items() if known is entry]:
            del self._by_host[host]
        return entry is not None


def _key(revision: RevisionID) -> tuple[bytes, bytes]:
    """Return the name as headers have it; one that no header can have has no entry either."""
    return (
        revision.namespace.encode("latin-1", "replace"),
        revision.name.encode("latin-1", "replace"),
    )
