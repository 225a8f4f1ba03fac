"""Decides when garbage is looked for, and when freed memory returns to the kernel.

CPython's own rule checks all objects as soon as a quarter of them is new. With 11,000 pods that
blocks the loop for 40 to 70 ms, and with changing endpoints it happens every few seconds. Here
young objects are checked often. Most survivors are checked once more some seconds later, unless
that would take long. After that they count as permanent, and die by their reference counts.
Permanent objects are checked when the process has grown, which is how garbage shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, Final

#: Allocations minus deallocations after which young objects are checked. With 20,000 a check came
#: every 20 minutes under faults: failed connection attempts leave cycles of tracebacks, and memory
#: grew by 3 MiB until then (make soak).
YOUNG: Final = 2_000
#: Most seconds of first checks whose objects are checked a second time, which takes no longer. A
#: request in flight may be part of garbage later, and a first check comes too early for it.
TWICE: Final = 0.006
#: Disables CPython's own checks of older objects.
_NEVER: Final = 1 << 30
#: Seconds between two other checks of young objects: after one that took longer than `FEW`, and
#: after a shorter one. Endpoints that change free as many objects as they make, so the number of
#: objects alone begins no check until all of them are young.
INTERVAL, INTERVAL_IDLE = 0.5, 2.5
#: Seconds that a check of few objects takes.
FEW: Final = 0.0005
#: Seconds between two looks at the size of the process.
PERIOD: Final = 15.0
#: Bytes of growth after which freed memory is returned, unless requests wait: they need it again.
ROOM: Final = 8 << 20
#: Growth, beyond these bytes, after which all objects are checked; and while requests wait.
GROWTH, GROWTH_BUSY = 1.25, 2.0

#: Parameters of mallopt (glibc's malloc.h), and their value in bytes.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT = 2 << 20
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def keep_freed_memory() -> None:
    """Let glibc keep up to 2 MiB of freed memory at the end of the heap.

    The loop allocates 256 KiB for each read of a large body. By default, glibc returns them to the
    kernel when they are freed, which has to clear their pages for the next read: half of the CPU
    time of an upload.
    """
    with contextlib.suppress(ImportError, AttributeError, OSError):  # a system without glibc
        import ctypes

        libc = ctypes.CDLL(None)
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            libc.mallopt(parameter, _KEPT)


def return_freed_memory() -> None:
    """Return all freed memory to the kernel. It blocks for 1 to 11 ms per 20 MiB."""
    with contextlib.suppress(ImportError, AttributeError, OSError):  # a system without glibc
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 on a system without /proc."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    return 0


class Memory:
    """The memory of this process, from ``begin`` to ``end``.

    Arguments:
        paused: called with the seconds of each check for garbage.
        resident: returns the resident memory of the process, in bytes.
    """

    def __init__(
        self, paused: Callable[[float], object], resident: Callable[[], int] = resident_bytes
    ) -> None:
        self._paused = paused
        self._resident = resident
        self._usual = self._least = 0
        self._began = self._took = 0.0
        self._once = 0.0  # seconds of first checks since the last second one
        self._thresholds = gc.get_threshold()

    def begin(self) -> None:
        """Check all objects, and count what is left as permanent."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, _NEVER, _NEVER)
        gc.callbacks.append(self._on_check)
        self._usual = self._least = self._resident()

    def end(self) -> None:
        """Leave the rest to CPython; may be called at any time."""
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._on_check)
            gc.set_threshold(*self._thresholds)

    async def keep(self, waiting: Callable[[], int]) -> None:
        """Check young objects, and look at the size of the process, from time to time.

        Arguments:
            waiting: returns how many requests wait for a pod.
        """
        while True:
            left = PERIOD
            while left > 0.0:
                pause = INTERVAL if self._took > FEW else INTERVAL_IDLE
                await asyncio.sleep(pause)
                left -= pause
                if gc.isenabled():
                    gc.collect(0)
            self.look(waiting())

    def look(self, waiting: int) -> None:
        """Check objects a second time. If the process has grown, return freed memory.

        If it is still large then, check all objects.

        Arguments:
            waiting: how many requests wait for a pod.
        """
        if gc.isenabled():
            gc.collect(1)
        size = self._resident()
        if not waiting and size > self._least + ROOM:
            size = self._returned()
        self._least = min(self._least, size)
        if size > (GROWTH_BUSY if waiting else GROWTH) * self._usual + ROOM:
            gc.unfreeze()
            gc.collect()
            self._usual = self._returned()
        self._usual = min(self._usual, size)

    def _returned(self) -> int:
        """Return freed memory to the kernel; return the size after it, from which growth counts."""
        return_freed_memory()
        self._least = self._resident()
        return self._least

    def _on_check(self, phase: str, info: Mapping[str, Any]) -> None:
        """Measure a check (gc.callbacks); make what has survived enough of them permanent."""
        if phase == "start":
            self._began = perf_counter()
            return
        took = perf_counter() - self._began
        is_first = info["generation"] == 0
        if is_first:
            self._took = took
            self._once += took
        if not is_first or self._once > TWICE:
            gc.freeze()
            self._once = 0.0
        self._paused(took)
