"""Scenario 21: under traffic, a Deployment rolls out, then goes to zero and back ten times."""

from __future__ import annotations

from functools import partial

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.plain.handles import ServiceHandle
from activator.lab.scenario import Scenario

RATE = 100
TIMES = 10


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    web = await environment.deploy(replicas=1, annotations={"owner": "none"})
    async with base.load(web, rate=RATE) as load:
        environment.roll_out(web, "b")
        await web.pods[0].until("stopped")
        for _ in range(TIMES):
            pod, before = web.pods[-1], len(web.pods)
            web.scale(0)
            await base.until(partial(_has_started, web, before), "the scaler starts a pod")
            await pod.until("stopped")
            await web.until_listed(1)
            await web.pods[-1].until("responded")
        await load.more(RATE // 10)
    statuses = load.statuses("GET")
    base.expect("each request gets 200", set(statuses) == {200}, statuses)
    base.expect(f"the Deployment slept {TIMES} times", len(web.pods) == TIMES + 2, len(web.pods))


def _has_started(web: ServiceHandle, before: int) -> bool:
    """Return whether more pods have been started."""
    return len(web.pods) > before


SCENARIO = Scenario(
    21,
    "plain-ten-times",
    f"A rollout, and ten times to zero and back, under {RATE} requests a second",
    knative="",
    kubernetes="refuses all connections while there is no pod, and starts none.",
    here="the requests wait while there is no pod; the scaler starts one each time; no request is "
    "lost.",
    plain=script,
)
