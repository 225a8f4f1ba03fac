"""Finds what the host, the path and the header fields of a request name, for all dialects.

The host decides first: exact, then the longest wildcard, then any. Of its rules the longest path
counts. Within it, the rule with more headers counts, then the one with more header values, then the
older one. If no headers match, shorter paths of that host are not tried, but the next host is.
A lookup costs a few dictionary accesses per label of the host and per segment of the path, however
many rules there are. Sources: Gateway API, HTTPRouteSpec.hostnames; KEDA HTTP add-on, pkg/routing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from throttler.model import RevisionID, RevisionKind
from throttler.request_policies import HeaderRule, RouteRule

T = TypeVar("T")

_WILDCARD: Final = "*."
#: The host of a rule that takes any host.
_ANY: Final = "*"
#: Characters of a host that are read: a DNS name has at most 253 (RFC 1035 section 2.3.4).
_LONGEST: Final = 254
#: All values of each field of a request, by its name in lower case.
Fields = Mapping[bytes, Sequence[bytes]]
FieldsOf = Callable[[], Fields]
_Headers = tuple[HeaderRule, ...]
_Order = tuple[object, ...]


class RouteKey(NamedTuple):
    """One host, one path and all headers of a rule; two claims to one key exclude each other."""

    host: str
    path: str = ""
    headers: _Headers = ()

    def __str__(self) -> str:
        """Return it for people, as in ``shop.example/cart with header x-beta: 1``."""
        path = f"/{self.path}" if self.path else ""
        headers = [
            name.decode("latin-1") + (f": {value.decode('latin-1')}" if value is not None else "")
            for name, value in self.headers
        ]
        return f"{self.host}{path}{' with header ' * bool(headers)}{' and '.join(headers)}"


class RouteClaim(NamedTuple):
    """The claim of an object to its rules. Of two claims to one key the least wins: the older one.

    A name in the cluster always belongs to its own Service, however old another claim is.

    Attributes:
        created: ``creationTimestamp`` of the object, as in RFC 3339 with ``Z``.
        name: ``namespace/name`` of the object.
        is_service: whether it is a Service. Of Services of one second, the first by name wins; of
            objects of the KEDA HTTP add-on, the last one, as there.
    """

    created: str
    name: str
    is_service: bool = True

    def order(self, key: RouteKey) -> _Order:
        """Return what sorts the claims to one path of a host; the least is tried first."""
        name: object = self.name
        if not self.is_service:
            name = (*(-ord(each) for each in self.name), 1)  # in the opposite order
        own = self.is_service and is_own(key.host, self.name)
        values = sum(each.value is not None for each in key.headers)
        return not own, -len(key.headers), -values, self.created, not self.is_service, name


def claim_of(revision: RevisionID, created: str) -> RouteClaim:
    """Return the claim of an object to its rules, by the time of its creation."""
    return RouteClaim(created, str(revision), revision.kind is RevisionKind.SERVICE)


class _Row(NamedTuple, Generic[T]):
    order: _Order
    headers: _Headers
    claim: RouteClaim
    target: T


_order = attrgetter("order")


class _Path(Generic[T]):
    """The rules of one path of a host.

    Attributes:
        keys: the claims to each set of headers, the winner first.
    """

    __slots__ = ("_named", "_plain", "keys")

    def __init__(self) -> None:
        self.keys: dict[_Headers, list[_Row[T]]] = {}
        self._plain: _Row[T] | None = None
        # The winners with headers, by name and value of their first header with a value.
        self._named: dict[bytes, dict[bytes | None, dict[_Headers, _Row[T]]]] = {}

    @property
    def only(self) -> bool:
        """Whether its one rule has no headers."""
        return self._plain is not None and not self._named

    def add(self, row: _Row[T]) -> None:
        """Add a claim."""
        rows = self.keys.setdefault(row.headers, [])
        insort(rows, row, key=_order)
        self._follow(row.headers, rows[0])

    def drop(self, order: _Order, headers: _Headers) -> None:
        """Remove a claim."""
        rows = self.keys[headers]
        del rows[bisect_left(rows, order, key=_order)]
        if not rows:
            del self.keys[headers]
        self._follow(headers, rows[0] if rows else None)

    def _follow(self, headers: _Headers, winner: _Row[T] | None) -> None:
        if not headers:
            self._plain = winner
            return
        chosen = next((each for each in headers if each.value is not None), headers[0])
        values = self._named.setdefault(chosen.name, {})
        winners = values.setdefault(chosen.value, {})
        if winner is not None:
            winners[headers] = winner
            return
        del winners[headers]
        if not winners:
            del values[chosen.value]
        if not values:
            del self._named[chosen.name]

    def find(self, fields_of: FieldsOf) -> T | None:
        """Return the target of the best rule whose headers all match; None if none does."""
        best = self._plain
        if self._named:
            fields = fields_of()
            # The smaller of both: neither many rules nor many fields make a request slow.
            for name in min(fields, self._named, key=len):
                values, by_value = fields.get(name), self._named.get(name)
                if values is None or by_value is None:
                    continue
                for value in (*values, None):
                    for row in by_value.get(value, {}).values():
                        if (best is None or row.order < best.order) and _match(row.headers, fields):
                            best = row
        return None if best is None else best.target


def _match(headers: _Headers, fields: Fields) -> bool:
    for name, value in headers:
        values = fields.get(name)
        if values is None or (value is not None and value not in values):
            return False
    return True


class _Host(Generic[T]):
    """The rules of one host.

    Attributes:
        paths: the rules by path; the empty path is any.
    """

    __slots__ = ("_most", "paths")

    def __init__(self) -> None:
        self.paths: dict[str, _Path[T]] = {}
        # The segments of the longest path so far: of a request, no more are read.
        self._most = 0

    def at(self, path: str) -> _Path[T]:
        """Return the rules of a path; makes it."""
        found = self.paths.get(path)
        if found is None:
            found = self.paths[path] = _Path()
            self._most = max(self._most, path.count("/") + 1 if path else 0)
        return found

    def find(self, target: bytes) -> _Path[T] | None:
        """Return the rules of the longest path that a request target is at or below."""
        if self._most:
            segments = path_of(target).split("/", self._most)[: self._most]
            for count in range(len(segments), 0, -1):
                found = self.paths.get("/".join(segments[:count]))
                if found is not None:
                    return found
        return self.paths.get("")


class RouteTable(Generic[T]):
    """The rules of all objects."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host[T]] = {}
        self._of: dict[RouteClaim, tuple[RouteKey, ...]] = {}

    def put(self, claim: RouteClaim, rules: Iterable[RouteRule], target: T) -> None:
        """Replace the rules of an object.

        Arguments:
            claim: identifies the object.
            rules: a request must match one of them.
            target: returned by ``find``.
        """
        self.remove(claim)
        self._of[claim] = keys = tuple(dict.fromkeys(keys_of(rules)))
        for key in keys:
            path = self._hosts.setdefault(key.host, _Host()).at(key.path)
            path.add(_Row(claim.order(key), key.headers, claim, target))

    def remove(self, claim: RouteClaim) -> None:
        """Remove the rules of an object; an unknown one is no error."""
        for key in self._of.pop(claim, ()):
            host = self._hosts[key.host]
            path = host.paths[key.path]
            path.drop(claim.order(key), key.headers)
            if not path.keys:
                del host.paths[key.path]
            if not host.paths:
                del self._hosts[key.host]

    def exchange(
        self, old: RouteClaim, new: RouteClaim, rules: Sequence[RouteRule], target: T
    ) -> list[T]:
        """Replace the rules and the claim of an object; without rules, remove it.

        Returns:
            The other targets of each key that another target has now, or had before.
        """
        winners = {key: self.winner(key) for key in (*self._of.get(old, ()), *keys_of(rules))}
        self.remove(old)
        if rules:
            self.put(new, rules, target)
        changed = (key for key, winner in winners.items() if self.winner(key) != winner)
        return [each for key in changed for each in self.claimants(key) if each != target]

    def claimants(self, key: RouteKey) -> Sequence[T]:
        """Return all targets of one key, the one that has it first."""
        host = self._hosts.get(key.host)
        path = None if host is None else host.paths.get(key.path)
        return [] if path is None else [row.target for row in path.keys.get(key.headers, ())]

    def winner(self, key: RouteKey) -> T | None:
        """Return the target that has exactly this key; None if none claims it."""
        return next(iter(self.claimants(key)), None)

    def conflicts(self, claim: RouteClaim) -> Mapping[RouteKey, str]:
        """Return the keys of an object that another one has, and the name of that one."""
        return {
            key: first.name
            for key in self._of.get(claim, ())
            if (first := self._hosts[key.host].paths[key.path].keys[key.headers][0].claim) != claim
        }

    def find(self, host: str, target: bytes, fields_of: FieldsOf) -> T | None:
        """Return what a request names; None if it names nothing.

        Arguments:
            host: without port, in any case; a dot may end it.
            target: the request target, with its query.
            fields_of: returns the fields of the request; called only if a header decides.
        """
        for key in _keys_of_host(host[:_LONGEST].lower().rstrip(".")):
            rules = self._hosts.get(key)
            path = None if rules is None else rules.find(target)
            found = None if path is None else path.find(fields_of)
            if found is not None:
                return found
        return None

    def is_exact(self, host: str) -> bool:
        """Return whether one object has this host itself, whatever the path and the headers."""
        rules = self._hosts.get(host)
        if rules is None or len(rules.paths) != 1:
            return False
        path = rules.paths.get("")
        return path is not None and path.only


