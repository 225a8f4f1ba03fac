"""How late the event loop is: a timer once a second, and the time by which it is late.

What blocks the loop (a long computation, a CPU that the container may not use) delays every request
by this time. Must not know what blocks it.
"""

from __future__ import annotations

import asyncio

from activator.records.counters import LAG_BOUNDS, Histogram

#: Seconds between timers. Each wakes an idle process, and 15 s, a usual time between scrapes, still
#: give 15 values.
EVERY = 1.0


class LoopLag:
    """Measures the lag from ``start`` to ``close``.

    Attributes:
        seconds: how late each timer came.
    """

    def __init__(self) -> None:
        self.seconds = Histogram(LAG_BOUNDS)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, in the running loop."""
        self._arm(asyncio.get_running_loop())

    def close(self) -> None:
        """End; may be called at any time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        # At the moment of the look at the listeners (activator.servers): one wake serves both.
        due = loop.time() // EVERY * EVERY + EVERY
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.seconds.observe(loop.time() - due)
        self._arm(loop)
