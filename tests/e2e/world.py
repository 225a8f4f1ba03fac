"""An activator and pods as processes, their folder of manifests, and a client like curl.

The tests play Kubernetes: they write which addresses exist and which are ready.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM
from time import monotonic
from types import TracebackType
from typing import Any

from activator.lab import end_with_stdin
from activator.lab.objects import (
    PodAddress,
    file_of,
    private_endpoints,
    revision,
    write_object,
)
from activator.lab.pod import PodOptions, pod_arguments
from activator.lab.programs import ClientResponse, LocalActivator, fetch
from tests.ports import network
from tests.process import PATIENCE, ROOT

POD_PORT, SWITCH_PORT = 8012, 8022


class Pod:
    """One sample pod; `events` are the events that it has reported so far."""

    def __init__(self, options: PodOptions) -> None:
        self.options = options
        self.events: list[dict[str, Any]] = []
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._told = asyncio.Event()

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        """Start the process, and wait until it listens."""
        arguments = pod_arguments(self.options)
        self._process = await end_with_stdin.start(
            "activator.lab.pod", *arguments, stdout=PIPE, cwd=ROOT
        )
        self._reading = asyncio.get_running_loop().create_task(self._read(self._process))
        await self.wait_for("listening")

    async def wait_for(self, event: str, count: int = 1) -> None:
        """Wait until the pod has reported the event ``count`` times since its start."""
        assert self._reading is not None
        async with asyncio.timeout(PATIENCE):
            while sum(told["event"] == event for told in self.events) < count:
                name = self.options.name
                assert not self._reading.done(), f"{name} ended before it reported {event}"
                self._told.clear()
                await self._told.wait()

    async def end(self, *, kill: bool = False) -> None:
        """End the process, by SIGTERM and a drain or by SIGKILL, and wait for its end."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.kill() if kill else self._process.terminate()
        await self._process.wait()
        assert self._reading is not None
        await self._reading
        self._process = None

    def listed(self, *, ready: bool) -> PodAddress:
        """Return the pod's address for an Endpoints object."""
        name = self.options.name
        return PodAddress(self.options.address, POD_PORT, f"uid-of-{name}", name, ready)

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            with suppress(ValueError):  # a line that SIGKILL truncated
                self.events.append(json.loads(line))
                self._told.set()
        asyncio.get_running_loop().call_soon(self._told.set)  # when this task is done


class World:
    """All processes of one test; leaving the block ends them."""

    def __init__(self, folder: Path, *options: str, **settings: str) -> None:
        """
        Arguments:
            options: of the activator, after the folder of manifests.
            settings: environment variables of the activator.
        """
        self.folder = folder
        # Pods share their ports. So no other process, for example of a parallel run of the tests,
        # may use the same addresses.
        self._network = network()
        self._pods: list[Pod] = []
        self._log: list[Any] = []
        self._manifests = folder / "manifests"
        self._manifests.mkdir()
        self._activator = LocalActivator(
            ("local", "--manifests", str(self._manifests), *options),
            self._log.append,
            settings=settings,
        )

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pod in self._pods:
            await pod.end(kill=True)
        await self._activator.close()
        if error is not None:
            print(*self._log[-50:], sep="\n")  # pytest prints it with the failure

    async def start_activator(self) -> None:
        """Start ``activator local`` on the manifests, and wait until it is ready."""
        await self._activator.start()

    async def start_pod(self, name: str, address: str = "", **options: Any) -> Pod:
        """Start a pod, at a new address unless one is given, and wait until it listens.

        Arguments:
            options: further fields of `PodOptions`.
        """
        if not address:
            address = f"{self._network}.{len(self._pods) + 1}"
        given = PodOptions(name, address, POD_PORT, SWITCH_PORT, report_requests=True, **options)
        pod = Pod(given)
        self._pods.append(pod)
        await pod.start()
        return pod

    def write(self, *objects: Any) -> None:
        """Write objects into the folder of manifests."""
        for each in objects:
            write_object(self._manifests, each)

    def delete(self, found: Any) -> None:
        """Delete the file of an object."""
        file_of(self._manifests, found).unlink()

    @property
    def traffic(self) -> tuple[str, int]:
        """Address and port for requests."""
        return self._activator.traffic

    @property
    def admin(self) -> tuple[str, int]:
        """Address and port of the admin API."""
        return self._activator.admin

    async def end_activator(self) -> None:
        """End the activator by SIGTERM, as Kubernetes does, and wait for its end."""
        await self._activator.close(SIGTERM)

    def write_revision(self, **settings: Any) -> None:
        """Write the Revision default/app; `activator.lab.objects` documents the settings."""
        write_object(self._manifests, revision("app", uid="uid-of-app", **settings))

    def list_pods(self, pods: Iterable[PodAddress]) -> None:
        """Write which pods Kubernetes lists for default/app."""
        write_object(self._manifests, private_endpoints("app", pods))

    async def fetch(
        self,
        path: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> ClientResponse:
        """Send a request to default/app through the activator, on a new connection."""
        given = {"Host": "app.default.svc.cluster.local", **(headers or {})}
        return await fetch(*self._activator.traffic, path, method, given, body)

    async def view(self) -> dict[str, Any]:
        """Return the API's view of default/app; empty before the revision is known."""
        return await self._activator.get("/api/v1/revisions/default/app") or {}

    async def seen(self, pod: Pod) -> dict[str, Any]:
        """Return the API's view of the pod of default/app; empty before the pod is known."""
        uid = pod.listed(ready=True).uid
        pods = (await self.view()).get("pods", ())
        return next((seen for seen in pods if seen["uid"] == uid), {})

    async def explain(self) -> str:
        """Return the output of ``activator explain default/app``."""
        url = "http://{}:{}".format(*self._activator.admin)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "activator", "explain", "default/app", "--admin-url", url),
            stdout=PIPE,
            cwd=ROOT,
        )
        output, _ = await process.communicate()
        return output.decode()


async def at(moment: float) -> None:
    """Wait until CLOCK_MONOTONIC reaches a moment: only to pace a load."""
    reached = asyncio.get_running_loop().create_future()
    handle = asyncio.get_running_loop().call_later(
        max(0.0, moment - monotonic()), reached.set_result, None
    )
    try:
        await reached
    finally:
        handle.cancel()
