"""The probes of the toy kubelet: whether a pod is ready, and whether its containers are alive.

It also decides when a container must be restarted: after a number of failed liveness probes.
Kubernetes' counterpart: pkg/kubelet/prober.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from activator.lab.pod import PodOptions

#: Seconds between checks: the minimum of Kubernetes, whose default is 10.
PERIOD = 1.0
#: Seconds for one check.
TIMEOUT = 1.0


class KubeletReadiness(Enum):
    """How kubelet finds out whether a pod is ready."""

    #: The probe that Knative gives to queue-proxy.
    QUEUE_PROXY = "queue-proxy"
    #: A page of the application; any status from 200 to 399 is a success.
    HTTP = "httpGet"
    #: A connection to the port of requests.
    TCP = "tcpSocket"
    #: No probe: ready as soon as the process has been started.
    NONE = "none"


class ProbedContainer(Enum):
    """A container that has a liveness probe, and that kubelet restarts when the probe fails."""

    APPLICATION = "the application"
    SIDECAR = "the other container"
    #: The pod of a plain Deployment: it has no queue-proxy, so its only process is restarted.
    WHOLE = "the only container"


@dataclass(frozen=True, slots=True)
class Probes:
    """The probes of a pod.

    Attributes:
        period: seconds between checks.
        readiness: the probe of the pod's port for requests.
        path: the page of ``KubeletReadiness.HTTP``.
        exec_readiness, sidecar_readiness: probes that must pass in addition.
        liveness: the container that has a liveness probe, if any.
        failure_threshold: failed liveness checks in a row before a restart.
        restart_after: seconds from the decision until the new process runs. This includes the
            grace period of the old process.
        while_terminating: whether kubelet still probes a pod that terminates, and lists it as
            ready until the probe fails.
    """

    period: float = PERIOD
    readiness: KubeletReadiness = KubeletReadiness.QUEUE_PROXY
    path: str = "/healthz"
    exec_readiness: bool = False
    sidecar_readiness: bool = False
    liveness: ProbedContainer | None = None
    failure_threshold: int = 3
    restart_after: float = 1.0
    while_terminating: bool = False


def probed_switches(probes: Probes, *, blind: bool) -> frozenset[str]:
    """Return the names of the switches that have an effect: a probe or a request reads them.

    Arguments:
        blind: queue-proxy cannot run the application's readiness probe.
    """
    probed = {
        "Ready": not blind,
        "Live": probes.liveness in (ProbedContainer.APPLICATION, ProbedContainer.WHOLE),
        "Exec": probes.exec_readiness,
        "Running": True,  # by each request
        "SidecarReady": probes.sidecar_readiness,
        "SidecarLive": probes.liveness is ProbedContainer.SIDECAR,
    }
    return frozenset(name for name, has_effect in probed.items() if has_effect)


class Checks:
    """The checks of one pod."""

    def __init__(self, options: PodOptions, probes: Probes) -> None:
        self._options = options
        self._probes = probes
        self._failed = 0

    async def is_ready(self) -> bool:
        """Return whether all readiness probes of the pod pass."""
        probes = self._probes
        if not await self._is_port_ready():
            return False
        if probes.exec_readiness and not await self._finds("/exec"):
            return False
        return not probes.sidecar_readiness or await self._finds("/sidecarReady")

    async def _is_port_ready(self) -> bool:
        where = self._options.address, self._options.port
        match self._probes.readiness:
            case KubeletReadiness.QUEUE_PROXY:
                return await ask(*where, "/", probe="queue") == 200
            case KubeletReadiness.HTTP:
                return 200 <= await ask(*where, self._probes.path) < 400
            case KubeletReadiness.TCP:
                return await _accepts(*where)
        return True

    async def is_dead(self) -> bool:
        """Run the liveness probe; return whether it has failed often enough for a restart."""
        if self._probes.liveness is None:
            return False
        is_sidecar = self._probes.liveness is ProbedContainer.SIDECAR
        lives = await self._finds("/sidecarLive" if is_sidecar else "/live")
        self._failed = 0 if lives else self._failed + 1
        if self._failed < self._probes.failure_threshold:
            return False
        self._failed = 0
        return True

    async def _finds(self, path: str) -> bool:
        return await ask(self._options.address, self._options.admin_port, path) == 200


async def _accepts(ip: str, port: int) -> bool:
    """Return whether a process accepts connections at an address."""
    try:
        async with asyncio.timeout(TIMEOUT):
            _, writer = await asyncio.open_connection(ip, port)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except OSError:
        return False
    return True


async def ask(ip: str, port: int, path: str, probe: str = "") -> int:
    """Send a GET as kubelet does, on a new connection; return the status, or 0 without a response.

    Arguments:
        probe: the value of ``K-Network-Probe``; empty for no such header.
    """
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
                with suppress(OSError):  # otherwise it would replace a cancellation
                    await writer.wait_closed()
        return int(line.split()[1])
    except (OSError, ValueError, IndexError):  # TimeoutError is an OSError
        return 0
