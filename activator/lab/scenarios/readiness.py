"""Scenario 5: the serving container is not ready, and queue-proxy reports it."""

from __future__ import annotations

import asyncio

from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.scenario import Scenario

#: Each request gets one of these statuses, so that the test can distinguish them.
STATUSES = (201, 202, 203, 206)


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(
        pod={"container_concurrency": 1}, container_concurrency=1, sidecar={}, timeout=20
    )
    (pod,) = app.pods
    response = await environment.request(app)
    environment.expect(
        "while the probe passes, a request gets 200", response.status == 200, response
    )

    await pod.switch("Ready", "the readiness probe of its serving container begins to fail")
    await app.until_view(
        "Kubernetes lists its pod as not ready",
        lambda view: view["pods"][0]["kubernetes"] == "not-ready",
    )
    queue_proxy = await pod.probe_as_kubelet()
    environment.expect(
        "queue-proxy responds to its probe with 503", queue_proxy.status == 503, queue_proxy
    )
    waiting = []
    for status in STATUSES:
        waiting.append(environment.start_request(app, f"/status?code={status}"))
        await _until_queued(app, len(waiting))
    environment.expect("none gets a response", not any(task.done() for task in waiting))
    view = await app.view()
    reason, capacity = view["reason"], view["capacity"]
    environment.expect("the API has the reason pods-not-ready", reason == "pods-not-ready", reason)
    environment.expect("and the capacity is 0", capacity == 0, capacity)

    before = pod.count("responded")
    await pod.switch("Ready", "its readiness probe passes again")
    responses = await asyncio.gather(*waiting)
    found = [response.status for response in responses]
    environment.expect(
        "each gets its response when the probe passes again", found == list(STATUSES), found
    )
    await pod.until("responded", before + len(STATUSES))
    order = [details["status"] for kind, details in pod.events if kind == "responded"][before:]
    environment.expect("in the order of their arrival", order == list(STATUSES), order)


async def _until_queued(app: AppHandle, count: int) -> None:
    what = "one request waits" if count == 1 else f"{count} requests wait"
    await app.until_view(what, lambda view: view["queued"] == count)


SCENARIO = Scenario(
    5,
    "readiness",
    "Readiness of the serving container fails, with two containers",
    knative="queues requests: no backend, capacity 0. They time out, or get responses when the "
    "probe passes again.",
    here="the same, in the order of their arrival, as soon as the probe passes.",
    script=script,
)
