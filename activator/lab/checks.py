"""Asks a pod what kubelet asks: whether it is ready, and whether its containers are alive.

Decides when so many checks have failed that a container has to be restarted. Must not know
processes or manifests. Knative's counterpart: none; Kubernetes' is pkg/kubelet/prober.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from activator.lab.pod import PodOptions

#: Seconds between checks. Kubernetes' default is 10 and its least 1; so even the least shows what
#: the activator's own probing gains.
PERIOD = 1.0
#: Seconds for one check.
TIMEOUT = 1.0


class Container(Enum):
    """What has a liveness probe, and is restarted when it fails."""

    APPLICATION = "the application"
    SIDECAR = "the other container"
    #: As in a plain Deployment, where nothing stays while the only container is restarted.
    WHOLE = "the only container"


@dataclass(frozen=True, slots=True)
class Probes:
    """The probes of a pod.

    Attributes:
        period: seconds between checks.
        exec_readiness, sidecar_readiness: also demanded, besides what queue-proxy says.
        liveness: the container that has a liveness probe, if any.
        failure_threshold: liveness checks in a row that must fail.
        restart_after: seconds from the decision until the container's new process runs: the grace
            of the old one, the image, the start.
    """

    period: float = PERIOD
    exec_readiness: bool = False
    sidecar_readiness: bool = False
    liveness: Container | None = None
    failure_threshold: int = 3
    restart_after: float = 1.0


def heeded(probes: Probes, *, blind: bool) -> frozenset[str]:
    """The switches of a pod (see `activator.lab.switchboard`) that somebody asks, by name.

    Arguments:
        blind: queue-proxy cannot ask the application whether it is ready.
    """
    asked = {
        "Ready": not blind,
        "Live": probes.liveness in (Container.APPLICATION, Container.WHOLE),
        "Exec": probes.exec_readiness,
        "Running": True,  # by each request
        "SidecarReady": probes.sidecar_readiness,
        "SidecarLive": probes.liveness is Container.SIDECAR,
    }
    return frozenset(name for name, is_asked in asked.items() if is_asked)


class Checks:
    """The checks of one pod."""

    def __init__(self, options: PodOptions, probes: Probes) -> None:
        self._options = options
        self._probes = probes
        self._failed = 0

    async def is_ready(self) -> bool:
        """Whether the pod may be listed as ready."""
        options, probes = self._options, self._probes
        if await ask(options.address, options.port, "/", probe="queue") != 200:
            return False
        if probes.exec_readiness and not await self._finds("/exec"):
            return False
        return not probes.sidecar_readiness or await self._finds("/sidecarReady")

    async def is_dead(self) -> bool:
        """Whether the container with the liveness probe has failed often enough by now."""
        if self._probes.liveness is None:
            return False
        is_sidecar = self._probes.liveness is Container.SIDECAR
        lives = await self._finds("/sidecarLive" if is_sidecar else "/live")
        self._failed = 0 if lives else self._failed + 1
        if self._failed < self._probes.failure_threshold:
            return False
        self._failed = 0
        return True

    async def _finds(self, path: str) -> bool:
        return await ask(self._options.address, self._options.admin_port, path) == 200


async def ask(ip: str, port: int, path: str, probe: str = "") -> int:
    """The status of a GET as kubelet sends it, over a connection of its own; 0 for no answer."""
    head = f"GET {path} HTTP/1.1\r\nHost: {ip}:{port}\r\nUser-Agent: kube-probe/1.34\r\n"
    if probe:
        head += f"K-Network-Probe: {probe}\r\n"
    try:
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await asyncio.open_connection(ip, port)
            try:
                writer.write(f"{head}Connection: close\r\n\r\n".encode())
                line = await reader.readline()
            finally:
                writer.close()
                with suppress(OSError):  # it would take the place of a cancellation
                    await writer.wait_closed()
        return int(line.split()[1])
    except (OSError, ValueError, IndexError):  # TimeoutError is an OSError
        return 0
