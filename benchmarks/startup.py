"""The time from the activator's start to its first proxied response."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from activator.lab.objects import PodAddress
from benchmarks import activator, nginx
from benchmarks.process import RESULTS, free_port, started, wait_until
from benchmarks.report import Row, middle

GOAL_SECONDS = 1.0
#: A package that only clusters need; a local activator must not import it.
HEAVY = "kubernetes_asyncio"
#: The yardstick: the imports of any such server.
YARDSTICK = "import asyncio, uvloop, httptools, uvicorn, starlette.applications"


def measure(folder: Path, rounds: int) -> Iterator[Row]:
    """Yield rows for the time to the first response, and for the imported packages.

    Raises:
        CannotMeasure: nginx is missing, or the activator does not respond.
    """
    manifests = folder / "manifests"
    pod = PodAddress(nginx.POD_IPS[0], nginx.POD_PORT, uid="uid-of-the-pod", ready=True)
    activator.write_revision(manifests, [pod])
    with nginx.pods(folder):
        pairs = [(_first_response(manifests), _yardstick()) for _ in range(rounds)]
        imported = _imports(manifests)
    took, beside = (middle([pair[i] for pair in pairs]) for i in (0, 1))
    yield Row(
        "start -> first proxied response",
        f"{took:.2f} s",
        f"python and uvicorn alone {beside:.2f} s",
        took / beside,
        f"<= {GOAL_SECONDS:.0f} s",
        took <= GOAL_SECONDS,
        {"pairs": pairs},
    )
    yield Row(
        f"{HEAVY} in local mode",
        "imported" if imported else "not imported",
        goal="not imported",
        met=not imported,
    )


def _first_response(manifests: Path) -> float:
    began = monotonic()
    with _answering(manifests, "activator"):
        return monotonic() - began


def _imports(manifests: Path) -> bool:
    """Return whether an activator has imported `HEAVY` when it has served a request."""
    with _answering(manifests, "imports", "-X", "importtime"):
        pass
    told = (RESULTS / "imports.log").read_text()
    # Each module has its own line. A submodule may be listed without the package's name.
    names = (line.rpartition("|")[2].strip() for line in told.splitlines())
    return any(name.partition(".")[0] == HEAVY for name in names)


@contextmanager
def _answering(manifests: Path, log: str, *options: str) -> Iterator[None]:
    port, admin_port = free_port(), free_port()
    command = [sys.executable, *options, *activator.command(manifests, port, admin_port)]
    with started(command, log):
        wait_until(lambda: _serves(port), "the activator serves a request")
        yield


def _serves(port: int) -> bool:
    try:
        return activator.get(port, "/", activator.HOST)[0] == activator.OK
    except OSError:
        return False


def _yardstick() -> float:
    began = monotonic()
    subprocess.run([sys.executable, "-c", YARDSTICK], check=True)
    return monotonic() - began
