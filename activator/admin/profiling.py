"""The profiling port as a Starlette application: Go's paths, with what Python can tell.

It is closed to everybody unless ``runtime-profiling`` is ``enabled``, which is asked with each
request. Must not know where it listens. Knative's counterparts: observability/runtime/pprof.go of
knative.dev/pkg, and Go's net/http/pprof.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.admin import stacks
from activator.admin.headers import SecurityHeaders

PREFIX: Final = "/debug/pprof/"
_DEFAULT_SECONDS: Final = 30.0
_MEMORY_SECONDS: Final = 5.0
_LONGEST: Final = 300.0
#: Seconds between two looks whether somebody still waits for a profile, and may have it.
_LOOK: Final = 0.25

_INDEX: Final = """{prefix}

cmdline               the process's arguments
profile?seconds=30    where threads are, 100 times a second; collapsed stacks for flamegraph.pl,
                      speedscope and the like
goroutine             what each thread and each task is doing
heap?seconds=5        which lines allocated, in these seconds, what is still there at their end;
                      the process is slower meanwhile. Then: how many objects of which type
"""


class _Profiling:
    """The answers. One profile is made at a time, since each slows the process down."""

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
            return PlainTextResponse("".join(stacks.all_stacks()))
        if name in ("profile", "heap"):
            return await self._measured(request, name)
        return PlainTextResponse("Unknown profile\n", 404)

    async def _measured(self, request: Request, name: str) -> Response:
        default = _DEFAULT_SECONDS if name == "profile" else _MEMORY_SECONDS
        seconds = _seconds(request.query_params.get("seconds", ""), default)
        if seconds is None:
            return PlainTextResponse(f"seconds is a number up to {_LONGEST:g}\n", 400)
        if self._busy:
            return PlainTextResponse("another profile is being made\n", 409)
        self._busy = True
        try:
            made = await self._made(request, (_profile if name == "profile" else _heap)(seconds))
        finally:
            self._busy = False
        return _not_found() if made is None else PlainTextResponse(made)

    async def _made(self, request: Request, making: Coroutine[None, None, str]) -> str | None:
        """Make it while somebody waits for it, and may have it; None if that ends first."""
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
    sampling = asyncio.ensure_future(asyncio.to_thread(stacks.sample, stop, seconds))
    try:
        return await asyncio.shield(sampling)
    finally:
        stop.set()  # the process ends, or the client is gone
        await asyncio.wait({sampling})


async def _heap(seconds: float) -> str:
    stacks.start_memory()
    try:
        await asyncio.sleep(seconds)
        lines = await asyncio.to_thread(stacks.stop_memory)
    finally:
        stacks.drop_memory()
    return lines + "\n" + stacks.objects()


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
        enabled: whether it may tell anything at this moment.
    """
    profiling = _Profiling(enabled)
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Starlette(
        routes=[Route("/{path:path}", profiling.__call__, methods=methods)],
        middleware=[Middleware(SecurityHeaders)],
    )
