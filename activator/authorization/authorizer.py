"""Sends sub-requests to authorization servers: one task for each, and few at a time.

Requests with equal credentials share a sub-request only if its result would be cached anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from activator.authorization import sub_request
from activator.authorization.verdicts import Key, Verdicts, key_of
from activator.process.logs import Repeats
from activator.process.tasks import Tasks
from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict

if TYPE_CHECKING:  # imported for the first sub-request
    import httpx

logger = logging.getLogger(__name__)

#: Most requests that wait for a decision of any server, and of one server. So a server that hangs
#: leaves room for requests to others.
MOST_WAITING: Final = 4096
MOST_WAITING_PER_SERVER: Final = 2048
#: Most bytes of the requests that wait for a decision of any server, and of one server. They are in
#: no queue, so no limit of a queue counts them.
MOST_BYTES: Final = 64 << 20
MOST_BYTES_PER_SERVER: Final = 32 << 20
#: Most sub-requests at a time to one server.
MOST_AT_ONCE: Final = 32
_UNREADY: Final = Verdict(0, error="no sub-request is possible")
_FULL: Final = Verdict(0, error="too many requests wait for authorization")


class Owner(Protocol):
    """A request that waits for a decision (proxy.exchange.authorizing.Authorized)."""

    def decided(self, verdict: Verdict) -> None:
        """Continue, or end."""


class _Check:
    """One sub-request, and the requests that wait for its result.

    Attributes:
        key: of these requests.
        shared: whether more requests may join.
        owners: the requests that wait.
        task: sends the sub-request.
    """

    __slots__ = ("key", "owners", "shared", "task")

    task: asyncio.Task[None]

    def __init__(self, key: Key, *, shared: bool) -> None:
        self.key = key
        self.shared = shared
        self.owners: list[Owner] = []


class _Server:
    """The load of one server, while it has any.

    Attributes:
        places: limits the sub-requests at a time.
        checks: the sub-requests, also those that wait for a place, or have a result.
        owners, bytes: the requests that wait, and their sizes.
    """

    __slots__ = ("bytes", "checks", "owners", "places")

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(MOST_AT_ONCE)
        self.checks = self.owners = self.bytes = 0

    def has_room(self, size: int) -> bool:
        """Return whether one more request of ``size`` bytes may wait."""
        return self.owners < MOST_WAITING_PER_SERVER and self.bytes + size <= MOST_BYTES_PER_SERVER

    def add(self, size: int) -> None:
        """Count a request of ``size`` bytes that waits."""
        self.owners += 1
        self.bytes += size

    def remove(self, size: int) -> None:
        """Subtract a request of ``size`` bytes that no longer waits."""
        self.owners -= 1
        self.bytes -= size


class Authorizer:
    """Gets decisions of authorization servers (proxy.exchange.authorizing.Authorizer).

    Arguments:
        clock: seconds, monotonic.

    Attributes:
        counts: sub-requests that ended, and uses of cached decisions, by result: ``allowed``,
            ``denied``, ``failed``, ``cached``.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tasks = Tasks()
        self._verdicts = Verdicts()
        self._checks: dict[Owner, tuple[_Check, int]] = {}  # with the size of each request
        self._bytes = 0
        self._shared: dict[Key, _Check] = {}
        self._servers: dict[str, _Server] = {}
        self._repeats = Repeats()
        self._opening: asyncio.Future[httpx.AsyncClient] | None = None
        self.counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a decision."""
        return len(self._checks)

    def known(
        self, revision: RevisionID, policy: Authorization, credentials: bytes, now: float
    ) -> Verdict | None:
        """See proxy.exchange.authorizing.Authorizer."""
        if not policy.cache_seconds:
            return None
        key = key_of(revision, policy, credentials)
        verdict = self._verdicts.get(key, policy.cache_seconds, now)
        if verdict is not None:
            self.counts["cached"] += 1
        return verdict

    def ask(
        self,
        owner: Owner,
        revision: RevisionID,
        policy: Authorization,
        credentials: bytes,
        fields: list[tuple[bytes, bytes]],
        size: int,
    ) -> Verdict | None:
        """See proxy.exchange.authorizing.Authorizer."""
        key = key_of(revision, policy, credentials)
        server = self._servers.get(policy.url)
        if server is not None and not server.has_room(size):
            return _FULL
        if len(self._checks) >= MOST_WAITING or self._bytes + size > MOST_BYTES:
            return _FULL
        if server is None:
            server = self._servers[policy.url] = _Server()
        check = self._shared.get(key)
        if check is None:
            check = _Check(key, shared=policy.cache_seconds > 0)
            if check.shared:
                self._shared[key] = check
            server.checks += 1
            check.task = self._tasks.start(self._run(check, server, fields))
            check.task.add_done_callback(lambda _: self._done(check, server))
        check.owners.append(owner)
        server.add(size)
        self._bytes += size
        self._checks[owner] = check, size
        return None

    def cancel(self, owner: Owner) -> None:
        """See proxy.exchange.authorizing.Authorizer. The last request cancels its sub-request."""
        if owner not in self._checks:
            return
        check = self._checks[owner][0]
        check.owners.remove(owner)
        self._forget(owner)
        if not check.owners:
            self._unshare(check)
            check.task.cancel()

    async def open(self) -> httpx.AsyncClient:
        """Return the client; the first call makes it in a thread, since that takes long.

        Raises:
            OSError: certificates cannot be read. The next call tries again.
        """
        opening = self._opening
        if opening is None or _has_failed(opening):
            thread = asyncio.to_thread(sub_request.open_client, LONGEST)
            opening = self._opening = asyncio.ensure_future(thread)
        return await asyncio.shield(opening)

    async def close(self) -> None:
        """Cancel all sub-requests, and close the connections."""
        await self._tasks.close()
        if self._opening is not None and not _has_failed(self._opening):
            client = await self._opening
            await client.aclose()

    async def _run(self, check: _Check, server: _Server, fields: list[tuple[bytes, bytes]]) -> None:
        """Send a sub-request, and report its result; a failure is a result."""

        def decide(verdict: Verdict) -> None:
            self._decide(check, verdict)

        try:
            client = await self.open()
            async with asyncio.timeout(LONGEST), server.places:
                await sub_request.send(client, check.key.url, fields, decide)
        except TimeoutError:
            decide(Verdict(0, error=sub_request.LATE))
        except OSError as error:
            if self._repeats.admit("no client", self._clock()) is not None:
                logger.warning("no sub-request for authorization is possible: %s", error)
            decide(_UNREADY)

    def _done(self, check: _Check, server: _Server) -> None:
        """Remove a sub-request, also one that was cancelled or has failed unexpectedly."""
        self._decide(check, Verdict(0, error="the sub-request has failed"))
        self._unshare(check)
        server.checks -= 1
        if not server.checks:
            del self._servers[check.key.url]

    def _decide(self, check: _Check, verdict: Verdict) -> None:
        """Report a result to the requests that wait; the first result counts."""
        owners, check.owners = check.owners, []
        if not owners:
            return
        self._unshare(check)
        self.counts[_result(verdict)] += 1
        if check.shared and (verdict.allows or verdict.denies):
            self._verdicts.put(check.key, verdict, self._clock())
        for owner in owners:
            self._forget(owner)
        for owner in owners:
            owner.decided(verdict)

    def _forget(self, owner: Owner) -> None:
        """Subtract a request that has its decision, or has ended."""
        check, size = self._checks.pop(owner)
        self._servers[check.key.url].remove(size)
        self._bytes -= size

    def _unshare(self, check: _Check) -> None:
        """Let no more requests join."""
        if self._shared.get(check.key) is check:
            del self._shared[check.key]


#: Seconds for a sub-request, with its wait for a place. A request may have to end earlier.
LONGEST: Final = 2.0
#: The keys of ``Authorizer.counts``.
RESULTS: Final = ("allowed", "denied", "failed", "cached")


def _has_failed(opening: asyncio.Future[httpx.AsyncClient]) -> bool:
    return opening.done() and opening.exception() is not None


def _result(verdict: Verdict) -> str:
    if verdict.allows:
        return "allowed"
    return "denied" if verdict.denies else "failed"
