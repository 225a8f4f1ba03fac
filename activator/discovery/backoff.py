"""Decides how long to wait: after a failure, for an answer, in silence.

It must not know what failed.
Counterpart: the backoff manager of client-go's tools/cache/reflector.go.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Timings:
    """All times, in seconds.

    Attributes:
        backoff_first: pause after the first failure; doubled each time, plus up to as much again.
        backoff_limit: no pause is longer, unless the server asks for it.
        backoff_waiting: the same while requests wait for pods. A random pause of at least half of
            this keeps one activator at one attempt per kind and second.
        backoff_spread: a pause that has lasted longer than that ends within this random time.
        healthy_after: after this long without a failure the pauses start from the first again.
        retry_after_limit: no ``Retry-After`` is obeyed beyond this.
        connect: until a connection stands.
        inactivity: silence after which a stream is taken for dead: one and a half times the
            interval between bookmarks. The API server sends a bookmark after 60 s
            (defaultBookmarkFrequency) and looks for due ones every 1 to 1.25 s, both in
            k8s.io/apiserver/pkg/storage/cacher/cacher.go. Load and proxies add to that.
        list_page: until a page of a list is complete.
        watch_least, watch_most: how long the server is asked to keep a stream; random, so that
            not all streams of all clients end together.
        missing: until a resource that may be missing is asked for again.
        watch_brief: a stream that ends sooner counts as a failure.
        in_flight: in which a change that a list shows must have come by the watch as well: ten
            times what a busy API server takes.
        relist: until a list that was asked for because something was wrong is in force.
        credentials: age at which credentials are read again.
        version_interval, version_limit: how often and for how long to ask for the version.
        version_reminder: until the log says again that the version is still waited for.
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
    """Seconds until the next attempt, and the part of them that waiting requests do not cut."""

    seconds: float
    minimum: float = 0.0


def hurried(pause: Pause, lasted: float, timings: Timings) -> float:
    """Return how much of a pause is left once requests wait.

    Arguments:
        pause: the pause in progress.
        lasted: seconds since it began.
        timings: the limit while requests wait.

    Returns:
        Seconds; random, so that activators that lost one server together do not return together.
    """
    limit = random.uniform(timings.backoff_waiting / 2, timings.backoff_waiting)
    spread = random.uniform(0.0, timings.backoff_spread)
    return min(pause.seconds - lasted, max(limit - lasted, pause.minimum - lasted, spread))


class Backoff:
    """How long to pause after a failure. Doubles, and starts anew after a healthy time."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._exponent = 0
        self._healthy_since = float("-inf")

    def pause(self, now: float, *, first_is_free: bool = False) -> float:
        """Says how long to wait after a failure.

        Arguments:
            now: the loop's time.
            first_is_free: whether the first failure after a healthy time costs no pause.

        Returns:
            Seconds.
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
