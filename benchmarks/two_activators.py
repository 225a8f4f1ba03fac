"""Two activators before one pod with ``container-concurrency`` 1: the requests at the pod.

The real programs and a pod run on this machine, with an API server of the lab. Each activator gets
the same traffic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import uvloop

from activator.lab.addresses import AddressPool
from activator.lab.environment import set_up
from activator.lab.handles import Overdue
from activator.lab.programs import DidNotStart
from activator.lab.timeline import Timeline
from benchmarks.process import CannotMeasure
from benchmarks.report import Row

#: Requests a second at each activator, and the path of one that takes 25 ms.
RATE = 15
TARGET = "/sleep?ms=25"
LIMIT = {"container-concurrency": "1", "owner": "none"}


def measure(count: int) -> Iterator[Row]:
    """Yield the most requests that the pod had at once.

    Arguments:
        count: requests at each activator.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            most, statuses = runner.run(_run(count))
        except* (DidNotStart, Overdue, OSError) as group:
            raise CannotMeasure("; ".join(map(str, group.exceptions))) from None
    yield Row(
        "two activators, one pod, container-concurrency 1: most in flight at the pod",
        f"{most} with {2 * count} requests",
        goal="1, and 200 alone",
        met=most == 1 and statuses == {200},
        details={"most": most},
    )


async def _run(count: int) -> tuple[int, set[int]]:
    addresses = AddressPool()
    async with (
        set_up(Timeline(), addresses, is_plain=True) as environment,
        AsyncExitStack() as ends,
    ):
        load = environment.load
        web = await environment.deploy_service(replicas=1, annotations=LIMIT)
        second = environment.plain_activator(addresses.take(), "activator-2")
        ends.push_async_callback(second.close)
        await second.start()
        await web.until_view("both know each other", lambda view: view["activatorCount"] == 2)
        async with (
            load(web, RATE, target=TARGET) as one,
            load(web, RATE, where=second.traffic, target=TARGET) as other,
        ):
            await one.more(count)
            await other.more(count)
        statuses = {*one.statuses("GET"), *other.statuses("GET")}
        return (await web.pods[0].counters())["maxInFlight"], statuses
