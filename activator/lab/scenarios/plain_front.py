"""Scenario 31: a concurrency limit holds for clients that connect to the Service itself."""

from __future__ import annotations

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario

RATE = 60
#: The delay of each response: two pods with one request at a time process 40 a second.
SLOW = "/sleep?ms=50"
ANNOTATIONS = {"owner": "none", "route": "front", "pods-service": "web-pods"}
#: A pod serves new connections for this long after the last one, as a preStop hook achieves.
DRAIN = "--quiet-period=1.0"


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    annotations = {**ANNOTATIONS, "container-concurrency": "1"}
    web = await environment.deploy(replicas=2, annotations=annotations, arguments=[DRAIN])
    where = await web.open(0.3)  # seconds until a changed slice has an effect
    await base.until(lambda: web.endpoints, "clients find an endpoint")
    async with base.load(web, rate=RATE, where=where, target=SLOW) as load:
        await load.more(RATE)
        most = [(await pod.counters())["maxInFlight"] for pod in web.pods]
        web.scale(0)
        await base.until(lambda: len(web.pods) == 3, "the scaler starts a pod")
        for pod in web.pods[:2]:
            await pod.until("stopped")
        await web.pods[-1].until("responded")
    most.append((await web.pods[-1].counters())["maxInFlight"])
    base.expect("no pod ever has more than one request", most == [1, 1, 1], most)
    statuses = load.statuses("GET")
    base.expect("each request gets 200", set(statuses) == {200}, statuses)


SCENARIO = Scenario(
    31,
    "plain-front",
    f"Two pods that take one request at a time get {RATE} a second, and go to zero and back",
    knative="",
    kubernetes="has no such limit, and refuses connections while there is no pod.",
    here="the limit holds, since the activators are the only endpoints; no request is lost.",
    plain=script,
)
