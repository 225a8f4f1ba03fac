"""Scenario 15: a plain pod is killed, and its EndpointSlice still lists it as ready."""

from __future__ import annotations

from activator.lab.handles import View
from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario
from activator.lab.timeline import Who


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base, cluster = environment.base, environment.cluster
    web = await environment.deploy(replicas=3)
    victim = web.pods[0]
    cluster.node.restart_after = 1.0
    async with base.load(web, rate=50) as load:
        await victim.until("responded")
        cluster.slices.hold()
        base.note(Who.FAULT, f"{victim.name} is killed, and the EndpointSlices lag")
        cluster.pods[victim.name].kill()
        await victim.until("ended by itself")

        def is_avoided(view: View) -> bool:
            pods = {pod["uid"]: pod for pod in view["pods"]}
            return pods[victim.uid]["kubernetes"] == "ready" and not pods[victim.uid]["usable"]

        await web.until_view("Kubernetes lists the pod, the activator avoids it", is_avoided)
        await load.more(20)
        seen = victim.count("responded")
        await victim.until("listening", 2)
        cluster.slices.resume()
        await web.until_listed(3)
        await victim.until("responded", seen + 3)
    statuses = load.statuses("GET")
    base.expect("each request gets 200", set(statuses) == {200}, statuses)


SCENARIO = Scenario(
    15,
    "plain-kill",
    "One of three plain pods is killed, and its EndpointSlice lags",
    knative="",
    kubernetes="sends a third of all connections to the dead pod until the slice changes.",
    here="after the first refused connection the pod gets no request until the activator's probe "
    "passes; no client sees an error.",
    plain=script,
)
