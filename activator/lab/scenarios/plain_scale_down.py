"""Scenario 17: a Deployment loses pods that have requests."""

from __future__ import annotations

import asyncio

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario

SLOW = "/sleep?ms=1000"


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    web = await environment.deploy(replicas=3, annotations={"owner": "none"})
    staying, *leaving = web.pods
    slow = [base.start_request(web, SLOW) for _ in range(6)]
    await web.until_view(
        "each pod has a slow request", lambda view: all(pod["inFlight"] for pod in view["pods"])
    )
    async with base.load(web, rate=100) as load:
        await load.more(20)
        web.scale(1)
        await base.until(
            lambda: all(pod.count("draining") for pod in leaving), "two pods terminate"
        )
        await web.until_view(
            "the activator uses one pod",
            lambda view: sum(pod["usable"] for pod in view["pods"]) == 1,
        )
        await load.more(50)
        ended = await asyncio.gather(*slow)
        for pod in leaving:
            await pod.until("stopped")
        seen = staying.count("responded")
        await staying.until("responded", seen + 5)
    base.expect(
        "the requests in flight finish", all(each.status == 200 for each in ended), ended[:3]
    )
    statuses = load.statuses("GET")
    base.expect("each other request gets 200", set(statuses) == {200}, statuses)


SCENARIO = Scenario(
    17,
    "plain-scale-down",
    "A Deployment goes from three pods to one while all have requests",
    knative="",
    kubernetes="loses the connections that arrive at a terminating pod after it stops listening.",
    here="terminating pods finish their requests and get no others; no request is lost.",
    plain=script,
)
