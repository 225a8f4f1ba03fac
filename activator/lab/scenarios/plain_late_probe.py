"""Scenario 14: kubelet's readiness probe comes long after the pod is ready."""

from __future__ import annotations

from activator.lab.kubelet import Step
from activator.lab.plain.environment import PlainEnvironment
from activator.lab.plain.objects import HTTP_PROBE
from activator.lab.scenario import Scenario


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    web = await environment.deploy(probe=HTTP_PROBE)
    waiting = base.start_request(web)
    await base.until(lambda: web.pods, "the pod starts")
    (pod,) = web.pods
    pod.pause(Step.CHECK)
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
    pod.resume(Step.CHECK)
    await web.until_listed(1)
    await pod.switch("Ready", "its health page begins to fail")
    await base.until(lambda: not pod.listed_ready, "Kubernetes lists the pod as not ready")
    await web.until_view("the pod gets no request", lambda view: not view["pods"][0]["usable"])
    again = base.start_request(web)
    await web.until_view("a request waits", lambda view: view["queued"] == 1)
    pod.pause(Step.CHECK)
    await pod.switch("Ready", "its health page passes again")
    response = await again
    base.expect("it is served as soon as the page passes", response.status == 200, response)
    pod.resume(Step.CHECK)


SCENARIO = Scenario(
    14,
    "plain-late-probe",
    "The readiness probe of a plain pod comes long after the pod is ready",
    knative="",
    kubernetes="lists the pod after kubelet's next probe, up to 10 s later by default.",
    here="the activator requests the same page sooner, and sends the requests when it passes.",
    plain=script,
)
