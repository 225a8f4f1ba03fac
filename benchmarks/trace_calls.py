"""Print which functions one warm request calls, from bytes read to bytes written.

``python -m benchmarks.trace_calls`` traces a GET and a gRPC call, with the scripted clients and
pods of the tests. Their connections have served requests before. docs/architecture.md shows the
result. A compiled build has no such calls: run it with the pure build.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from activator.build import Build, running
from activator.records.agents import MOST_REQUESTS
from tests.activator.proxy.http2.peers import Http2World, Message, Peer
from tests.activator.proxy.world import World, request

ROOT: Final = Path(__file__).resolve().parents[1]
#: Requests before the one that counts: after ``agents.MOST_REQUESTS``, none is sampled for minutes.
WARM_UP: Final = MOST_REQUESTS + 20


class Call(NamedTuple):
    """One call: how deep it is, its file, its function, and the first line of its docstring."""

    depth: int
    file: str
    function: str
    why: str


class Recorder:
    """Record each call into the packages ``activator`` and ``throttler``."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._ours: list[bool] = []

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            path = Path(code.co_filename)
            ours = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in (
                "activator",
                "throttler",
            )
            if ours:
                first = code.co_consts[0] if code.co_consts else None
                why = first.partition("\n")[0] if isinstance(first, str) else ""
                file = path.relative_to(ROOT).as_posix()
                self.calls.append(Call(sum(self._ours), file, code.co_qualname, why))
            self._ours.append(ours)
        elif event == "return" and self._ours:
            self._ours.pop()


async def traced(serve: Callable[[], Awaitable[object]]) -> list[Call]:
    """Serve some requests, then record the calls of one more."""
    for _ in range(WARM_UP):
        await serve()
    recorder = Recorder()
    sys.setprofile(recorder)
    try:
        await serve()
    finally:
        sys.setprofile(None)
    return recorder.calls


async def trace_get() -> list[Call]:
    """Trace a GET over kept HTTP/1.1 connections of client and pod."""
    world = World()
    await world.start()
    await world.serving(container_concurrency=10)
    client = await world.client()

    async def serve() -> None:
        client.send(request())
        await client.answer()

    calls = await traced(serve)
    await world.close()
    return calls


async def trace_grpc() -> list[Call]:
    """Trace a gRPC unary call over HTTP/2 connections of client and pod."""
    world = World()
    await world.start()
    http2 = Http2World(world)
    pod = await http2.serving(container_concurrency=10)
    pod.on_message = _respond
    client = await http2.client()
    more = ((b"content-type", b"application/grpc"), (b"te", b"trailers"))

    async def serve() -> None:
        stream = client.ask(b"/package.Service/Method", b"POST", *more, end=False)
        client.data(stream, b"\0\0\0\0\5hello", end=True)
        await client.answer(stream)

    calls = await traced(serve)
    http2.close()
    await world.close()
    return calls


def _respond(peer: Peer, stream: int, message: Message) -> None:
    if message.ended:
        peer.headers(stream, [(b":status", b"200"), (b"content-type", b"application/grpc")])
        peer.data(stream, b"\0\0\0\0\5hello")
        peer.headers(stream, [(b"grpc-status", b"0")], end=True)


def report(title: str, calls: list[Call]) -> None:
    """Print the calls as a tree, then their number per file."""
    print(f"{title}: {len(calls)} calls in {len({call.file for call in calls})} files\n")
    for call in calls:
        file = call.file.removeprefix("activator/").removeprefix("proxy/")
        place = f"{'  ' * call.depth}{file} {call.function}"
        print(f"{place:72} {call.why}".rstrip())
    print()
    for file, count in Counter(call.file for call in calls).most_common():
        print(f"{count:4}  {file}")
    print()


def main() -> None:
    """Print the traces of a GET and of a gRPC call; a compiled build ends with status 1."""
    if running() is not Build.PURE:
        sys.exit("a compiled build has no calls to trace: use the pure build")
    report("GET", asyncio.run(trace_get()))
    report("gRPC", asyncio.run(trace_grpc()))


if __name__ == "__main__":
    main()
