"""Measures how late the event loop is, by a timer once a second.

A blocked loop delays every request by this time. A long computation blocks it, or a container that
may not use a CPU. The module must not know the cause.
"""

from __future__ import annotations

import asyncio

from activator.records.counters import LAG_BOUNDS, Histogram

#: Seconds between timers. Each timer makes an idle process run. Scrapes usually come every 15 s,
#: and still get 15 values.
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
        """Start in the running loop."""
        self._arm(asyncio.get_running_loop())

    def close(self) -> None:
        """Stop; may be called at any time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        # The timer of activator.servers is due then, too: an idle process runs once for both.
        due = loop.time() // EVERY * EVERY + EVERY
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self.seconds.observe(loop.time() - due)
        self._arm(loop)
