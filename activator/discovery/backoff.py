"""Decides how long to wait after a failure, for a response, and for a silent server.

It must not know the request that failed. Counterpart: the backoff manager of client-go's
tools/cache/reflector.go.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class Timings:
    """All times, in seconds.

    Attributes:
        backoff_first: pause after the first failure. It doubles with each failure; a random part of
            up to the same length is added.
        backoff_limit: maximum of a pause, unless the server requests a longer one.
        backoff_waiting: maximum of a pause while requests wait for pods. The pause is random, and
            at least half of that. So an activator makes about one attempt per kind and second.
        backoff_spread: a pause that has lasted longer than that ends within this random time.
        healthy_after: time without a failure after which pauses start from the first one again.
        retry_after_limit: maximum of ``Retry-After``.
        connect: time-out of a connect.
        inactivity: silence after which a stream counts as lost: one and a half times the interval
            between bookmarks. The API server sends a bookmark after 60 s, and looks for due ones
            every 1 to 1.25 s. Load and proxies add to that. Source: defaultBookmarkFrequency in
            k8s.io/apiserver/pkg/storage/cacher/cacher.go.
        list_page: time-out of a page of a list.
        request: time-out of a request other than a list or a watch, with all its attempts.
        watch_least, watch_most: limits of the random time-out that a watch requests. So the
            streams of different clients do not end together.
        missing: time until another attempt to read an optional resource that is missing.
        watch_brief: a stream that ends sooner counts as a failure.
        in_flight: time within which the watch must deliver a change that a list shows. It is ten
            times the delay of a busy API server.
        relist: time-out of a resync after a difference.
        credentials: age at which credentials are read again.
        version_interval, version_limit: time between two requests for the version, and the
            time-out of all of them.
        version_reminder: time between two log lines about the missing version.
    """

    backoff_first: float = 0.8
    backoff_limit: float = 30.0
    backoff_waiting: float = 2.0
    backoff_spread: float = 0.2
    healthy_after: float = 120.0
    retry_after_limit: float = 120.0
    connect: float = 10.0
    inactivity: float = 90.0
    list_page: float = 60.0
    request: float = 10.0
    watch_least: float = 300.0
    watch_most: float = 600.0
    missing: float = 300.0
    watch_brief: float = 1.0
    in_flight: float = 10.0
    relist: float = 120.0
    credentials: float = 60.0
    version_interval: float = 1.0
    version_limit: float = 60.0
    version_reminder: float = 15.0


class Pause(NamedTuple):
    """Seconds until the next attempt, and the part that waiting requests do not shorten."""

    seconds: float
    minimum: float = 0.0


def hurried(pause: Pause, lasted: float, timings: Timings) -> float:
    """Return the rest of a pause when the first request begins to wait.

    Arguments:
        pause: the pause in progress.
        lasted: seconds since it began.
        timings: the limit while requests wait.

    Returns:
        Seconds; random, so that activators that lost a server together do not return together.
    """
    limit = random.uniform(timings.backoff_waiting / 2, timings.backoff_waiting)
    spread = random.uniform(0.0, timings.backoff_spread)
    return min(pause.seconds - lasted, max(limit - lasted, pause.minimum - lasted, spread))


class Backoff:
    """Pauses after failures: each is twice as long, until a time without failures resets it."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._exponent = 0
        self._healthy_since = float("-inf")

    def pause(self, now: float, *, first_is_free: bool = False) -> float:
        """Return the seconds to wait after a failure.

        Arguments:
            now: the loop's time.
            first_is_free: whether there is no pause for the first failure after a time without.
        """
        if now - self._healthy_since > self._timings.healthy_after:
            self._exponent = 0
        base = self._timings.backoff_first * 2**self._exponent
        free = first_is_free and self._exponent == 0
        pause = min(base * (1 + random.random()), self._timings.backoff_limit)
        if base < self._timings.backoff_limit:
            self._exponent += 1
        self._healthy_since = now + (0 if free else pause)
        return 0.0 if free else pause


class Pauses:
    """The pauses of one reflector; at most one is in progress.

    Arguments:
        timings: the lengths of pauses.
        requests_wait: returns whether any request waits for a pod.
    """

    def __init__(self, timings: Timings, requests_wait: Callable[[], bool]) -> None:
        self._timings = timings
        self._requests_wait = requests_wait
        self._backoff = Backoff(timings)
        # The pause in progress that waiting requests may shorten, its begin and its end.
        self._current: tuple[Pause, float, asyncio.Timeout] | None = None

    def after_failure(self, *, first_is_free: bool = False) -> float:
        """Return the seconds to pause after a failure: less while requests wait.

        Arguments:
            first_is_free: as in ``Backoff.pause``.
        """
        pause = self._backoff.pause(_now(), first_is_free=first_is_free)
        return hurried(Pause(pause), 0.0, self._timings) if self._requests_wait() else pause

    async def wait(self, pause: Pause) -> None:
        """Wait until the next attempt; ``hurry`` may shorten that."""
        if not pause.seconds:
            return
        try:
            async with asyncio.timeout(pause.seconds) as end:
                self._current = (pause, _now(), end)
                await asyncio.get_running_loop().create_future()
        except TimeoutError:
            pass
        finally:
            self._current = None

    def hurry(self) -> None:
        """Shorten the pause in progress, since a request has begun to wait.

        A pause is shortened once: more requests have no effect on it.
        """
        if self._current is None:
            return
        (pause, began, end), self._current = self._current, None
        if end.expired():  # the pause has ended, and its task has not run since
            return
        now = _now()
        end.reschedule(now + hurried(pause, now - began, self._timings))


#: Seconds of work after which other tasks get turns.
PIECE: Final = 0.001
#: Turns of the loop between two pieces. A request needs about six; so it meets one piece, not six.
REST: Final = 6


class Turns:
    """Divides long work into pieces: requests run in the same loop, between them."""

    def __init__(self) -> None:
        self._since = _now()

    async def pause(self) -> None:
        """Let other tasks run if the current piece has lasted long enough."""
        if _now() - self._since >= PIECE:
            for _ in range(REST):
                await asyncio.sleep(0)
            self._since = _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
