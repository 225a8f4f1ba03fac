"""Serve the profiling port as a Starlette application: Go's paths, with profiles of Python.

It responds 404 unless ``runtime-profiling`` is ``enabled``; each request reads that setting. A
profile has stacks of threads and tasks, samples of stacks, or memory by line. It costs nothing
while none is requested. Must not know the port. Knative's counterparts:
observability/runtime/pprof.go of knative.dev/pkg, and Go's net/http/pprof and runtime/pprof.
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
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.admin.http_application import SecurityHeaders

PREFIX: Final = "/debug/pprof/"
_DEFAULT_SECONDS: Final = 30.0
_MEMORY_SECONDS: Final = 5.0
_LONGEST: Final = 300.0
#: Seconds between two checks that the client still waits, and that profiling is still enabled.
_LOOK: Final = 0.25

_INDEX: Final = """{prefix}

cmdline               the process's arguments
profile?seconds=30    samples of all threads, 100 a second: collapsed stacks for flamegraph.pl
                      or speedscope
goroutine             the stack of each thread and each task
heap?seconds=5        lines whose allocations of these seconds are in use at their end; the process
                      is slower meanwhile. Then the number of objects of each type
"""


class _Profiling:
    """The handlers. They make one profile at a time, since each slows the process down."""

    def __init__(self, enabled: Callable[[], bool]) -> None:
        self._enabled = enabled
        self._busy = False

    async def __call__(self, request: Request) -> Response:
        if not self._enabled():
            return _not_found()
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("Method Not Allowed\n", 405, {"Allow": "GET, HEAD"})
        if not request.url.path.startswith(PREFIX):
            return _not_found()
        name = request.url.path.removeprefix(PREFIX)
        if name == "":
            return PlainTextResponse(_INDEX.format(prefix=PREFIX))
        if name == "cmdline":
            return PlainTextResponse("\0".join(sys.orig_argv))
        if name == "goroutine":
            return PlainTextResponse("".join(all_stacks()))
        if name in ("profile", "heap"):
            return await self._measured(request, name)
        return PlainTextResponse("Unknown profile\n", 404)

    async def _measured(self, request: Request, name: str) -> Response:
        default = _DEFAULT_SECONDS if name == "profile" else _MEMORY_SECONDS
        seconds = _seconds(request.query_params.get("seconds", ""), default)
        if seconds is None:
            return PlainTextResponse(f"seconds must be a number up to {_LONGEST:g}\n", 400)
        if self._busy:
            return PlainTextResponse("another profile is in progress\n", 409)
        self._busy = True
        try:
            made = await self._made(request, (_profile if name == "profile" else _heap)(seconds))
        finally:
            self._busy = False
        return _not_found() if made is None else PlainTextResponse(made)

    async def _made(self, request: Request, making: Coroutine[None, None, str]) -> str | None:
        """Return a profile; None if the client goes or profiling is disabled before its end."""
        task = asyncio.ensure_future(making)
        try:
            while not (await asyncio.wait({task}, timeout=_LOOK))[0]:
                if not self._enabled() or await request.is_disconnected():
                    return None
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})


async def _profile(seconds: float) -> str:
    stop = threading.Event()
    sampling = asyncio.ensure_future(asyncio.to_thread(sample, stop, seconds))
    try:
        return await asyncio.shield(sampling)
    finally:
        stop.set()  # the process ends, or the client is gone
        await asyncio.wait({sampling})


async def _heap(seconds: float) -> str:
    tracemalloc.start()
    try:
        await asyncio.sleep(seconds)
        lines = await asyncio.to_thread(stop_memory)
    finally:
        tracemalloc.stop()
    return lines + "\n" + objects()


def _seconds(text: str, default: float) -> float | None:
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds <= _LONGEST else None


def _not_found() -> Response:
    return PlainTextResponse("404 page not found\n", 404)


def create_profiling_app(enabled: Callable[[], bool]) -> Starlette:
    """Return the application for the profiling port.

    Arguments:
        enabled: returns whether profiling is enabled now.
    """
    profiling = _Profiling(enabled)
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Starlette(
        routes=[Route("/{path:path}", profiling.__call__, methods=methods)],
        middleware=[Middleware(SecurityHeaders)],
    )


# -- the profiles themselves

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


def objects() -> str:
    """Return the number of the garbage collector's objects by type, the largest first.

    Objects that were frozen after the start do not count.
    """
    kinds = Counter(type(each).__name__ for each in gc.get_objects())
    lines = [f"{count:>12} {name}" for name, count in kinds.most_common(_KINDS)]
    return "\n".join([*lines, f"{gc.get_freeze_count():>12} more, frozen at start"]) + "\n"
