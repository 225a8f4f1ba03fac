"""The pauses of one reflector between its attempts: the first waiting request shortens one.

``backoff`` decides the seconds; this module waits. It must not know the attempts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from activator.discovery.backoff import Backoff, Pause, Timings, hurried


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


def _now() -> float:
    return asyncio.get_running_loop().time()
