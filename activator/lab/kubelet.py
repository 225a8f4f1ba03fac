"""Run one pod as kubelet does: start it, probe it, restart its containers, stop it.

:mod:`.checks` has the probes. Kubernetes' counterpart: pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any
from uuid import uuid4

from activator.lab.checks import Checks, KubeletReadiness, ProbedContainer, Probes, ask
from activator.lab.pod import PodOptions

#: Seconds from SIGTERM to SIGKILL.
TERMINATION_GRACE = 70.0
#: The same when the whole cluster ends: no client reads slow responses any more.
SHUTDOWN_GRACE = 2.0

#: A pod with queue-proxy's own probe and no other.
NO_EXTRA_PROBES = Probes()

Tell = Callable[..., None]


class KubeletStep(Enum):
    """A step of kubelet that a script can pause."""

    CHECK = "check"
    RESTART = "restart"


class PodProcess:
    """One pod of the toy cluster.

    Attributes:
        ready: kubelet's last result; Endpoints lists the pod accordingly.
        restarts: how often kubelet has restarted a container.
    """

    def __init__(
        self, options: PodOptions, tell: Tell, *, probes: Probes = NO_EXTRA_PROBES, uid: str = ""
    ) -> None:
        """
        Arguments:
            tell: called with this pod, an event's kind and its details; must return at once.
            uid: of the pod's object; a new one if empty.
        """
        self.options = options
        self.uid = uid or str(uuid4())
        self.ready = False
        self.stopping = False
        self.restarts = 0
        self._tell = tell
        self._probes = probes
        self._checks = Checks(options, probes)
        self._stop = asyncio.Event()
        self._listening = asyncio.Event()
        self._free = {step: asyncio.Event() for step in KubeletStep}
        self._process: Process | None = None
        self._comes_back: asyncio.Event | None = None
        for step in KubeletStep:
            self.resume(step)

    def stop(self) -> None:
        """Begin to end the pod: SIGTERM, and SIGKILL after `TERMINATION_GRACE`.

        It is not ready from now on, unless its probes go on while it terminates.
        """
        self.stopping = True
        self.ready = self.ready and self._probes.while_terminating
        self._stop.set()
        if self._comes_back is not None:
            self._comes_back.set()

    def kill(self) -> None:
        """Kill the pod's process, as the kernel does when memory is short."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def pause(self, step: KubeletStep) -> None:
        """Delay kubelet's next step of that kind until `resume`."""
        self._free[step].clear()

    def resume(self, step: KubeletStep) -> None:
        """Let kubelet continue with steps of that kind."""
        self._free[step].set()

    async def run(self) -> None:
        """Run the pod until it ends; cancelling ends it within `SHUTDOWN_GRACE` seconds."""
        async with asyncio.TaskGroup() as tasks:
            checking = tasks.create_task(self._check_until_stopped())
            while await self._run_once():
                pass
            checking.cancel()

    async def _run_once(self) -> bool:
        """Run one process from start to end; return whether it is being restarted."""
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "activator.lab.pod",
            *pod_arguments(self.options),
            stdin=PIPE,  # the pod ends with this pipe, even if this process is killed
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,  # a Ctrl-C must not reach the pod: the lab ends it in order
        )
        again = False
        try:
            await self._accompany(process)
            again = await self._is_restarted()
            return again
        finally:
            self._listening.clear()
            self.ready = self.ready and again
            await _end(process, SHUTDOWN_GRACE)

    async def _is_restarted(self) -> bool:
        """Return whether the ended process is restarted, as soon as it may start."""
        if self._comes_back is None:
            return False
        await self._comes_back.wait()
        self._comes_back = None
        return not self.stopping

    async def _accompany(self, process: Process) -> None:
        async with asyncio.TaskGroup() as tasks:
            stopping = tasks.create_task(self._stop_on_request(process))
            await self._read_events(process)
            stopping.cancel()
        status = await process.wait()
        if self._comes_back is None:
            self._tell(self, "stopped" if self.stopping else "ended by itself", status=status)

    async def _read_events(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            with suppress(ValueError):  # an incomplete line of a killed process
                details: dict[str, Any] = json.loads(line)
                event = details.pop("event")
                if event == "listening":
                    self._listening.set()
                if event != "stopped":  # `_accompany` reports it when the process has ended
                    self._tell(self, event, **details)

    async def _stop_on_request(self, process: Process) -> None:
        await self._stop.wait()
        await _end(process, TERMINATION_GRACE)

    async def _check_until_stopped(self) -> None:
        if self._probes.readiness is KubeletReadiness.NONE:
            self._set_ready(True)
        await self._listening.wait()
        while self._is_probed():
            # The first check comes a whole period after the start: the worst case of a cluster.
            await asyncio.sleep(self._probes.period)
            await self._free[KubeletStep.CHECK].wait()
            self._set_ready(await self._checks.is_ready() and self._is_probed())
            if await self._checks.is_dead() and not self.stopping:
                await self._restart()

    def _is_probed(self) -> bool:
        return not self.stopping or self._probes.while_terminating

    def _set_ready(self, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            self._tell(self, "ready" if ready else "not ready")

    async def _restart(self) -> None:
        """Restart the container with the liveness probe; do not probe the pod meanwhile.

        During the grace period of the application, the pod stays listed as ready, as in a
        cluster. A sidecar ends at once, so the pod becomes not ready at once.
        """
        container = self._probes.liveness
        self._tell(self, "killing", container=container.value if container else "")
        await self._kill(container)
        await asyncio.sleep(self._probes.restart_after)
        await self._free[KubeletStep.RESTART].wait()
        await self._start(container)
        self.restarts += 1
        self._tell(self, "restarted", container=container.value if container else "")
        self._set_ready(False)

    async def _kill(self, container: ProbedContainer | None) -> None:
        if container is ProbedContainer.APPLICATION:
            await self._ask_pod("/kill")
        elif container is ProbedContainer.SIDECAR:
            self._set_ready(False)
        elif self._process is not None:
            self._comes_back = asyncio.Event()
            with suppress(ProcessLookupError):
                self._process.kill()

    async def _start(self, container: ProbedContainer | None) -> None:
        if container is ProbedContainer.APPLICATION:
            await self._ask_pod("/start")
        elif container is ProbedContainer.SIDECAR:
            await self._ask_pod("/startSidecar")
        elif self._comes_back is not None:
            self._listening.clear()
            self._comes_back.set()
            await self._listening.wait()

    async def _ask_pod(self, path: str) -> None:
        await ask(self.options.address, self.options.admin_port, path)


def pod_arguments(options: PodOptions) -> list[str]:
    """Return the command line for these options; the pod ends with the pipe of its parent."""
    port = options.readiness_port
    return [
        *("--name", options.name),
        *("--address", options.address),
        *("--port", str(options.port)),
        *("--admin-port", str(options.admin_port)),
        *("--start-after", str(options.start_after)),
        *("--container-concurrency", str(options.container_concurrency)),
        *("--quiet-period", str(options.quiet_period)),
        *(["--report-requests"] if options.report_requests else []),
        *(["--blind"] if options.blind else []),
        *(["--polls-sidecar"] if options.polls_sidecar else []),
        *(["--plain"] if options.plain else []),
        *([] if port is None else ["--readiness-port", str(port)]),
        "--follow-stdin",
    ]


async def _end(process: Process, grace: float) -> None:
    """Send SIGTERM, and SIGKILL after `grace` seconds; do nothing if the process has ended."""
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
