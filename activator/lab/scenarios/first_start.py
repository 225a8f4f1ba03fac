"""Scenario 7: what was never ready yet, or never was at all."""

from __future__ import annotations

from activator.lab.kubelet import Step
from activator.lab.scenario import Scenario
from activator.lab.stage import Stage

UNKNOWN = 'Error getting active endpoint: revision.serving.knative.dev "nobody" not found'


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    reply = await stage.ask("nobody")
    stage.expect(
        "a revision that nobody knows of is answered 404, in Knative's words",
        (reply.status, reply.body.rstrip("\n")) == (404, UNKNOWN),
        reply,
    )
    app = await stage.deploy(pods=0, timeout=20)
    waiting = stage.begin(app)
    view = await app.until_view("a request waits", lambda view: view["queued"] == 1)
    stage.expect("the API says why: no-endpoints", view["reason"] == "no-endpoints", view["reason"])

    (pod,) = app.start_pods()
    pod.hold(Step.CHECK)  # kubelet checks once in a while; the pod is up before it asks
    reply = await waiting
    stage.expect("what waits is served by the pod that starts", reply.status == 200, reply)
    stage.expect("before Kubernetes calls it ready", not pod.listed_ready)
    view = await app.view()
    said = {key: view["pods"][0][key] for key in ("kubernetes", "decision", "decidedBy")}
    stage.expect(
        "the API says: Kubernetes not-ready, use, probe-passed",
        list(said.values()) == ["not-ready", "use", "probe-passed"],
        said,
    )
    pod.let(Step.CHECK)
    await app.until_ready()


SCENARIO = Scenario(
    7,
    "first-start",
    "First start: never ready yet",
    knative="answers 404 for a revision that does not exist, and holds requests of one that has no "
    "pod; until a pod was ready once no route leads to it.",
    ours="the same 404, word for word; what waits is served as soon as our own probe passes, "
    "before Kubernetes lists the pod as ready.",
    script=script,
)
