"""Scenario 13: the first requests of a Deployment without pods, and without Knative."""

from __future__ import annotations

import asyncio
import json

from activator.lab.control_plane.plane import Call
from activator.lab.kubelet import Step
from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario

REQUESTS = 20


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    web = await environment.deploy()
    began = len(environment.cluster.plane.calls)
    waiting = [base.start_request(web) for _ in range(REQUESTS)]
    await base.until(lambda: web.pods, "the scaler asks for a pod")
    (pod,) = web.pods
    pod.pause(Step.CHECK)  # the pod listens before kubelet's first check
    responses = await asyncio.gather(*waiting)
    base.expect(
        "each request gets 200", all(each.status == 200 for each in responses), responses[:3]
    )
    base.expect("before Kubernetes lists the pod as ready", not pod.listed_ready)
    patches = [call for call in environment.cluster.plane.calls[began:] if is_patch(call)]
    base.expect("the scaler wrote the replicas once", len(patches) == 1, len(patches))
    pod.resume(Step.CHECK)
    await web.until_listed(1)
    response = await base.request(web, "/headers")
    seen = [line.partition(":")[0].lower() for line in json.loads(response.body)["headers"]]
    base.expect(
        "the pod sees none of Knative's header fields",
        not any(name.startswith(("knative", "k-")) for name in seen),
        seen,
    )


def is_patch(call: Call) -> bool:
    """Return whether a request changed the replicas of a Deployment."""
    return (call.verb, call.resource, call.subresource) == ("patch", "deployments", "scale")


SCENARIO = Scenario(
    13,
    "plain-cold-start",
    "A Deployment without pods gets its first requests, without Knative",
    knative="",
    kubernetes="refuses the connections: the Service has no endpoint.",
    here="the requests wait; the scaler asks once for a pod; the pod gets the requests as soon as "
    "it accepts connections, before Kubernetes lists it as ready.",
    plain=script,
)
