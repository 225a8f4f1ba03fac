"""Finds the Service that a host names: exact hosts first, then the longest wildcard.

A lookup costs one dictionary access per label of the host. Source of the wildcard rules: Gateway
API, HTTPRouteSpec.hostnames (a wildcard stands for one or more labels).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

Service = TypeVar("Service")

_WILDCARD: Final = "*."
#: Bytes of a host that are read: a DNS name has at most 253 (RFC 1035 section 2.3.4).
_LONGEST: Final = 254


class HostClaim(NamedTuple):
    """A Service's claim to a host. The least claim wins: the oldest, then the first by name.

    A name in the cluster always belongs to its own Service, however old another claim is.

    Attributes:
        created: ``creationTimestamp`` of the Service, as in RFC 3339 with ``Z``.
        name: ``namespace/name`` of the Service.
    """

    created: str
    name: str


class HostClaims(Generic[Service]):
    """The hosts of all Services, or their allotted ports: names without a dot."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[tuple[str, str], Service]] = {}
        self._winners: dict[str, Service] = {}
        self._of: dict[tuple[str, str], tuple[str, ...]] = {}

    def put(self, claim: tuple[str, str], hosts: Iterable[str], service: Service) -> None:
        """Replace the hosts of a Service.

        Arguments:
            claim: identifies the Service, see ``HostClaim``.
            hosts: in lower case, without a dot at the end; ``*.`` may come first.
            service: returned by ``find``.
        """
        self.remove(claim)
        self._of[claim] = tuple(dict.fromkeys(hosts))
        for host in self._of[claim]:
            claims = self._claims.setdefault(host, {})
            claims[claim] = service
            self._winners[host] = claims[_winner(host, claims)]

    def remove(self, claim: tuple[str, str]) -> None:
        """Remove the hosts of a Service; an unknown one is no error."""
        for host in self._of.pop(claim, ()):
            claims = self._claims[host]
            del claims[claim]
            if claims:
                self._winners[host] = claims[_winner(host, claims)]
            else:
                del self._claims[host], self._winners[host]

    def winner(self, host: str) -> Service | None:
        """Return the Service that has exactly this host; None if none claims it."""
        return self._winners.get(host)

    def claimants(self, host: str) -> Iterable[Service]:
        """Return all Services that claim exactly this host."""
        return self._claims.get(host, {}).values()

    def find(self, host: str) -> Service | None:
        """Return the Service that a host names; None if none does.

        Arguments:
            host: without port, in any case; a dot may end it.
        """
        host = host[:_LONGEST].lower().rstrip(".")
        found = self._winners.get(host)
        dot = -1
        while found is None and (dot := host.find(".", dot + 1)) >= 0:
            found = self._winners.get(f"*{host[dot:]}") if dot else None
        return found

    def is_exact(self, host: str) -> bool:
        """Return whether a Service has this host itself, not by a wildcard."""
        return host in self._winners

    def conflicts(self, claim: tuple[str, str]) -> Mapping[str, str]:
        """Return the hosts of a Service that another one has, and the name of that one."""
        return {
            host: winner[1]
            for host in self._of.get(claim, ())
            if (winner := _winner(host, self._claims[host])) != claim
        }


def names_of_others(hosts: Iterable[str], full_name: str, domain: str) -> Sequence[str]:
    """Return the hosts that are names of other Services in the cluster, or wildcards over such.

    Arguments:
        hosts: in lower case; ``*.`` may come first.
        full_name: of their Service, ``namespace/name``.
        domain: of the cluster, as in ``cluster.local``.
    """
    return [each for each in hosts if _is_in(domain, each) and not _is_own(each, full_name)]


def _is_in(domain: str, host: str) -> bool:
    bare = host.removeprefix(_WILDCARD)
    covers = bare != host and f".{domain}".endswith(f".{bare}")
    return covers or f".{bare}".endswith((".svc", f".{domain}"))


def _winner(host: str, claims: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return the claim that wins a host: the Service whose name it is, else the least one."""
    return min(claims, key=lambda claim: (not _is_own(host, claim[1]), claim))


def _is_own(host: str, full_name: str) -> bool:
    """Return whether a host is the name in the cluster of the Service ``namespace/name``."""
    namespace, _, name = full_name.partition("/")
    own = f"{name}.{namespace}"
    return host == own or host == f"{own}.svc" or host.startswith(f"{own}.svc.")
