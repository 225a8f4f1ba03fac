"""From starting the activator to its first proxied answer."""

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
#: What no laptop should pay for: it is for clusters alone.
HEAVY = "kubernetes_asyncio"
#: What any such server imports; the yardstick.
YARDSTICK = "import asyncio, uvloop, httptools, uvicorn, starlette.applications"


def measure(folder: Path, rounds: int) -> Iterator[Row]:
    """Rows for the time to the first answer, and for what is imported.

    Raises:
        CannotMeasure: nginx is missing, or the activator answers nothing.
    """
    manifests = folder / "manifests"
    pod = PodAddress(nginx.POD_IPS[0], nginx.POD_PORT, uid="uid-of-the-pod", ready=True)
    activator.write_revision(manifests, [pod])
    with nginx.pods(folder):
        pairs = [(_first_answer(manifests), _yardstick()) for _ in range(rounds)]
        imported = _imports(manifests)
    took, beside = (middle([pair[i] for pair in pairs]) for i in (0, 1))
    yield Row(
        "start -> first proxied answer",
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


def _first_answer(manifests: Path) -> float:
    began = monotonic()
    with _answering(manifests, "activator"):
        return monotonic() - began


def _imports(manifests: Path) -> bool:
    """Whether an activator that has answered a request had imported what is heavy."""
    with _answering(manifests, "imports", "-X", "importtime"):
        pass
    told = (RESULTS / "imports.log").read_text()
    # Each module has its own line. Parts of the package can be imported without its first name.
    names = (line.rpartition("|")[2].strip() for line in told.splitlines())
    return any(name.partition(".")[0] == HEAVY for name in names)


@contextmanager
def _answering(manifests: Path, log: str, *options: str) -> Iterator[None]:
    port, admin_port = free_port(), free_port()
    command = [sys.executable, *options, *activator.command(manifests, port, admin_port)]
    with started(command, log):
        wait_until(lambda: _answers(port), "the activator answers a request")
        yield


def _answers(port: int) -> bool:
    try:
        return activator.get(port, "/", activator.HOST)[0] == activator.OK
    except OSError:
        return False


def _yardstick() -> float:
    began = monotonic()
    subprocess.run([sys.executable, "-c", YARDSTICK], check=True)
    return monotonic() - began
