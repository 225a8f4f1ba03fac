"""How late the event loop is: a timer every so often, and by how much it came after its time.

Whoever holds the loop (a long computation, a CPU that the container may not use) delays every
request by this. Must not know what delays it.
"""

from __future__ import annotations

import asyncio

from activator.counters import LAG_BOUNDS, Histogram

#: Seconds between timers: often enough that 15 s, a usual time between scrapes, hold a percentile.
EVERY = 0.25


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
        due = loop.time() + EVERY
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.seconds.observe(loop.time() - due)
        self._arm(loop)
