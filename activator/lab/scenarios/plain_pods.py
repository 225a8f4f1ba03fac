"""Pods of a plain Deployment start, end and change under traffic."""

from __future__ import annotations

import asyncio

from activator.lab.handles import View
from activator.lab.kubelet import KubeletStep
from activator.lab.objects import HTTP_PROBE
from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario
from activator.lab.timeline import Who


async def late_probe(environment: PlainEnvironment) -> None:
    """Run scenario 14: kubelet's readiness probe comes long after the pod is ready."""
    base = environment.base
    web = await environment.deploy(probe=HTTP_PROBE)
    waiting = base.start_request(web)
    await base.until(lambda: web.pods, "the pod starts")
    (pod,) = web.pods
    pod.pause(KubeletStep.CHECK)
    response = await waiting
    base.expect("the pod responds to the queued request", response.status == 200, response)
    base.expect("before kubelet's first probe", not pod.listed_ready)
    view = await web.view()
    known = {key: view["pods"][0][key] for key in ("kubernetes", "decision", "decidedBy")}
    base.expect(
        "the API shows: Kubernetes not-ready, use, probe-passed",
        list(known.values()) == ["not-ready", "use", "probe-passed"],
        known,
    )
    pod.resume(KubeletStep.CHECK)
    await web.until_listed(1)
    await pod.switch("Ready", "its health page begins to fail")
    await base.until(lambda: not pod.listed_ready, "Kubernetes lists the pod as not ready")
    await web.until_view("the pod gets no request", lambda view: not view["pods"][0]["usable"])
    again = base.start_request(web)
    await web.until_view("a request waits", lambda view: view["queued"] == 1)
    pod.pause(KubeletStep.CHECK)
    await pod.switch("Ready", "its health page passes again")
    response = await again
    base.expect("it is served as soon as the page passes", response.status == 200, response)
    pod.resume(KubeletStep.CHECK)


LATE_PROBE = Scenario(
    14,
    "plain-late-probe",
    "The readiness probe of a plain pod comes long after the pod is ready",
    kubernetes="lists the pod after kubelet's next probe, up to 10 s later by default.",
    here="the activator requests the same page sooner, and sends the requests when it passes.",
    plain=late_probe,
)


async def kill(environment: PlainEnvironment) -> None:
    """Run scenario 15: a plain pod is killed, and its EndpointSlice still lists it as ready."""
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


KILL = Scenario(
    15,
    "plain-kill",
    "One of three plain pods is killed, and its EndpointSlice lags",
    kubernetes="sends a third of all connections to the dead pod until the slice changes.",
    here="after the first refused connection the pod gets no request until the activator's probe "
    "passes; no client sees an error.",
    plain=kill,
)


RATE = 100


async def rollout(environment: PlainEnvironment) -> None:
    """Run scenario 16: a Deployment rolls out a new template under traffic."""
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


ROLLOUT = Scenario(
    16,
    "plain-rollout",
    f"A Deployment rolls out a new template under {RATE} requests a second",
    kubernetes="loses the connections that arrive at a pod which no longer listens.",
    here="no request is lost.",
    plain=rollout,
)


SLOW = "/sleep?ms=1000"


async def scale_down(environment: PlainEnvironment) -> None:
    """Run scenario 17: a Deployment loses pods that have requests."""
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


SCALE_DOWN = Scenario(
    17,
    "plain-scale-down",
    "A Deployment goes from three pods to one while all have requests",
    kubernetes="loses the connections that arrive at a terminating pod after it stops listening.",
    here="terminating pods finish their requests and get no others; no request is lost.",
    plain=scale_down,
)
