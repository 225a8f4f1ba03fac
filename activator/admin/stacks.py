"""Take profiles of the process: stacks of threads and tasks, samples of stacks, memory by line.

It costs nothing while no profile is requested. Knows no HTTP. Knative's counterpart: Go's
runtime/pprof.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import Final

#: Seconds between two samples (Go's: 100 a second).
SAMPLE_EVERY: Final = 0.01
#: Frames in one sampled stack; deeper stacks lose their outermost frames.
_DEEPEST: Final = 128
_LINES_OF_MEMORY: Final = 50
_KINDS: Final = 30


def sample(stop: threading.Event, seconds: float) -> str:
    """Return samples of all threads, 100 a second. It blocks: call it in a thread of its own.

    Waiting threads count too: the innermost frame shows where a thread waits.

    Arguments:
        stop: ends the profile early.
        seconds: duration.

    Returns:
        Collapsed stacks: a line per stack, ``thread;outermost;…;innermost count``, as
        flamegraph.pl and speedscope read them.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    own = threading.get_ident()
    names: dict[int, str] = {}
    for _ in range(max(1, round(seconds / SAMPLE_EVERY))):
        for number, frame in sys._current_frames().items():
            if number == own:
                continue
            if number not in names:
                names = {each.ident: each.name for each in threading.enumerate() if each.ident}
            counts[(names.get(number, "thread"), *_frames(frame))] += 1
        if stop.wait(SAMPLE_EVERY):
            break
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in counts.most_common())


def _frames(frame: FrameType | None) -> list[str]:
    """Return the functions of a stack, the outermost first."""
    found: list[str] = []
    while frame is not None and len(found) < _DEEPEST:
        code = frame.f_code
        found.append(f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{frame.f_lineno})")
        frame = frame.f_back
    return [each.replace(";", ",") for each in reversed(found)]


def all_stacks() -> Iterator[str]:
    """Yield the stack of each thread and each task."""
    names = {each.ident: each.name for each in threading.enumerate()}
    for number, frame in sys._current_frames().items():
        yield f"thread {number} [{names.get(number, '?')}]:\n"
        yield "".join(traceback.format_stack(frame)) + "\n"
    for task in asyncio.all_tasks():
        yield f"task {task.get_name()}:\n"
        for frame in task.get_stack():
            yield "".join(traceback.format_stack(frame, limit=1))
        yield "\n"


def start_memory() -> None:
    """Start to record allocations by line; the process is slower meanwhile."""
    tracemalloc.start()


def stop_memory() -> str:
    """Return the lines whose allocations are in use, most bytes first; stop recording."""
    if not tracemalloc.is_tracing():
        return ""
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    statistics = snapshot.statistics("lineno")[:_LINES_OF_MEMORY]
    lines = [
        f"{each.size:>12} bytes {each.count:>9} blocks  {each.traceback}" for each in statistics
    ]
    return "\n".join(lines) + "\n"


def drop_memory() -> None:
    """Stop recording, and discard the records."""
    tracemalloc.stop()


def objects() -> str:
    """Return the number of the garbage collector's objects by type, the largest first.

    Objects that were frozen after the start do not count.
    """
    kinds = Counter(type(each).__name__ for each in gc.get_objects())
    lines = [f"{count:>12} {name}" for name, count in kinds.most_common(_KINDS)]
    return "\n".join([*lines, f"{gc.get_freeze_count():>12} more, frozen at start"]) + "\n"
