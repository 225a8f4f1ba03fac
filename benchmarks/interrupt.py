"""Ctrl-C ends a benchmark early and still prints its table."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: What the first signal prints: until the table, some benchmarks wait for a minute or more.
_ENDING = b"\nending early: the table follows when all is at rest; a second Ctrl-C ends at once\n"


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Provide an event that the first SIGINT or SIGTERM sets; the second has its usual effect.

    It works only in the main thread; in another thread nothing sets the event.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, _: object) -> None:
        stop.set()
        restore()
        os.write(2, _ENDING)  # print() could be under way: it is not reentrant

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        restore()
