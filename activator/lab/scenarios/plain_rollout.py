"""Scenario 16: a Deployment rolls out a new template under traffic."""

from __future__ import annotations

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario

RATE = 100


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    web = await environment.deploy(replicas=2)
    async with base.load(web, rate=RATE, posts=5) as load:
        await load.more(RATE // 2)
        environment.roll_out(web, "b")
        await base.until(lambda: len(web.pods) == 4, "two new pods start")
        await web.pods[0].until("stopped")
        await web.pods[1].until("stopped")
        await web.until_listed(2)
        await web.pods[3].until("responded")
        await load.more(RATE // 2)
    for method in ("GET", "POST"):
        statuses = load.statuses(method)
        base.expect(f"each {method} gets 200", set(statuses) == {200}, statuses)
    counters = [await pod.counters() for pod in web.pods[2:]]
    twice = [request for each in counters for request in each["postsSeenTwice"]]
    base.expect("no POST reaches a pod twice", not twice, twice)


SCENARIO = Scenario(
    16,
    "plain-rollout",
    f"A Deployment rolls out a new template under {RATE} requests a second",
    knative="",
    kubernetes="loses the connections that arrive at a pod which no longer listens.",
    here="no request is lost.",
    plain=script,
)
