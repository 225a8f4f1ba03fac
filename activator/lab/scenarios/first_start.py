"""Scenario 7: a revision that was never ready, and one that does not exist."""

from __future__ import annotations

from activator.lab.environment import Environment
from activator.lab.kubelet import Step
from activator.lab.scenario import Scenario

UNKNOWN = 'Error getting active endpoint: revision.serving.knative.dev "nobody" not found'


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    response = await environment.request("nobody")
    environment.expect(
        "a revision that does not exist gets 404, with Knative's text",
        (response.status, response.body.rstrip("\n")) == (404, UNKNOWN),
        response,
    )
    app = await environment.deploy(pods=0, timeout=20)
    waiting = environment.start_request(app)
    view = await app.until_view("a request waits", lambda view: view["queued"] == 1)
    environment.expect(
        "the API has the reason no-endpoints", view["reason"] == "no-endpoints", view["reason"]
    )

    (pod,) = app.start_pods()
    pod.pause(Step.CHECK)  # the pod listens before kubelet's first check
    response = await waiting
    environment.expect(
        "the new pod responds to the queued request", response.status == 200, response
    )
    environment.expect("before Kubernetes lists the pod as ready", not pod.listed_ready)
    view = await app.view()
    said = {key: view["pods"][0][key] for key in ("kubernetes", "decision", "decidedBy")}
    environment.expect(
        "the API shows: Kubernetes not-ready, use, probe-passed",
        list(said.values()) == ["not-ready", "use", "probe-passed"],
        said,
    )
    pod.resume(Step.CHECK)
    await app.until_ready()


SCENARIO = Scenario(
    7,
    "first-start",
    "The first start of a revision",
    knative="returns 404 for a revision that does not exist, and queues requests for one without "
    "a pod. No route leads to a revision before its first pod is ready.",
    here="the same 404, word for word; queued requests go to the pod as soon as the activator's "
    "probe passes, before Kubernetes lists the pod as ready.",
    script=script,
)
