"""A Deployment without Knative: its pods, its scaler, takeover, and a front."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import Final

from activator.lab.cluster import ServiceProxy
from activator.lab.control_plane.api import AUTOSCALERS
from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.kubelet import KubeletStep
from activator.lab.objects import HTTP_PROBE
from activator.lab.programs import Where, open_and_close
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
        await web.until_view(
            "Kubernetes lists the pod, the activator avoids it",
            lambda view: (
                victim.in_view(view)["kubernetes"] == "ready" and not victim.in_view(view)["usable"]
            ),
        )
        await load.more(20)
        await victim.until("listening", 2)
        cluster.slices.resume()
        await web.until_listed(3)
        await victim.until_responses(3)
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
        lab.roll_out(web)
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
    slow = await web.occupy(SLOW, 6, "each pod has a slow request")
    async with lab.load(web, rate=100) as load:
        await load.more(20)
        web.scale(1)
        await lab.until(lambda: all(pod.count("draining") for pod in leaving), "two pods terminate")
        await web.until_usable(1, "the activator uses one pod")
        await load.more(50)
        ended = await asyncio.gather(*slow)
        for pod in leaving:
            await pod.until("stopped")
        await staying.until_responses(5)
    lab.expect_all_200("the requests in flight finish", ended)
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


REQUESTS = 20


@scenario(13, "plain-cold-start")
async def cold_start(lab: Environment) -> None:
    """A Deployment without pods gets its first requests, without Knative.

    Kubernetes: refuses the connections: the Service has no endpoint.

    Here: the requests wait; the scaler asks once for a pod; the pod gets the requests as soon
    as it accepts connections, before Kubernetes lists it as ready.
    """
    web = await lab.deploy_service()
    began = len(lab.cluster.plane.calls)
    waiting = [lab.start_request(web) for _ in range(REQUESTS)]
    await lab.until(lambda: web.pods, "the scaler asks for a pod")
    (pod,) = web.pods
    pod.process.pause(KubeletStep.CHECK)  # the pod listens before kubelet's first check
    responses = await asyncio.gather(*waiting)
    lab.expect_all_200("each request gets 200", responses)
    lab.expect("before Kubernetes lists the pod as ready", not pod.process.ready)
    calls = [(call.verb, call.subresource) for call in lab.cluster.plane.calls[began:]]
    lab.expect_equal("the scaler wrote the replicas once", calls.count(("patch", "scale")), 1)
    pod.process.resume(KubeletStep.CHECK)
    await web.until_listed(1)
    response = await lab.request(web, "/headers")
    seen = [line.partition(":")[0].lower() for line in json.loads(response.body)["headers"]]
    lab.expect(
        "the pod sees none of Knative's header fields",
        not any(name.startswith(("knative", "k-")) for name in seen),
        seen,
    )


@scenario(18, "plain-two-owners")
async def two_owners(lab: Environment) -> None:
    """An HPA targets a Deployment that the scaler scales too.

    Kubernetes: lets both write the replicas, which go up and down without end.

    Here: the scaler removes no pod, gives the reason two-owners, and names the HPA. It still
    wakes the Deployment.
    """
    web = await lab.deploy_service(replicas=3)
    lab.note(Who.FAULT, "a HorizontalPodAutoscaler targets the Deployment too")
    lab.cluster.create(AUTOSCALERS, autoscaler(web.name))
    view = await web.until_view(
        "reason two-owners", lambda view: view.get("reason") == "two-owners", Who.SCALER
    )
    lab.expect("the reason names the HPA", "web" in str(view["detail"]), view["detail"])
    lab.expect_equal("the scaler leaves the pods alone", web.replicas, 3)
    # The scaler writes the Event a moment after its API shows the reason.
    await lab.until(lambda: "two-owners" in lab.events(web.name), "an Event on the Service")
    lab.expect("an Event on the Service says so", "two-owners" in lab.events(web.name))
    web.scale(0)
    await web.until_listed(0)
    lab.expect_200("the scaler still wakes the Deployment", await lab.request(web))


def autoscaler(name: str) -> dict[str, object]:
    """Return a HorizontalPodAutoscaler of a Deployment."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5},
    }


