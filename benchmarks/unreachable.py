"""A few good pods among many unreachable ones: the time until all good pods are in use.

One request for each good pod waits when the Endpoints appear. A request occupies its pod. So the
last request waits until the last good pod is in use.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from time import monotonic

from activator.lab.objects import PodAddress
from benchmarks import activator
from benchmarks.helpers import helper
from benchmarks.process import wait_until
from benchmarks.report import Row

GOOD = 10
POD_PORT = 8012
#: Seconds that a good pod takes for its one request: longer than the benchmark.
HANDLER_SECONDS = 60.0
GOAL = 2.0


def measure(folder: Path, bad: int) -> Iterator[Row]:
    """Yield a row for each cause of unreachable pods.

    Raises:
        CannotMeasure: a process did not start.
    """
    for kind in KINDS:
        took = run_recipe(folder / kind, kind, bad)
        yield Row(
            f"{bad:,} pods that are {kind} among {GOOD} good ones",
            f"last good one usable after {took[-1]:.2f} s",
            f"the first after {took[0]:.2f} s",
            goal=f"<= {GOAL:g} s",
            met=took[-1] <= GOAL,
            details={"seconds": took},
        )


def run_recipe(folder: Path, kind: str, bad: int) -> list[float]:
    """Return the seconds from the listing to the request of each good pod, in ascending order.

    Raises:
        CannotMeasure: a process did not start.
    """
    addresses = _addresses(bad + GOOD)
    every = bad // GOOD + 1
    good = [ip for number, ip in enumerate(addresses) if number % every == every - 1]
    others = [ip for ip in addresses if ip not in good]
    assert (len(good), len(others)) == (GOOD, bad)
    manifests = folder / "manifests"
    folder.mkdir(parents=True, exist_ok=True)
    activator.write_revision(manifests, [], container_concurrency=1)
    with (
        KINDS[kind](others),
        helper("slow_pod", f"{HANDLER_SECONDS}", *(f"{ip}:{POD_PORT}" for ip in good)) as pods,
        activator.running(manifests) as found,
        helper("crowd", f"127.0.0.1:{found.port}", activator.HOST, f"{GOOD}") as clients,
    ):
        pods.receive()
        clients.receive()
        clients.send("go")
        wait_until(lambda: found.queued() == GOOD, "all requests wait")
        listed = monotonic()
        found.list_pods([PodAddress(ip, POD_PORT, f"uid-{ip}", ip, True) for ip in addresses])
        arrived = {told["address"]: told["at"] for told in (pods.receive() for _ in range(GOOD))}
    assert len(arrived) == GOOD
    return sorted(at - listed for at in arrived.values())


def _addresses(count: int) -> list[str]:
    """Return so many addresses without any listener."""
    first = random.randrange(1, 250)
    network = f"127.{random.randrange(1, 255)}"
    return [f"{network}.{first + number // 250}.{number % 250 + 1}" for number in range(count)]


@contextmanager
def _blackholed(addresses: Sequence[str]) -> Iterator[None]:
    """Make these addresses silent, like unused addresses of a network.

    The kernel drops each SYN to a listener whose accept queue is full.
    """
    with ExitStack() as sockets:
        for ip in addresses:
            listener = sockets.enter_context(socket.socket())
            listener.bind((ip, POD_PORT))
            listener.listen(0)
            # A queue of 0 is full with one.
            sockets.enter_context(socket.create_connection((ip, POD_PORT)))
        yield


#: Each cause of an unreachable address, with the context that provides it.
KINDS: dict[str, Callable[[Sequence[str]], AbstractContextManager[object]]] = {
    "refused": lambda addresses: nullcontext(),
    "blackholed": _blackholed,
}
