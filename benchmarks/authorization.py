"""Authorization with real processes: the CPU of a sub-request, and a server that hangs.

Each figure is a ratio of turns beside each other. So the speed of the machine matters little.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from activator.lab.objects import PodAddress
from benchmarks import activator
from benchmarks.activator import Activator
from benchmarks.helpers import helper
from benchmarks.policy_client import Client, Response
from benchmarks.process import CannotMeasure, cpu_seconds, wait_until
from benchmarks.report import Row, middle, percentile, table

PREFIX = "activator.dev/"
POD = "127.0.60.1"
POD_PORT = 8012
#: Requests at a time, and the most GETs of CPU that a sub-request may take.
AT_ONCE = 16
GOAL_CPU = 4.0
#: The URLs of a server that hangs, requests at a time for each, and requests a second of a service
#: with another server.
HANGING, FLOOD, RATE = 24, 40, 100.0
#: Milliseconds by which the flood may delay the p99 of the other service.
GOAL_DELAY = 50.0


def measure(folder: Path, rounds: int, requests: int, seconds: float) -> Iterator[Row]:
    """Yield the rows.

    Arguments:
        rounds: of turns beside each other; requests: of one turn of the first row.
        seconds: of one turn of the second row.

    Raises:
        CannotMeasure: a process did not start, or a request failed that must not.
    """
    with _world(folder) as found:
        turns = [[_cpu(found, name, requests) for name in ("warm", "asked")] for _ in range(rounds)]
        warm, asked = (middle(column) for column in zip(*turns, strict=True))
        ratio = (asked - warm) / warm
        yield Row(
            "authorization: CPU of a sub-request",
            f"{(asked - warm) * 1e6:.0f} µs",
            f"a warm GET {warm * 1e6:.0f} µs",
            ratio,
            f"<= {GOAL_CPU:g} GETs",
            ratio <= GOAL_CPU,
            {"cpu": turns},
        )
        alone, beside, refused = uvloop.run(_flooded(found.port, seconds))
        delay = (beside - alone) * 1e3
        yield Row(
            f"authorization: p99 beside {HANGING * FLOOD} requests of {HANGING} URLs of a server "
            "that hangs",
            f"{beside * 1e3:.1f} ms",
            f"alone {alone * 1e3:.1f} ms",
            beside / alone,
            f"<= {GOAL_DELAY:g} ms more",
            delay <= GOAL_DELAY,
            {"alone": alone, "beside": beside, "refusedOfTheServerThatHangs": refused},
        )


def _cpu(found: Activator, name: str, requests: int) -> float:
    """Return the CPU seconds of the activator for one request."""
    uvloop.run(_repeat(found.port, name, AT_ONCE))
    before = cpu_seconds(found.pid)
    uvloop.run(_repeat(found.port, name, requests))
    return (cpu_seconds(found.pid) - before) / requests


async def _repeat(port: int, name: str, requests: int) -> None:
    client = Client(port, _host(name))

    async def some() -> None:
        for _ in range(requests // AT_ONCE):
            await client.good("Authorization: Bearer secret")

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    client.close()


async def _flooded(port: int, seconds: float) -> tuple[float, float, int]:
    """Return the p99 of a service alone and beside the flood, and the refused of the flood."""
    client = Client(port, _host("asked"))
    alone = await client.arrive(RATE, seconds)
    refused = 0

    async def knock(number: int) -> None:
        nonlocal refused
        other = Client(port, _host(f"hangs-{number}"))
        await asyncio.sleep(random.uniform(0, 2))  # as many in each moment of the time-out
        while True:
            if (await other.get()).status == activator.OK:
                raise CannotMeasure("a request was allowed without a decision")
            refused += 1

    loop = asyncio.get_running_loop()
    flood = [loop.create_task(knock(number)) for number in range(HANGING) for _ in range(FLOOD)]
    await asyncio.sleep(2)
    beside = await client.arrive(RATE, seconds)
    for each in flood:
        each.cancel()
    await asyncio.wait(flood)
    client.close()
    return _p99(alone), _p99(beside), refused


def _p99(responses: list[Response]) -> float:
    if any(response.status != activator.OK for response in responses):
        raise CannotMeasure("a decision of the server that does not hang was not in time")
    return percentile([response.seconds for response in responses], 99)


@contextmanager
def _world(folder: Path) -> Iterator[Activator]:
    """Provide an activator: services with and without authorization, and some that hang."""
    pod = PodAddress(POD, POD_PORT, uid="uid-a", name="pod-a", ready=True)
    with (
        helper("auth_server") as servers,
        helper("policy_pod", "0", "0", f"{POD}:{POD_PORT}") as pods,
    ):
        good, hanging = servers.receive()["ports"]
        pods.receive()
        activator.write_revision(folder, [pod], name="warm")
        asked = {"auth-url": f"http://127.0.0.1:{good}/check", "auth-always": "true"}
        _revise(folder, [pod], "asked", asked | {"auth-response-headers": "x-auth-user"})
        for number in range(HANGING):
            url = {"auth-url": f"http://127.0.0.1:{hanging}/check?{number}"}
            _revise(folder, [], f"hangs-{number}", url)
        with activator.running(folder) as found:
            for name in ("warm", "asked"):
                wait_until(lambda: found.usable(name) == 1, f"the pod of {name} is usable")  # noqa: B023
            yield found


def _revise(folder: Path, pods: list[PodAddress], name: str, words: dict[str, str]) -> None:
    annotations = {PREFIX + word: value for word, value in words.items()}
    activator.write_revision(folder, pods, name=name, annotations=annotations)


def _host(name: str) -> str:
    return f"{name}.default.svc.cluster.local"


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        print(table(list(measure(Path(made), 3, 4000, 5.0))))