TIMES = 10


@scenario(21, "plain-ten-times")
async def ten_times(lab: Environment) -> None:
    """A rollout, and ten times to zero and back, under 100 requests a second.

    Kubernetes: refuses all connections while there is no pod, and starts none.

    Here: the requests wait while there is no pod; the scaler starts one each time; no request
    is lost.
    """
    web = await lab.deploy_service(replicas=1, annotations={"owner": "none"})
    async with lab.load(web, rate=RATE) as load:
        await _roll_out_and_sleep(lab, web)
        await load.more(RATE // 10)
    lab.expect_only_200("each request gets 200", load)
    lab.expect_equal(f"the Deployment slept {TIMES} times", len(web.pods), TIMES + 2)


async def _roll_out_and_sleep(lab: Environment, web: AppHandle) -> None:
    """Roll out a template; then scale to zero `TIMES` times, until a new pod responds."""
    lab.roll_out(web)
    await web.pods[0].until("stopped")
    for _ in range(TIMES):
        pod, before = web.pods[-1], len(web.pods)
        web.scale(0)
        await web.until_more_than(before)
        await pod.until("stopped")
        await web.until_listed(1)
        await web.pods[-1].until("responded")


#: Seconds from a change of an EndpointSlice to its effect on new connections.
DELAY = 0.3
#: A pod serves new connections for this long after the last one, as a preStop hook achieves.
DRAIN = "--quiet-period=1.0"


@scenario(22, "plain-takeover")
async def takeover(lab: Environment) -> None:
    """The same with clients that connect to the Service itself, 100 a second.

    Kubernetes: refuses all connections while there is no pod, and starts none.

    Here: the activators are endpoints of the Service while it sleeps; no request is lost.
    """
    annotations = {"owner": "none", "route": "takeover"}
    web = await lab.deploy_service(replicas=1, annotations=annotations, arguments=[DRAIN])
    proxy = await lab.cluster.open(web.name, DELAY)
    await lab.until(lambda: _leads_to_pods(proxy, web), "clients reach the pods")
    async with lab.load(web, rate=RATE, where=proxy.where) as load:
        await load.more(RATE // 10)
        await _roll_out_and_sleep(lab, web)
        await load.more(RATE // 10)
    lab.expect_only_200("each request gets 200", load)
    straight = await web.pods[-1].counters()
    lab.expect("pods that are ready get the connections", straight["requests"], straight)


def _leads_to_pods(proxy: ServiceProxy, web: AppHandle) -> bool:
    places = {pod.process.options.where for pod in web.pods}
    return bool(proxy.endpoints) and set(proxy.endpoints) <= places


#: Seconds from a change of an EndpointSlice to its effect on new connections.
SLEEP_DELAY = 1.0
#: Seconds between two connections.
PERIOD = 0.02
#: Seconds for which a new leader removes no pod, and then the last pod goes.
SLEEPS_WITHIN = 90.0
#: Milliseconds from a request to the response of a workload that slept.
WAKES_WITHIN = 1500.0
SLEEP_DRAIN = "--quiet-period=2.0"


@scenario(23, "plain-sleep", is_long=True)
async def sleep(lab: Environment) -> None:
    """The scaler removes the last pod of a Service with route takeover (over a minute).

    Kubernetes: has no scaler that removes the last pod; without one, it refuses connections.

    Here: the activators are endpoints of the Service before the last pod goes; no connection is
    refused.
    """
    annotations = {"route": "takeover", "idle-seconds": "5"}
    web = await lab.deploy_service(replicas=1, annotations=annotations, arguments=[SLEEP_DRAIN])
    proxy = await lab.cluster.open(web.name, SLEEP_DELAY)
    await lab.until(lambda: proxy.endpoints, "clients find an endpoint")
    knocking = lab.tasks.create_task(_knock(proxy.where))
    (pod,) = web.pods
    await lab.until(lambda: not web.replicas, "the scaler removes the pod", SLEEPS_WITHIN)
    lab.expect(
        "the activators are endpoints before the last pod goes",
        any("targetRef" not in each for each in lab.cluster.listed(web.name)),
    )
    await pod.until("stopped")
    lab.expect_200("a request of a client wakes it", await lab.request(web, where=proxy.where))
    await web.pods[-1].until("responded")
    knocking.cancel()
    await asyncio.wait([knocking])
    lab.expect("no connection was refused meanwhile", not proxy.refused, proxy.refused)


async def _knock(where: Where) -> None:
    """Open connections without a request, which no component counts, until cancelled."""
    while True:
        await open_and_close(*where)
        await asyncio.sleep(PERIOD)


FRONT_RATE = 60
#: The delay of each response: two pods with one request at a time process 40 a second.
FRONT_PATH = "/sleep?ms=50"
ANNOTATIONS = {"owner": "none", "route": "front", "pods-service": "web-pods"}


@scenario(31, "plain-front")
async def front(lab: Environment) -> None:
    """Two pods that take one request at a time get 60 a second, and go to zero and back.

    Kubernetes: has no such limit, and refuses connections while there is no pod.

    Here: the limit holds, since the activators are the only endpoints; no request is lost.
    """
    annotations = {**ANNOTATIONS, "container-concurrency": "1"}
    web = await lab.deploy_service(replicas=2, annotations=annotations, arguments=[DRAIN])
    proxy = await lab.cluster.open(web.name, DELAY)
    await lab.until(lambda: proxy.endpoints, "clients find an endpoint")
    async with lab.load(web, rate=FRONT_RATE, where=proxy.where, target=FRONT_PATH) as load:
        await load.more(FRONT_RATE)
        most = [(await pod.counters())["maxInFlight"] for pod in web.pods]
        web.scale(0)
        await lab.until(lambda: len(web.pods) == 3, "the scaler starts a pod")
        for pod in web.pods[:2]:
            await pod.until("stopped")
        await web.pods[-1].until("responded")
    most.append((await web.pods[-1].counters())["maxInFlight"])
    lab.expect_equal("no pod ever has more than one request", most, [1, 1, 1])
    lab.expect_only_200("each request gets 200", load)


#: The wakers beside ``scale``: a Service for each, and whether its pod stays.
WAKERS: Final = (
    ("parked", {"waker": "resize"}, True),
    ("served", {"profile": "vllm-sleep"}, True),
    (
        "patched",
        {
            "waker": "patch",
            "target": "deployment/patched",
            "sleep-patch": '{"spec": {"replicas": 0}}',
            "wake-patch": '{"spec": {"replicas": 1}}',
        },
        False,
    ),
)


@scenario(32, "plain-wakers", is_long=True)
async def wakers(lab: Environment) -> None:
    """Three workloads sleep: by less CPU, by a call, by a patch of an object (over a minute).

    Kubernetes: can change all of them, but does not know when requests come.

    Here: no request reaches a pod that sleeps; the first one waits until the workload is awake.
    """
    apps = [
        (await lab.deploy_service(name, 1, annotations={**asked, "idle-seconds": "5"}), stays)
        for name, asked, stays in WAKERS
    ]
    for web, stays in apps:
        async with asyncio.timeout(SLEEPS_WITHIN):
            while (await web.view(Who.SCALER))["phase"] != "asleep":
                lab.changed.clear()
                await lab.changed.wait()
        began = time.monotonic()
        lab.expect_200(f"a request wakes {web.name}", await lab.request(web))
        took = (time.monotonic() - began) * 1000
        lab.expect(f"its response is there after {took:.0f} ms", took < WAKES_WITHIN, took)
        lab.expect_equal("a pod that stays is the only one", len(web.pods), 1 if stays else 2)