def matches(rule: RouteRule, host: str, target: bytes, fields_of: FieldsOf) -> bool:
    """Return whether a request matches a rule; arguments as for ``RouteTable.find``."""
    if rule.hosts:
        known = _keys_of_host(host[:_LONGEST].lower().rstrip("."))
        if set(known).isdisjoint(each or _ANY for each in rule.hosts):
            return False
    if rule.paths:
        path = f"{path_of(target)}/"
        if not any(not each or path.startswith(f"{each}/") for each in rule.paths):
            return False
    return not rule.headers or _match(rule.headers, fields_of())


def keys_of(rules: Iterable[RouteRule]) -> Iterator[RouteKey]:
    """Yield each key of some rules."""
    for rule in rules:
        for host in rule.hosts or (_ANY,):
            for path in rule.paths or ("",):
                yield RouteKey(host or _ANY, path.strip("/"), rule.headers)


def _keys_of_host(host: str) -> Iterator[str]:
    yield host
    dot = host.find(".", 1)
    while dot >= 0:
        yield f"*{host[dot:]}"
        dot = host.find(".", dot + 1)
    yield _ANY


def path_of(target: bytes) -> str:
    """Return the decoded path of a request target, without slashes at its ends."""
    path = target.partition(b"?")[0]
    if not path.startswith(b"/"):  # the absolute form (RFC 9112 section 3.2.2)
        path = path.partition(b"://")[2].partition(b"/")[2]
    if b"%" in path:
        path = unquote_to_bytes(path)
    return path.decode("utf-8", "surrogateescape").strip("/")


def without_port(host: str) -> str:
    """Return a host without its port; an IPv6 address keeps its brackets."""
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]


def names_of_others(hosts: Iterable[str], full_name: str, domain: str) -> Sequence[str]:
    """Return the hosts that are names of other Services in the cluster, or wildcards over such.

    Arguments:
        hosts: in lower case; ``*.`` may come first.
        full_name: of their Service, ``namespace/name``.
        domain: of the cluster, as in ``cluster.local``.
    """
    return [each for each in hosts if _is_in(domain, each) and not is_own(each, full_name)]


def _is_in(domain: str, host: str) -> bool:
    bare = host.removeprefix(_WILDCARD)
    covers = bare != host and f".{domain}".endswith(f".{bare}")
    return covers or f".{bare}".endswith((".svc", f".{domain}"))


def is_own(host: str, full_name: str) -> bool:
    """Return whether a host is the name in the cluster of the Service ``namespace/name``."""
    namespace, _, name = full_name.partition("/")
    own = f"{name}.{namespace}"
    return host == own or host == f"{own}.svc" or host.startswith(f"{own}.svc.")
