"""Runs one pod's process and asks it, as kubelet does, whether it is ready.

Starts, checks, stops; decides readiness only. Must not know services, scaling or manifests.
Knative's counterpart: none; Kubernetes' is pkg/kubelet/prober.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

from activator.lab.pod import PodOptions

#: Seconds between readiness checks. Kubernetes' default is 10 and its least 1; so even the least
#: shows what the activator's own probing gains.
READINESS_PERIOD = 1.0
#: Seconds for one readiness check.
READINESS_TIMEOUT = 1.0
#: Seconds from SIGTERM to SIGKILL; a pod that drains longer than this is given up in the lab.
TERMINATION_GRACE = 70.0
#: The same when the whole cluster ends: nobody is there any more to read slow answers.
SHUTDOWN_GRACE = 2.0

Tell = Callable[..., None]


class PodProcess:
    """One pod of the toy cluster."""

    def __init__(
        self,
        options: PodOptions,
        tell: Tell,
        *,
        exec_readiness: bool = False,
        period: float = READINESS_PERIOD,
    ) -> None:
        """
        Arguments:
            tell: called with this pod, an event's name and its details, whenever one happens.
            exec_readiness: also demand that the exec probe's switch is on.
            period: seconds between readiness checks.
        """
        self.options = options
        self.uid = str(uuid4())
        self.ready = False
        self.stopping = False
        self._tell = tell
        self._exec_readiness = exec_readiness
        self._period = period
        self._stop = asyncio.Event()
        self._listening = asyncio.Event()

    def stop(self) -> None:
        """Begins the pod's end: no longer ready, SIGTERM, and SIGKILL if it takes too long."""
        self.stopping = True
        self.ready = False
        self._stop.set()

    async def run(self) -> None:
        """Runs the process until it ends; cancelling ends it within `SHUTDOWN_GRACE` seconds."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "activator.lab.pod",
            *pod_arguments(self.options),
            stdin=PIPE,  # the pod ends when this pipe does, even if this process is killed
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,  # a Ctrl-C in the terminal is ours to pass on, in order
        )
        try:
            await self._accompany(process)
        finally:
            self.ready = False
            await _end(process, SHUTDOWN_GRACE)

    async def _accompany(self, process: Process) -> None:
        async with asyncio.TaskGroup() as tasks:
            side = [
                tasks.create_task(self._check_for_ever()),
                tasks.create_task(self._stop_when_told(process)),
            ]
            await self._read_events(process)
            for task in side:
                task.cancel()
        status = await process.wait()
        self._tell(self, "stopped" if self.stopping else "ended by itself", status=status)

    async def _read_events(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            with suppress(ValueError):  # a line cut off by the process's end
                details: dict[str, Any] = json.loads(line)
                event = details.pop("event")
                if event == "listening":
                    self._listening.set()
                if event != "stopped":  # told once the process is really gone
                    self._tell(self, event, **details)

    async def _stop_when_told(self, process: Process) -> None:
        await self._stop.wait()
        await _end(process, TERMINATION_GRACE)

    async def _check_for_ever(self) -> None:
        await self._listening.wait()
        while not self.stopping:
            # The first check comes a whole period after the start, as the odds are in a cluster.
            await asyncio.sleep(self._period)
            ready = await self._is_ready() and not self.stopping
            if ready != self.ready:
                self.ready = ready
                self._tell(self, "ready" if ready else "not ready")

    async def _is_ready(self) -> bool:
        options = self.options
        queue_proxy = await ask(options.address, options.port, "/", probe="queue")
        if queue_proxy != 200 or not self._exec_readiness:
            return queue_proxy == 200
        return await ask(options.address, options.admin_port, "/exec") == 200


def pod_arguments(options: PodOptions) -> list[str]:
    """The command line that gives a pod these options and ties its life to our pipe."""
    return [
        *("--name", options.name),
        *("--address", options.address),
        *("--port", str(options.port)),
        *("--admin-port", str(options.admin_port)),
        *("--start-after", str(options.start_after)),
        *("--container-concurrency", str(options.container_concurrency)),
        *("--quiet-period", str(options.quiet_period)),
        *(["--tell-requests"] if options.tell_requests else []),
        "--follow-stdin",
    ]


async def ask(ip: str, port: int, path: str, probe: str = "") -> int:
    """The status of a GET as kubelet sends it, over a connection of its own; 0 for no answer."""
    head = f"GET {path} HTTP/1.1\r\nHost: {ip}:{port}\r\nUser-Agent: kube-probe/1.34\r\n"
    if probe:
        head += f"K-Network-Probe: {probe}\r\n"
    try:
        async with asyncio.timeout(READINESS_TIMEOUT):
            reader, writer = await asyncio.open_connection(ip, port)
            try:
                writer.write(f"{head}Connection: close\r\n\r\n".encode())
                line = await reader.readline()
            finally:
                writer.close()
                await writer.wait_closed()
        return int(line.split()[1])
    except (OSError, ValueError, IndexError):  # TimeoutError is an OSError
        return 0


async def _end(process: Process, grace: float) -> None:
    """SIGTERM, then SIGKILL after `grace` seconds; nothing if the process has ended."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
