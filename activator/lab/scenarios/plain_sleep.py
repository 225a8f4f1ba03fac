"""Scenario 23: the scaler puts a Deployment to sleep behind its takeover slice."""

from __future__ import annotations

import asyncio

from activator.lab.client import open_and_close
from activator.lab.local_activator import Where
from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario

#: Seconds from a change of an EndpointSlice to its effect on new connections.
DELAY = 1.0
#: Seconds between two connections.
PERIOD = 0.02
#: Seconds for which a new leader removes no pod, and then the last pod goes.
SLEEPS_WITHIN = 90.0
DRAIN = "--quiet-period=2.0"


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    annotations = {"route": "takeover", "idle-seconds": "5"}
    web = await environment.deploy(replicas=1, annotations=annotations, arguments=[DRAIN])
    where = await web.open(DELAY)
    await base.until(lambda: web.endpoints, "clients find an endpoint")
    knocking = base.tasks.create_task(_knock(where))
    (pod,) = web.pods
    async with asyncio.timeout(SLEEPS_WITHIN):
        while web.replicas:
            base.changed.clear()
            await base.changed.wait()
    base.expect(
        "the activators are endpoints before the last pod goes",
        any("targetRef" not in each for each in environment.cluster.listed(web.name)),
    )
    await pod.until("stopped")
    response = await base.request(web, where=where)
    base.expect("a request of a client wakes it", response.status == 200, response)
    await web.pods[-1].until("responded")
    knocking.cancel()
    await asyncio.wait([knocking])
    base.expect("no connection was refused meanwhile", not web.refused, web.refused)


async def _knock(where: Where) -> None:
    """Open connections without a request, which no component counts, until cancelled."""
    while True:
        await open_and_close(*where)
        await asyncio.sleep(PERIOD)


SCENARIO = Scenario(
    23,
    "plain-sleep",
    "The scaler removes the last pod of a Service with route takeover (over a minute)",
    knative="",
    kubernetes="has no scaler that removes the last pod; without one, it refuses connections.",
    here="the activators are endpoints of the Service before the last pod goes; no connection is "
    "refused.",
    plain=script,
    is_long=True,
)
