"""The activators and the scaler of a soak, as processes that start, end and start again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from subprocess import Popen
from typing import Final

from benchmarks.activator import OK, Activator, get
from benchmarks.process import RESULTS, CannotMeasure, free_port, started
from benchmarks.soak.cluster import SYSTEM, Cluster

TRAFFIC_PORT: Final = 8012
#: The addresses of both activators.
IPS: Final = ("127.0.1.1", "127.0.1.2")
#: Seconds for which a terminated activator accepts connections.
LAME_DUCK: Final = 3.0


class Program:
    """One program at one place; its present process may be another one than before.

    Attributes:
        name: of the program, and of its logs.
        present: its present process; None while there is none.
        past: all earlier processes.
    """

    def __init__(self, name: str, ip: str, command: Sequence[str], admin_port: int) -> None:
        self.name = name
        self.ip = ip
        self.present: Activator | None = None
        self.past: list[Activator] = []
        self._command = command
        self._admin_port = admin_port
        self._numbers = count(1)
        self._running = ExitStack()
        self._process: Popen[str]
        self._may_end = False

    def start(self) -> None:
        """Start a process; it is ready later."""
        log = f"{self.name}-{next(self._numbers)}"
        line = [sys.executable, "-m", "activator", *self._command]
        self._may_end = False
        self._process = self._running.enter_context(started(line, log))
        log_file = RESULTS / f"{log}.log"
        self.present = Activator(
            self._process, TRAFFIC_PORT, self._admin_port, log_file.parent, log_file
        )

    def has_started(self) -> bool:
        """Return whether it is ready, at the begin of a run.

        Raises:
            CannotMeasure: it ended by itself.
        """
        if crash := self.crash():
            raise CannotMeasure(crash)
        return self.is_ready()

    def crash(self) -> str:
        """Return how the present process ended by itself, and leave it; empty if it did not."""
        status = self.ended() if self.present and not self._may_end else None
        if self.present is None or status is None:
            return ""
        text = f"{self.name} ended by itself with status {status}: {self.present.log}"
        self.leave()
        return text

    def is_ready(self) -> bool:
        """Return whether the present process reports that it is ready."""
        try:
            return self.present is not None and get(self._admin_port, "/readyz")[0] == OK
        except OSError:
            return False

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._may_end = True
        self._process.terminate()

    def kill(self) -> None:
        """End the process by SIGKILL, and return when it is gone."""
        self._process.kill()
        self._process.wait()
        self.leave()

    def ended(self) -> int | None:
        """Return the exit status of the present process; None while it runs."""
        return self._process.poll()

    def leave(self) -> None:
        """Note that the present process has ended."""
        if self.present is not None:
            self.past.append(self.present)
            self.present = None

    def errors(self) -> list[str]:
        """Return the log lines of all processes that report an error."""
        present = [self.present] if self.present else []
        return [line for each in (*self.past, *present) for line in each.faults()]

    def close(self) -> None:
        """End the present process."""
        self._running.close()


def activator(name: str, ip: str, cluster: Cluster, scaler_port: int) -> Program:
    """Return an activator that is not started."""
    admin = free_port()
    command = [
        *("run", "--dialect", "knative,services", "--kubeconfig", f"{cluster.kubeconfig}"),
        *("--autoscaler-url", f"ws://127.0.0.1:{cluster.autoscaler.port}"),
        *("--scaler-url", f"ws://127.0.0.1:{scaler_port}"),
        *("--bind", ip, "--http-port", f"{TRAFFIC_PORT}", "--h2c-port", "8013"),
        *("--https-port", "0", "--profiling-port", "0", "--metrics-port", "0"),
        *("--admin-bind", "127.0.0.1", "--admin-port", f"{admin}"),
        *("--pod-name", name, "--pod-ip", ip, "--system-namespace", SYSTEM),
        *("--lame-duck", f"{LAME_DUCK:g}s", "--log-format", "json"),
    ]
    return Program(name, ip, command, admin)


def scaler(cluster: Cluster, port: int) -> Program:
    """Return a scaler that is not started.

    Arguments:
        port: for the reports of activators.
    """
    admin = free_port()
    command = [
        *("scale", "--kubeconfig", f"{cluster.kubeconfig}"),
        *("--bind", "127.0.0.1", "--stat-port", f"{port}", "--grpc-port", "0"),
        *("--metrics-port", "0", "--admin-bind", "127.0.0.1", "--admin-port", f"{admin}"),
        *("--pod-name", "scale-1", "--system-namespace", SYSTEM, "--log-format", "json"),
    ]
    return Program("scaler", "127.0.0.1", command, admin)


def logs() -> Path:
    """Return the folder of all logs."""
    return RESULTS
