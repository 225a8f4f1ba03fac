"""Gets decisions of authorization servers, remembers them, and bounds the requests that wait."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urlsplit

from activator.authorization.server import LONGEST, AuthorizationConnection, Origin, ServerQueue
from activator.process.logs import Repeats
from activator.process.timers import Tasks
from activator.proxy.exchange.permission import TOO_LATE
from activator.proxy.message.fields import folded
from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict

if TYPE_CHECKING:
    from activator.runtime import Exchange

# Remembers the decisions of authorization servers, by a hash of the fields that the server got.
#
# Pure: the time is an argument. No field is kept.

#: Most decisions in memory, and most bytes of each. Invented fields can remove others. These then
#: cost a sub-request.
MOST_VERDICTS: Final = 2048
MOST_VERDICT_BYTES: Final = 4 << 10
#: The denials that may count for other requests. A redirect may name the URL of one request.
_KEPT: Final = (401, 403)


class VerdictKey(NamedTuple):
    """The requests that share a decision.

    Attributes:
        revision: their revision. Its server may decide differently for another one.
        policy: the server, and all that annotations say about it.
        fields: a hash of the fields that have to be equal.
    """

    revision: RevisionID
    policy: Authorization
    fields: bytes


def key_of(
    revision: RevisionID, policy: Authorization, fields: Iterable[tuple[bytes, bytes]]
) -> VerdictKey:
    """Return the key of a request.

    Arguments:
        revision: its revision.
        policy: the server of the revision, and the names of the fields that count.
        fields: the fields that the server gets, by name. A name counts in each spelling that a
            server may read as the same.
    """
    digest, names = sha256(), policy.cache_key
    for name, value in fields:
        if not names or folded(name) in names:
            name = name.lower()
            digest.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return VerdictKey(revision, policy, digest.digest())


class Verdicts:
    """The decisions of all authorization servers; at the limit, a new one replaces the oldest."""

    def __init__(self) -> None:
        self._verdicts: dict[VerdictKey, tuple[float, Verdict]] = {}

    def put(self, key: VerdictKey, verdict: Verdict, now: float) -> None:
        """Remember a decision, unless it is for one request only; ``now`` in seconds.

        A cookie is for one client, also if others are equal in the fields that count.
        """
        has_cookie = b"\r\nset-cookie:" in verdict.lines.lower()
        may_count = verdict.allows or (verdict.status in _KEPT and not has_cookie)
        if not may_count or len(verdict.lines) + len(verdict.body) > MOST_VERDICT_BYTES:
            return
        self._verdicts.pop(key, None)
        if len(self._verdicts) >= MOST_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[key] = (now, verdict)

    def get(self, key: VerdictKey, now: float) -> Verdict | None:
        """Return a decision that still counts; None without one.

        Arguments:
            key: of the request.
            now: seconds.
        """
        found = self._verdicts.get(key)
        if found is None:
            return None
        since, verdict = found
        if now - since < key.policy.cache_seconds:
            return verdict
        del self._verdicts[key]
        return None


logger = logging.getLogger(__name__)


#: Most bytes of the requests that wait for decisions, and the least that each counts. They are in
#: no queue, so no limit of a queue counts them. A server may have as many bytes as the others leave
#: free: alone one half. So servers that hang always leave room for others.
MOST_BYTES: Final = 64 << 20
LEAST_BYTES: Final = 16 << 10
#: The keys of ``Authorizer.counts``.
RESULTS: Final = ("allowed", "denied", "failed", "cached")
_PORTS: Final = {"http": 80, "https": 443}
_FULL: Final = Verdict(0, error="too many requests wait for authorization")
_ENDED: Final = Verdict(0, error="the sub-request has failed")
#: Characters of a URL that go out as they are (RFC 3986 section 2).
_OF_URLS: Final = "%:/?#[]@!$&'()*+,;="


@dataclass(eq=False, slots=True)
class Check:
    """One request that waits for a decision.

    Attributes:
        owner: the request; None once it has its decision, or has ended.
        server: decides.
        key: of the requests for which the decision counts too; None for none.
        names: of the fields of the server's response that the pod gets.
        request: the sub-request.
        size: bytes that it counts.
        timer: ends the wait.
        connection: that has its sub-request; None before.
    """

    owner: Exchange | None
    server: ServerQueue
    key: VerdictKey | None
    names: tuple[bytes, ...]
    request: bytes
    size: int
    timer: asyncio.TimerHandle = field(init=False)
    connection: AuthorizationConnection | None = None


class Authorizer:
    """Gets decisions of authorization servers.

    Arguments:
        clock: seconds, monotonic.

    Attributes:
        connections: to all servers, also those that open; servers: those that have any, or
            requests; tasks: open connections.
        counts: sub-requests that ended, and uses of cached decisions, by result: ``allowed``,
            ``denied``, ``failed``, ``cached``.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._verdicts = Verdicts()
        self._checks: dict[Exchange, Check] = {}
        self._bytes = 0
        self._repeats = Repeats()
        self._trusted: asyncio.Future[ssl.SSLContext] | None = None
        self.connections = 0
        self.servers: dict[Origin, ServerQueue] = {}
        self.tasks = Tasks()
        self.counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a decision."""
        return len(self._checks)

    def ask(
        self,
        owner: Exchange,
        revision: RevisionID,
        policy: Authorization,
        fields: list[tuple[bytes, bytes]],
        size: int,
    ) -> Verdict | None:
        """Return a decision that counts for this request too; else begin a sub-request.

        The server has 2 s. A caller whose request must end earlier cancels.

        Arguments:
            owner: the request.
            revision: the revision of the request.
            policy: its authorization server.
            fields: the fields of the sub-request, by name.
            size: bytes of the request in memory while it waits.

        Returns:
            A decision, also if no sub-request is possible. None if ``owner.decided`` follows,
            unless the request is cancelled.
        """
        key = key_of(revision, policy, fields) if policy.cache_seconds else None
        verdict = self._known(key)
        if verdict is not None:
            return verdict
        origin, start = _parts(policy.url)
        server = self.servers.get(origin) or ServerQueue(self, origin)
        size = max(size, LEAST_BYTES)
        if size > MOST_BYTES - self._bytes - server.bytes:
            return _FULL
        self.servers[origin] = server
        request = b"".join((start, *(b"%b: %b\r\n" % each for each in fields), b"\r\n"))
        check = Check(owner, server, key, policy.response_headers, request, size)
        check.timer = asyncio.get_running_loop().call_later(LONGEST, self._end, check, TOO_LATE)
        self._checks[owner] = check
        self._bytes += size
        server.bytes += size
        server.add(check)
        return None

    def cancel(self, owner: Exchange) -> None:
        """Remove a request that has ended."""
        check = self._checks.get(owner)
        if check is not None:
            self._forget(check)
            check.server.remove(check)

    async def close(self) -> None:
        """End all sub-requests, and close the connections."""
        await self.tasks.close()
        for check in list(self._checks.values()):
            self._end(check, _ENDED)
        for connection in [each for one in self.servers.values() for each in one.connections]:
            connection.transport.abort()

    # -- the servers call --------------------------------------------------------------------------

    def knows(self, check: Check) -> bool:
        """Decide about a request if its decision is known meanwhile; return whether it is."""
        verdict = self._known(check.key)
        if verdict is not None:
            self._forget(check).decided(verdict)
        return verdict is not None

    def decide(self, check: Check, verdict: Verdict) -> None:
        """Count, remember and report a decision; the first one counts."""
        if check.owner is None:
            return
        result = "allowed" if verdict.allows else "denied" if verdict.denies else "failed"
        self.counts[result] += 1
        if check.key is not None and result != "failed":
            self._verdicts.put(check.key, verdict, self._clock())
        self._forget(check).decided(verdict)

    async def trusted(self) -> ssl.SSLContext:
        """Return the check of certificates.

        Raises:
            OSError: the authorities cannot be read. The next call tries again.
        """
        trusted = self._trusted
        if trusted is None or (trusted.done() and trusted.exception()):
            # It takes a tenth of a second.
            trusted = self._trusted = asyncio.ensure_future(asyncio.to_thread(_trusted))
        try:
            return await asyncio.shield(trusted)
        except OSError as error:
            if self._repeats.admit("no authorities", self._clock()) is not None:
                logger.warning("no sub-request for authorization is possible: %s", error)
            raise

    # -- own ---------------------------------------------------------------------------------------

    def _known(self, key: VerdictKey | None) -> Verdict | None:
        verdict = None if key is None else self._verdicts.get(key, self._clock())
        if verdict is not None:
            self.counts["cached"] += 1
        return verdict

    def _end(self, check: Check, verdict: Verdict) -> None:
        self.decide(check, verdict)
        check.server.remove(check)

    def _forget(self, check: Check) -> Exchange:
        """Subtract and return a request that has its decision, or has ended."""
        owner, check.owner = check.owner, None
        assert owner is not None
        check.timer.cancel()
        del self._checks[owner]
        self._bytes -= check.size
        check.server.bytes -= check.size
        return owner


@lru_cache(maxsize=1024)
def _parts(url: str) -> tuple[Origin, bytes]:
    """Return the address of a server, and the start of each sub-request with its URL."""
    parts = urlsplit(url)
    target = quote(f"{parts.path or '/'}{parts.query and '?'}{parts.query}", safe=_OF_URLS)
    start = f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    origin = parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]
    return origin, start.encode("ascii")


def _trusted() -> ssl.SSLContext:
    """Return the check of certificates by SSL_CERT_FILE or SSL_CERT_DIR, else by certifi.

    Raises:
        OSError: the files cannot be read, or have no certificates.
    """
    import certifi  # only a server with TLS needs it

    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    file = file or (None if folder else certifi.where())
    return ssl.create_default_context(cafile=file, capath=folder)
