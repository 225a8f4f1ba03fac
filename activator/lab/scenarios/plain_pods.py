"""Pods of a Deployment without Knative, and the API server or the scaler that is away."""

from __future__ import annotations

import asyncio
import signal

from activator.lab.environment import Environment
from activator.lab.handles import View
from activator.lab.kubelet import KubeletStep
from activator.lab.objects import HTTP_PROBE
from activator.lab.scenario import scenario
from activator.lab.timeline import Who


@scenario(14, "plain-late-probe")
async def late_probe(lab: Environment) -> None:
    """The readiness probe of a plain pod comes long after the pod is ready.

    Kubernetes: lists the pod after kubelet's next probe, up to 10 s later by default.

    Here: the activator requests the same page sooner, and sends the requests when it passes.
    """
    web = await lab.deploy_service(probe=HTTP_PROBE)
    waiting = lab.start_request(web)
    await lab.until(lambda: web.pods, "the pod starts")
    (pod,) = web.pods
    pod.process.pause(KubeletStep.CHECK)
    lab.expect_200("the pod responds to the queued request", await waiting)
    lab.expect("before kubelet's first probe", not pod.process.ready)
    lab.expect_used_early(await web.view())
    pod.process.resume(KubeletStep.CHECK)
    await web.until_listed(1)
    await pod.switch("Ready", "its health page begins to fail")
    await lab.until(lambda: not pod.process.ready, "Kubernetes lists the pod as not ready")
    await web.until_view("the pod gets no request", lambda view: not view["pods"][0]["usable"])
    again = lab.start_request(web)
    await web.until_view("a request waits", lambda view: view["queued"] == 1)
    pod.process.pause(KubeletStep.CHECK)
    await pod.switch("Ready", "its health page passes again")
    lab.expect_200("it is served as soon as the page passes", await again)
    pod.process.resume(KubeletStep.CHECK)


@scenario(15, "plain-kill")
async def kill(lab: Environment) -> None:
    """One of three plain pods is killed, and its EndpointSlice lags.

    Kubernetes: sends a third of all connections to the dead pod until the slice changes.

    Here: after the first refused connection the pod gets no request until the activator's probe
    passes; no client sees an error.
    """
    cluster = lab.cluster
    web = await lab.deploy_service(replicas=3)
    victim = web.pods[0]
    cluster.node.restart_after = 1.0
    async with lab.load(web, rate=50) as load:
        await victim.until("responded")
        cluster.slices.hold()
        lab.note(Who.FAULT, f"{victim.name} is killed, and the EndpointSlices lag")
        cluster.pods[victim.name].kill()
        await victim.until("ended by itself")

        def is_avoided(view: View) -> bool:
            pods = {pod["uid"]: pod for pod in view["pods"]}
            return (
                pods[victim.process.uid]["kubernetes"] == "ready"
                and not pods[victim.process.uid]["usable"]
            )

        await web.until_view("Kubernetes lists the pod, the activator avoids it", is_avoided)
        await load.more(20)
        seen = victim.count("responded")
        await victim.until("listening", 2)
        cluster.slices.resume()
        await web.until_listed(3)
        await victim.until("responded", seen + 3)
    lab.expect_only_200("each request gets 200", load)


RATE = 100


@scenario(16, "plain-rollout")
async def rollout(lab: Environment) -> None:
    """A Deployment rolls out a new template under 100 requests a second.

    Kubernetes: loses the connections that arrive at a pod which no longer listens.

    Here: no request is lost.
    """
    web = await lab.deploy_service(replicas=2)
    async with lab.load(web, rate=RATE, posts=5) as load:
        await load.more(RATE // 2)
        lab.roll_out(web, "b")
        await lab.until(lambda: len(web.pods) == 4, "two new pods start")
        await web.pods[0].until("stopped")
        await web.pods[1].until("stopped")
        await web.until_listed(2)
        await web.pods[3].until("responded")
        await load.more(RATE // 2)
    for method in ("GET", "POST"):
        lab.expect_only_200(f"each {method} gets 200", load, method)
    counters = [await pod.counters() for pod in web.pods[2:]]
    twice = [request for each in counters for request in each["postsSeenTwice"]]
    lab.expect("no POST reaches a pod twice", not twice, twice)


SLOW = "/sleep?ms=1000"


@scenario(17, "plain-scale-down")
async def scale_down(lab: Environment) -> None:
    """A Deployment goes from three pods to one while all have requests.

    Kubernetes: loses the connections that arrive at a terminating pod after it stops listening.

    Here: terminating pods finish their requests and get no others; no request is lost.
    """
    web = await lab.deploy_service(replicas=3, annotations={"owner": "none"})
    staying, *leaving = web.pods
    slow = [lab.start_request(web, SLOW) for _ in range(6)]
    await web.until_view(
        "each pod has a slow request", lambda view: all(pod["inFlight"] for pod in view["pods"])
    )
    async with lab.load(web, rate=100) as load:
        await load.more(20)
        web.scale(1)
        await lab.until(lambda: all(pod.count("draining") for pod in leaving), "two pods terminate")
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
    lab.expect(
        "the requests in flight finish", all(each.status == 200 for each in ended), ended[:3]
    )
    lab.expect_only_200("each other request gets 200", load)


@scenario(19, "plain-api-server-away")
async def api_server_away(lab: Environment) -> None:
    """The API server is away while one Deployment sleeps and another is awake.

    Kubernetes: keeps the Service that is awake, and starts no pod.

    Here: the awake Service notices nothing; requests of the sleeping one wait until the server
    is back.
    """
    awake = await lab.deploy_service("awake", replicas=1)
    asleep = await lab.deploy_service("asleep")
    async with lab.load(awake, rate=50) as load:
        lab.cut_api_server()
        waiting = lab.start_request(asleep)
        await asleep.until_view("a request waits", lambda view: view["queued"] == 1)
        await load.more(50)
        lab.expect_equal("no pod can start", asleep.replicas, 0)
        lab.restore_api_server()
        response = await waiting
        await load.more(10)
    lab.expect_200("the request waits until the server is back", response)
    lab.expect_only_200("the other Service notices nothing", load)


@scenario(20, "plain-scaler-away")
async def scaler_away(lab: Environment) -> None:
    """The scaler is away while one Deployment sleeps and another is awake.

    Kubernetes: has no scaler for requests of a Service without pods.

    Here: the awake Service notices nothing; requests of the sleeping one wait until there is a
    scaler, and the reason says so.
    """
    awake = await lab.deploy_service("awake", replicas=1)
    asleep = await lab.deploy_service("asleep")
    async with lab.load(awake, rate=50) as load:
        await lab.stop_scaler(signal.SIGTERM)
        waiting = lab.start_request(asleep)
        view = await asleep.until_view(
            "a request waits, because the scaler cannot be reached",
            lambda view: view["reason"] == "scaler-unreachable",
        )
        lab.expect_equal("one request waits", view["queued"], 1)
        await load.more(20)
        await lab.start_scaler()
        response = await waiting
        await load.more(10)
    lab.expect_200("it waits until there is a scaler again", response)
    lab.expect_only_200("the other Service notices nothing", load)
