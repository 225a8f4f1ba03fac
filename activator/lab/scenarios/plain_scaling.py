"""The scaler, takeover and front of a Deployment without Knative."""

from __future__ import annotations

import asyncio
import json

from activator.lab.cluster import ServiceProxy
from activator.lab.control_plane.api import AUTOSCALERS
from activator.lab.control_plane.plane import PlaneCall
from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.kubelet import KubeletStep
from activator.lab.programs import Where, open_and_close
from activator.lab.scenario import scenario
from activator.lab.timeline import Who

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
    lab.expect(
        "each request gets 200", all(each.status == 200 for each in responses), responses[:3]
    )
    lab.expect("before Kubernetes lists the pod as ready", not pod.process.ready)
    patches = [call for call in lab.cluster.plane.calls[began:] if is_patch(call)]
    lab.expect_equal("the scaler wrote the replicas once", len(patches), 1)
    pod.process.resume(KubeletStep.CHECK)
    await web.until_listed(1)
    response = await lab.request(web, "/headers")
    seen = [line.partition(":")[0].lower() for line in json.loads(response.body)["headers"]]
    lab.expect(
        "the pod sees none of Knative's header fields",
        not any(name.startswith(("knative", "k-")) for name in seen),
        seen,
    )


def is_patch(call: PlaneCall) -> bool:
    """Return whether a request changed the replicas of a Deployment."""
    return (call.verb, call.resource, call.subresource) == ("patch", "deployments", "scale")


@scenario(
    18,
    "plain-two-owners",
    kubernetes="lets both write the replicas, and they go up and down for ever.",
)
async def two_owners(lab: Environment) -> None:
    """An HPA targets a Deployment that the scaler scales too.

    Here: the scaler removes no pod, gives the reason two-owners, and names the HPA. It still
    wakes the Deployment.
    """
    web = await lab.deploy_service(replicas=3)
    lab.note(Who.FAULT, "a HorizontalPodAutoscaler targets the Deployment too")
    lab.cluster.create(AUTOSCALERS, autoscaler(web.name))
    view = await lab.until_view(
        web, "reason two-owners", lambda view: view.get("reason") == "two-owners", Who.SCALER
    )
    lab.expect("the reason names the HPA", "web" in str(view["detail"]), view["detail"])
    lab.expect_equal("the scaler leaves the pods alone", web.replicas, 3)
    events = await lab.until_event(web.name, "two-owners")
    lab.expect("an Event on the Service says so", "two-owners" in events, events)
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


RATE = 100
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
    lab.roll_out(web, "b")
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
    proxy = await web.open(DELAY)
    await lab.until(lambda: _leads_to_pods(proxy, web), "clients reach the pods")
    async with lab.load(web, rate=RATE, where=proxy.where) as load:
        await load.more(RATE // 10)
        await _roll_out_and_sleep(lab, web)
        await load.more(RATE // 10)
    lab.expect_only_200("each request gets 200", load)
    straight = [await pod.counters() for pod in web.pods[-1:]]
    lab.expect("pods that are ready get the connections", straight[0]["requests"] > 0, straight)


def _leads_to_pods(proxy: ServiceProxy, web: AppHandle) -> bool:
    places = {(pod.process.options.address, pod.process.options.port) for pod in web.pods}
    return bool(proxy.endpoints) and set(proxy.endpoints) <= places


#: Seconds from a change of an EndpointSlice to its effect on new connections.
SLEEP_DELAY = 1.0
#: Seconds between two connections.
PERIOD = 0.02
#: Seconds for which a new leader removes no pod, and then the last pod goes.
SLEEPS_WITHIN = 90.0
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
    proxy = await web.open(SLEEP_DELAY)
    await lab.until(lambda: proxy.endpoints, "clients find an endpoint")
    knocking = lab.tasks.create_task(_knock(proxy.where))
    (pod,) = web.pods
    async with asyncio.timeout(SLEEPS_WITHIN):
        while web.replicas:
            lab.changed.clear()
            await lab.changed.wait()
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
SLOW = "/sleep?ms=50"
ANNOTATIONS = {"owner": "none", "route": "front", "pods-service": "web-pods"}


@scenario(31, "plain-front")
async def front(lab: Environment) -> None:
    """Two pods that take one request at a time get 60 a second, and go to zero and back.

    Kubernetes: has no such limit, and refuses connections while there is no pod.

    Here: the limit holds, since the activators are the only endpoints; no request is lost.
    """
    annotations = {**ANNOTATIONS, "container-concurrency": "1"}
    web = await lab.deploy_service(replicas=2, annotations=annotations, arguments=[DRAIN])
    proxy = await web.open(0.3)  # seconds until a changed slice has an effect
    await lab.until(lambda: proxy.endpoints, "clients find an endpoint")
    async with lab.load(web, rate=FRONT_RATE, where=proxy.where, target=SLOW) as load:
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
