"""The scaler decides about the replicas of a plain Deployment."""

from __future__ import annotations

import asyncio
import json

from activator.lab.control_plane.plane import PlaneCall
from activator.lab.control_plane.resources import AUTOSCALERS
from activator.lab.kubelet import KubeletStep
from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario
from activator.lab.timeline import Who

REQUESTS = 20


async def cold_start(environment: PlainEnvironment) -> None:
    """Run scenario 13: the first requests of a Deployment without pods, and without Knative."""
    base = environment.base
    web = await environment.deploy()
    began = len(environment.cluster.plane.calls)
    waiting = [base.start_request(web) for _ in range(REQUESTS)]
    await base.until(lambda: web.pods, "the scaler asks for a pod")
    (pod,) = web.pods
    pod.pause(KubeletStep.CHECK)  # the pod listens before kubelet's first check
    responses = await asyncio.gather(*waiting)
    base.expect(
        "each request gets 200", all(each.status == 200 for each in responses), responses[:3]
    )
    base.expect("before Kubernetes lists the pod as ready", not pod.listed_ready)
    patches = [call for call in environment.cluster.plane.calls[began:] if is_patch(call)]
    base.expect("the scaler wrote the replicas once", len(patches) == 1, len(patches))
    pod.resume(KubeletStep.CHECK)
    await web.until_listed(1)
    response = await base.request(web, "/headers")
    seen = [line.partition(":")[0].lower() for line in json.loads(response.body)["headers"]]
    base.expect(
        "the pod sees none of Knative's header fields",
        not any(name.startswith(("knative", "k-")) for name in seen),
        seen,
    )


def is_patch(call: PlaneCall) -> bool:
    """Return whether a request changed the replicas of a Deployment."""
    return (call.verb, call.resource, call.subresource) == ("patch", "deployments", "scale")


COLD_START = Scenario(
    13,
    "plain-cold-start",
    "A Deployment without pods gets its first requests, without Knative",
    kubernetes="refuses the connections: the Service has no endpoint.",
    here="the requests wait; the scaler asks once for a pod; the pod gets the requests as soon as "
    "it accepts connections, before Kubernetes lists it as ready.",
    plain=cold_start,
)


async def two_owners(environment: PlainEnvironment) -> None:
    """Run scenario 18: an HPA and the scaler both want to decide about one Deployment."""
    base = environment.base
    web = await environment.deploy(replicas=3)
    base.note(Who.FAULT, "a HorizontalPodAutoscaler targets the Deployment too")
    environment.cluster.create(AUTOSCALERS, autoscaler(web.name))
    view = await environment.until_scaler(web, "reason two-owners", "reason", "two-owners")
    base.expect("the reason names the HPA", "web" in str(view["detail"]), view["detail"])
    base.expect("the scaler leaves the pods alone", web.replicas == 3, web.replicas)
    events = await environment.until_event(web.name, "two-owners")
    base.expect("an Event on the Service says so", "two-owners" in events, events)
    web.scale(0)
    await web.until_listed(0)
    response = await base.request(web)
    base.expect("the scaler still wakes the Deployment", response.status == 200, response)


def autoscaler(name: str) -> dict[str, object]:
    """Return a HorizontalPodAutoscaler of a Deployment."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5},
    }


TWO_OWNERS = Scenario(
    18,
    "plain-two-owners",
    "An HPA targets a Deployment that the scaler scales too",
    kubernetes="lets both write the replicas, and they go up and down for ever.",
    here="the scaler removes no pod, gives the reason two-owners, and names the HPA. It still "
    "wakes the Deployment.",
    plain=two_owners,
)


RATE = 100
TIMES = 10


async def ten_times(environment: PlainEnvironment) -> None:
    """Run scenario 21: under traffic, a Deployment rolls out, then ten times to zero and back."""
    base = environment.base
    web = await environment.deploy(replicas=1, annotations={"owner": "none"})
    async with base.load(web, rate=RATE) as load:
        environment.roll_out(web, "b")
        await web.pods[0].until("stopped")
        for _ in range(TIMES):
            pod, before = web.pods[-1], len(web.pods)
            web.scale(0)
            await web.until_more_than(before)
            await pod.until("stopped")
            await web.until_listed(1)
            await web.pods[-1].until("responded")
        await load.more(RATE // 10)
    statuses = load.statuses("GET")
    base.expect("each request gets 200", set(statuses) == {200}, statuses)
    base.expect(f"the Deployment slept {TIMES} times", len(web.pods) == TIMES + 2, len(web.pods))


TEN_TIMES = Scenario(
    21,
    "plain-ten-times",
    f"A rollout, and ten times to zero and back, under {RATE} requests a second",
    kubernetes="refuses all connections while there is no pod, and starts none.",
    here="the requests wait while there is no pod; the scaler starts one each time; no request is "
    "lost.",
    plain=ten_times,
)
