"""Scenario 22: as scenario 21, with clients that connect to the Service itself."""

from __future__ import annotations

from functools import partial

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.plain.handles import ServiceHandle
from activator.lab.scenario import Scenario

RATE = 100
TIMES = 10
#: Seconds from a change of an EndpointSlice to its effect on new connections.
DELAY = 0.3
#: A pod serves new connections for this long after the last one, as a preStop hook achieves.
DRAIN = "--quiet-period=1.0"


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    annotations = {"owner": "none", "route": "takeover"}
    web = await environment.deploy(replicas=1, annotations=annotations, arguments=[DRAIN])
    where = await web.open(DELAY)
    await base.until(lambda: _leads_to_pods(web), "clients reach the pods")
    async with base.load(web, rate=RATE, where=where) as load:
        await load.more(RATE // 10)
        environment.roll_out(web, "b")
        await web.pods[0].until("stopped")
        for _ in range(TIMES):
            pod, before = web.pods[-1], len(web.pods)
            web.scale(0)
            await base.until(partial(_has_started, web, before), "the scaler starts a pod")
            await pod.until("stopped")
            await web.pods[-1].until("responded")
            await web.until_listed(1)
        await load.more(RATE // 10)
    statuses = load.statuses("GET")
    base.expect("each request gets 200", set(statuses) == {200}, statuses)
    straight = [await pod.counters() for pod in web.pods[-1:]]
    base.expect("pods that are ready get the connections", straight[0]["requests"] > 0, straight)


def _has_started(web: ServiceHandle, before: int) -> bool:
    """Return whether more pods have been started."""
    return len(web.pods) > before


def _leads_to_pods(web: ServiceHandle) -> bool:
    places = {(pod.options.address, pod.options.port) for pod in web.pods}
    return bool(web.endpoints) and set(web.endpoints) <= places


SCENARIO = Scenario(
    22,
    "plain-takeover",
    f"The same with clients that connect to the Service itself, {RATE} a second",
    knative="",
    kubernetes="refuses all connections while there is no pod, and starts none.",
    here="the activators are endpoints of the Service while it sleeps; no request is lost.",
    plain=script,
)
