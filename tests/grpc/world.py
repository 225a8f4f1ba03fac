"""Activators and grpcio pods as processes, their folder of manifests, and grpcio clients."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import grpc

from activator.lab.objects import PodAddress, private_endpoints, revision, write_object
from tests.process import ANY_PORTS, PATIENCE, ROOT, Activator, activator, addresses, until

NAME = "app"
AUTHORITY = f"{NAME}.default.svc.cluster.local"
_ENDLESS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Pod:
    """One pod; ``facts`` are the events that it has reported so far."""

    def __init__(self, address: PodAddress, age: int, streams: int) -> None:
        self.address = address
        self._settings = str(age), str(streams)
        self.facts: list[dict[str, Any]] = []
        self._told = asyncio.Event()

    process: Process

    async def start(self) -> None:
        """Start the process, and wait until it listens."""
        arguments = self.address.ip, str(self.address.port), *self._settings
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.grpc.pod", *arguments),
            stdout=PIPE,
            cwd=ROOT,
        )
        self._reading = asyncio.get_running_loop().create_task(self._read())
        await self.told("listening")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            with suppress(ValueError):  # a line that SIGKILL truncated
                self.facts.append(json.loads(line))
            self._told.set()
        self._told.set()

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [fact for fact in self.facts if fact["event"] == event]

    async def told(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until the pod has reported ``count`` events of a kind, and return them."""
        async with asyncio.timeout(PATIENCE):
            while len(self.of(event)) < count:
                assert not self._reading.done(), f"the pod ended before it reported {event}"
                self._told.clear()
                await self._told.wait()
        return self.of(event)

    async def end(self, *, kill: bool = False) -> None:
        """End the process, by SIGTERM and a drain or by SIGKILL, and wait for its end."""
        with suppress(ProcessLookupError):
            self.process.kill() if kill else self.process.terminate()
        await self.process.wait()
        await self._reading


class GrpcWorld:
    """All processes of one test; leaving the block ends them."""

    def __init__(self, folder: Path) -> None:
        self._manifests = folder / "manifests"
        self._manifests.mkdir()
        self._stack = AsyncExitStack()
        self._addresses = addresses()
        self.pods: list[Pod] = []

    async def __aenter__(self) -> GrpcWorld:
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._stack.aclose()

    async def activator(self, *arguments: str) -> Activator:
        """Start an activator on the manifests, and wait until it is ready."""
        given = ("local", "--manifests", str(self._manifests), *ANY_PORTS, *arguments)
        running = await self._stack.enter_async_context(activator(*given))
        await running.address("http")
        return running

    async def pod(self, age: int = 0, streams: int = 0) -> Pod:
        """Start a pod, and wait until it listens.

        Arguments:
            age: maximum age of a connection in milliseconds; 0 for no maximum.
            streams: maximum number of calls at a time on one connection; 0 for no maximum.
        """
        place = self._addresses.take()
        name = f"grpc-{len(self.pods) + 1}"
        pod = Pod(
            PodAddress(place.ip, place.port, f"uid-of-{name}", name, ready=True), age, streams
        )
        self.pods.append(pod)
        self._stack.push_async_callback(pod.end, kill=True)
        await pod.start()
        return pod

    def revision(self, **settings: Any) -> None:
        """Write the Revision default/app; `activator.lab.objects` documents the settings."""
        write_object(self._manifests, revision(NAME, uid="uid-of-app", h2c=True, **settings))

    def list(self, pods: Iterable[Pod]) -> None:
        """Write which pods Kubernetes lists as ready."""
        listed = [pod.address for pod in pods]
        write_object(self._manifests, private_endpoints(NAME, listed, h2c=True))

    async def client(self, *activators: Activator, listener: str = "http") -> Client:
        """Return a grpcio client; with several activators it alternates between them.

        With several activators it may retry a call that was not sent, as grpcio does by default.
        """
        where = [await each.address(listener) for each in activators]
        target = ",".join(f"{host}:{port}" for host, port in where)
        client = Client(target, retries=len(where) > 1)
        self._stack.push_async_callback(client.channel.close)
        return client


class Client:
    """A channel, and the methods of the pod's application."""

    def __init__(self, target: str, authority: str = AUTHORITY, *, retries: bool = False) -> None:
        balance = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})
        self.channel = grpc.aio.insecure_channel(
            f"ipv4:{target}",
            options=[
                ("grpc.default_authority", authority),
                # Share no connection with other clients of this process.
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.service_config", balance),
                # Tests must see each failure. Without a retry policy grpcio still retries calls
                # that no server has seen, for example calls behind a GOAWAY.
                ("grpc.enable_retries", int(retries)),
                *_ENDLESS,
            ],
        )
        self.echo = self.channel.unary_unary("/t.T/Echo")
        self.fail = self.channel.unary_unary("/t.T/Fail")
        self.count = self.channel.unary_stream("/t.T/Count")
        self.measure = self.channel.stream_unary("/t.T/Measure")
        self.chat = self.channel.stream_stream("/t.T/Chat")
        self.hang = self.channel.unary_unary("/t.T/Hang")


async def in_flight(running: Activator, count: int) -> None:
    """Wait until ``count`` calls are in flight."""

    async def look() -> bool:
        status, body = await running.get(f"/api/v1/revisions/default/{NAME}", listener="admin")
        return status == 200 and json.loads(body)["inFlight"] == count

    await until(look, f"{count} calls are in flight: {running.log}")


def peak_bytes(pid: int) -> int:
    """Return the highest resident memory of a process since ``forget_peak``."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc says nothing of VmHWM")


def forget_peak(pid: int) -> None:
    """Reset the value of ``peak_bytes`` (5: proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
