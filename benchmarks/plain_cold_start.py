"""The cold start of a plain Deployment: the request for a pod, and the first response of the pod.

Activator and scaler are processes. The API server, the client and the toy kubelet of the lab share
this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import NamedTuple

import uvloop

from activator.lab.addresses import AddressPool
from activator.lab.control_plane.api import DEPLOYMENTS
from activator.lab.control_plane.store import ObjectChange
from activator.lab.environment import Environment, set_up
from activator.lab.handles import AppHandle, Overdue
from activator.lab.objects import HTTP_PROBE, TCP_PROBE, Object
from activator.lab.programs import DidNotStart
from activator.lab.timeline import Timeline, TimelineEntry, Who
from benchmarks.process import CannotMeasure
from benchmarks.report import Row, middle, percentile

GOAL_PATCH = 0.010
#: By the pod's readiness probe; the activator requests an HTTP page less often than it connects.
GOALS = {"tcpSocket": 0.006, "httpGet": 0.030}
PROBES = {"tcpSocket": TCP_PROBE, "httpGet": HTTP_PROBE}
#: Seconds between two looks at the scaler's load.
_POLL = 0.1
#: Seconds between two PATCHes of a workload that stays at 0, at least. A cold start right after
#: another one would measure this wait.
_BETWEEN_PATCHES = 2.0


class Turn(NamedTuple):
    """One cold start.

    Attributes:
        patch: seconds from the request to the PATCH at the API server.
        response: seconds from the pod's listening to the response.
    """

    patch: float
    response: float


def measure(turns: int) -> Iterator[Row]:
    """Yield a row for the PATCH, and one for the response with each kind of probe.

    Arguments:
        turns: cold starts with each kind of probe.

    Raises:
        CannotMeasure: a program did not start, or a response was not 200.
    """
    patches: list[float] = []
    for name, goal in GOALS.items():
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            try:
                found = runner.run(_run(PROBES[name], turns))
            except* (DidNotStart, Overdue, OSError) as group:
                raise CannotMeasure("; ".join(map(str, group.exceptions))) from None
        patches += [turn.patch for turn in found]
        responses = [turn.response for turn in found]
        yield _row(f"plain pod with {name} listens -> response", responses, goal)
    yield _row("first request of a plain Service -> PATCH at the API server", patches, GOAL_PATCH)


def _row(what: str, times: list[float], goal: float) -> Row:
    half, most = middle(times), percentile(times, 90)
    return Row(
        what,
        f"median {half * 1e3:.1f} ms, p90 {most * 1e3:.1f} ms",
        goal=f"median <= {goal * 1e3:.0f} ms",
        met=half <= goal,
        details={"seconds": times},
    )


async def _run(probe: Object, turns: int) -> list[Turn]:
    async with set_up(Timeline(), AddressPool(), is_plain=True) as environment:
        web = await environment.deploy_service(probe=probe, annotations={"owner": "none"})
        return [await _turn(environment, web) for _ in range(turns)]


async def _turn(environment: Environment, web: AppHandle) -> Turn:
    moments: dict[str, float] = {}

    def on_change(change: ObjectChange) -> None:
        if change.resource == DEPLOYMENTS and web.replicas:
            moments.setdefault("patch", time.monotonic())

    def on_entry(entry: TimelineEntry) -> None:
        if entry.what.endswith(": listens"):
            moments["listens"] = entry.at

    store = environment.cluster.plane.store
    store.listen(on_change)
    environment.live = on_entry
    sent = time.monotonic()
    response = await environment.request(web)
    ended = time.monotonic()
    store.remove(on_change)
    if response.status != 200:
        raise CannotMeasure(f"status {response.status}: {response.body}")
    await _sleep_again(web)
    return Turn(moments["patch"] - sent, ended - moments["listens"])


async def _sleep_again(web: AppHandle) -> None:
    """Remove the pod, after the scaler knows that no request is left."""
    while (await web.view(Who.SCALER))["load"]["current"]:  # noqa: ASYNC110  # no event says so
        await asyncio.sleep(_POLL)
    web.scale(0)
    await web.pods[-1].until("stopped")
    await web.until_listed(0)
    await asyncio.sleep(_BETWEEN_PATCHES)
