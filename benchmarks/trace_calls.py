"""Print which functions one request calls, on four ways: files, calls, and switches between files.

``python -m benchmarks.trace_calls [WAY]…`` traces, in the pure build:

- ``get`` and ``grpc``: one warm request, from bytes read to bytes written. The scripted clients and
  pods of the tests play both ends; their connections have served requests before.
- ``held``: a GET to a Service without pods, until its response. In between, a pod is listed and
  its probe passes.
- ``scale``: a report of one waiting request, until the scaler's PATCH of the replicas.

``--counts`` prints only the counts. docs/architecture.md describes the ways.
tests/benchmarks/test_trace_calls.py holds the counts. A compiled build has no such calls.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from activator.build import Build, running
from activator.proxy.client.http1 import Http1ClientConnection
from activator.records.entries import MOST_SAMPLED
from activator.runtime import Runtime
from activator.settings.config import load
from tests.activator.discovery.fake_api_server import FakeApiServer
from tests.activator.plain import objects
from tests.activator.proxy.http2.peers import Http2World, Message, Peer
from tests.activator.proxy.world import Client, Pod, World, request
from tests.activator.scale.world import cluster, leader
from throttler.model import AppProtocol, ListedEndpoints, RevisionID, RevisionKind

ROOT: Final = Path(__file__).resolve().parents[1]
#: Requests before the one that counts: after ``entries.MOST_SAMPLED``, none is sampled for minutes.
WARM_UP: Final = MOST_SAMPLED + 20

#: The Services of the ways from zero: the first one warms up what is loaded late.
SERVICES: Final = ("first", "second")


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
            place = path.relative_to(ROOT).parts if path.is_relative_to(ROOT) else ("",)
            # The lab plays the other programs, such as the API server.
            ours = place[0] in ("activator", "throttler") and place[1] != "lab"
            if ours:
                first = code.co_consts[0] if code.co_consts else None
                why = first.partition("\n")[0] if isinstance(first, str) else ""
                file = path.relative_to(ROOT).as_posix()
                self.calls.append(Call(sum(self._ours), file, code.co_qualname, why))
            self._ours.append(ours)
        elif event == "return" and self._ours:
            self._ours.pop()


async def traced(serve: Callable[[], Awaitable[object]], before: int = WARM_UP) -> list[Call]:
    """Do something some times before, then record the calls of one time more."""
    for _ in range(before):
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


async def trace_held() -> list[Call]:
    """Trace a GET that arrives before its Service has a pod."""
    loop = asyncio.get_running_loop()
    world = World()
    environ = {"POD_NAME": "a", "POD_IP": "127.0.0.1", "SYSTEM_NAMESPACE": "activator-system"}
    flags = {"dialect": "services", "admin_port": "0", "autoscaler_url": "", "scaler_url": ""}
    names = iter(SERVICES)
    async with AsyncExitStack() as stack, FakeApiServer() as server:
        for name in SERVICES:
            server.put(objects.named(objects.service(), name, uid=name))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        flags["kubeconfig"] = server.kubeconfig(Path(folder))
        runtime = Runtime(load("run", flags, environ))
        async with runtime.lifespan():
            listener = await loop.create_server(
                lambda: Http1ClientConnection(runtime.proxy),  # type: ignore[arg-type, return-value] # it has the methods of a protocol
                "127.0.0.1",
                0,
            )
            port = listener.sockets[0].getsockname()[1]

            async def serve() -> None:
                service = RevisionID("shop", next(names), RevisionKind.SERVICE)
                throttler = runtime.driver.throttler.find(*service)
                client = clients[service.name]
                client.send(b"GET / HTTP/1.1\r\nHost: %b.shop\r\n\r\n" % service.name.encode())
                await turn_until(lambda: throttler.queued.waiting)
                listed = ListedEndpoints(frozenset({pods[service.name].endpoint}))
                runtime.driver.set_endpoints(service, {AppProtocol.HTTP1: listed})
                answer = await client.answer()
                assert answer.status == 200, answer

            clients, pods = {}, {}
            for name in SERVICES:
                _, clients[name] = await loop.create_connection(Client, "127.0.0.1", port)
                pods[name] = Pod(world)
                await pods[name].listen()
            calls = await traced(serve, before=1)
            listener.close()
            for name in SERVICES:
                clients[name].close()
                await pods[name].close()
    return calls


async def trace_scale() -> list[Call]:
    """Trace a scaler from the report of a waiting request until its PATCH has arrived."""
    with tempfile.TemporaryDirectory() as folder:
        async with cluster(Path(folder)) as kube:
            names = iter(SERVICES)
            for name in SERVICES:
                await kube.add(name)
            async with leader(kube) as scaler, scaler.activator() as activator:

                async def serve() -> None:
                    name = next(names)
                    await activator.report(1, name)
                    await turn_until(lambda: kube.replicas(name) == 1)
                    if name == SERVICES[0]:
                        # The next way has no call of this one: its PATCH must have a response.
                        while not (await scaler.service(name))["lastChange"]:  # noqa: ASYNC110 # as in turn_until
                            await asyncio.sleep(0)

                return await traced(serve, before=1)


async def turn_until(condition: Callable[[], object]) -> None:
    """Let the loop turn until a condition holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 # the ways have no event in common
            await asyncio.sleep(0)


#: The ways, and their titles.
WAYS: Final[dict[str, tuple[str, Callable[[], Coroutine[Any, Any, list[Call]]]]]] = {
    "get": ("warm GET", trace_get),
    "grpc": ("gRPC unary", trace_grpc),
    "held": ("held GET from zero", trace_held),
    "scale": ("scale from zero, report to PATCH", trace_scale),
}


class Counts(NamedTuple):
    """How far apart the calls of one way are: what a reader has to open, and how often."""

    calls: int
    files: int
    switches: int


def count(calls: list[Call]) -> Counts:
    """Count calls, files, and the pairs of successive calls that are in different files."""
    files = [call.file for call in calls]
    switches = sum(before != after for before, after in pairwise(files))
    return Counts(len(calls), len(set(files)), switches)


def report(title: str, calls: list[Call], *, only_counts: bool) -> None:
    """Print the counts; also the calls as a tree, and their number per file."""
    counts = count(calls)
    print(f"{title}: {counts.calls} calls in {counts.files} files, {counts.switches} switches")
    if only_counts:
        return
    print()
    for call in calls:
        file = call.file.removeprefix("activator/").removeprefix("proxy/")
        place = f"{'  ' * call.depth}{file} {call.function}"
        print(f"{place:72} {call.why}".rstrip())
    print()
    for file, number in Counter(call.file for call in calls).most_common():
        print(f"{number:4}  {file}")
    print()


def main(arguments: list[str]) -> None:
    """Print the traces; a compiled build, or an unknown way, ends with an error."""
    if running() is not Build.PURE:
        sys.exit("a compiled build has no calls to trace: use the pure build")
    only_counts = "--counts" in arguments
    asked = [each for each in arguments if each != "--counts"] or list(WAYS)
    if unknown := [each for each in asked if each not in WAYS]:
        sys.exit(f"unknown: {' '.join(unknown)}; the ways are {' '.join(WAYS)}")
    for way in asked:
        title, trace = WAYS[way]
        report(title, asyncio.run(trace()), only_counts=only_counts)


if __name__ == "__main__":
    main(sys.argv[1:])
