"""Scenario 5: the serving container says that it is not ready, and queue-proxy says so too."""

from __future__ import annotations

import asyncio

from activator.lab.scenario import Scenario
from activator.lab.stage import Stage
from activator.lab.staged import App

#: By these answers requests are told apart.
STATUSES = (201, 202, 203, 206)


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    app = await stage.deploy(
        pod={"container_concurrency": 1}, container_concurrency=1, sidecar={}, timeout=20
    )
    (pod,) = app.pods
    reply = await stage.ask(app)
    stage.expect("while the probe passes a request is answered", reply.status == 200, reply)

    await pod.switch("Ready", "the readiness probe of its serving container begins to fail")
    await app.until_view(
        "Kubernetes lists its pod as not ready",
        lambda view: view["pods"][0]["kubernetes"] == "not-ready",
    )
    queue_proxy = await pod.asked_as_kubelet()
    stage.expect("queue-proxy answers its probe 503", queue_proxy.status == 503, queue_proxy)
    waiting = []
    for status in STATUSES:
        waiting.append(stage.begin(app, f"/status?code={status}"))
        await _until_queued(app, len(waiting))
    stage.expect("none is answered", not any(task.done() for task in waiting))
    view = await app.view()
    reason, capacity = view["reason"], view["capacity"]
    stage.expect("the API says why: pods-not-ready", reason == "pods-not-ready", reason)
    stage.expect("and that there is no capacity", capacity == 0, capacity)

    before = pod.count("answered")
    await pod.switch("Ready", "its readiness probe passes again")
    replies = await asyncio.gather(*waiting)
    found = [reply.status for reply in replies]
    stage.expect("each is served when the probe passes again", found == list(STATUSES), found)
    await pod.until("answered", before + len(STATUSES))
    order = [details["status"] for kind, details in pod.told if kind == "answered"][before:]
    stage.expect("in the order in which they came", order == list(STATUSES), order)


async def _until_queued(app: App, count: int) -> None:
    what = "one request waits" if count == 1 else f"{count} requests wait"
    await app.until_view(what, lambda view: view["queued"] == count)


SCENARIO = Scenario(
    5,
    "readiness",
    "Readiness of the serving container fails, with two containers",
    knative="holds requests: no backend, capacity 0; they time out, or are served when the probe "
    "passes again.",
    ours="the same, and they are served in the order in which they came, the moment the probe "
    "passes.",
    script=script,
)
