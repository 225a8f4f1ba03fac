"""Keeps the records of each requested revision, and finds them by a request's header fields.

The keys are the bytes of the fields, so that no request needs decoding. Only existing revisions get
an entry, so invented names take no memory.
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

    def request_began(self, now: float) -> None:
        """Count the arrival of a request."""

    def request_ended(self, now: float) -> None:
        """Count the end of a request."""


class Entry:
    """The records of one revision, which a request finds with one lookup."""

    __slots__ = ("counters", "failures", "load", "throttler")

    def __init__(self, throttler: RevisionThrottler, counters: RevisionCounters, load: Load):
        self.throttler = throttler
        self.counters = counters
        self.failures = Failures()
        self.load = load


class Entries:
    """The entries of all revisions.

    Arguments:
        load_for: returns the load record of a revision.
        cluster_domain: the suffix of hosts that name a revision.
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
        """Return the entry of a revision; makes it on the first request.

        Raises:
            RevisionNotFound: no revision has that name.
        """
        entry = self._by_name.get((namespace, name))
        if entry is None:
            throttler = self._throttler.find(namespace.decode("latin-1"), name.decode("latin-1"))
            load = self._load_for(throttler.revision.id)
            entry = Entry(throttler, RevisionCounters(), load)
            self._by_name[namespace, name] = entry
        return entry

    def find_host(self, host: bytes, name: bytes = b"") -> Entry:
        """Return the entry of the revision that a host names.

        Arguments:
            name: the revision's name in the error, if the host names no revision.

        Raises:
            RevisionNotFound: the host names no revision, or one that does not exist.
        """
        entry = self._by_host.get(host)
        if entry is None:
            # Host names ignore case, and may end with the root's dot (RFC 9110 section 4.2.3).
            known_as = host.decode("latin-1").lower().partition(":")[0].rstrip(".")
            revision = revision_from_host(known_as, self._cluster_domain)
            if revision is None:
                raise RevisionNotFound(name.decode("latin-1"))
            entry = self.find(*_key(revision))
            # One host for each revision: spellings with ports, cases and dots take no memory.
            canonical = f"{revision.name}.{revision.namespace}.svc.{self._cluster_domain}"
            if host == canonical.encode("latin-1", "replace"):
                self._by_host[host] = entry
        return entry

    def known(self, revision: RevisionID) -> Entry | None:
        """Return the entry of an existing revision that has had a request; else None."""
        return self._by_name.get(_key(revision))

    def failures_of(self, revision: RevisionID) -> Failures:
        """Return the failed requests of a revision; no failures for an unknown revision."""
        entry = self.known(revision)
        return Failures() if entry is None else entry.failures

    def remove(self, revision: RevisionID) -> bool:
        """Remove the entry of a deleted revision; return whether it had one."""
        entry = self._by_name.pop(_key(revision), None)
        for host in [host for host, known in self._by_host.items() if known is entry]:
            del self._by_host[host]
        return entry is not None


def _key(revision: RevisionID) -> tuple[bytes, bytes]:
    """Return the name as header fields have it. A name that no field can have gets no entry."""
    return (
        revision.namespace.encode("latin-1", "replace"),
        revision.name.encode("latin-1", "replace"),
    )
