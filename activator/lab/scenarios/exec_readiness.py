"""Scenario 1: a failing exec readiness probe, which queue-proxy cannot see."""

from __future__ import annotations

from dataclasses import replace

from activator.lab.scenario import Scenario
from activator.lab.stage import QUICK, Stage
from activator.lab.staged import View

TIMEOUT = 3


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    probes = replace(QUICK, exec_readiness=True)
    app = await stage.deploy(
        probes=probes, pod={"blind": True}, exec_readiness=True, timeout=TIMEOUT
    )
    (pod,) = app.pods
    reply = await stage.ask(app)
    stage.expect("while the probe passes a request is answered", reply.status == 200, reply)

    await pod.switch("Exec", "its exec readiness probe begins to fail")
    await app.until_view(
        "not ready for Kubernetes, passed our own probe: its pod waits by exec-readiness-probe",
        _has_decided,
    )
    queue_proxy = await pod.asked_as_kubelet()
    stage.expect("queue-proxy still says 200 queue", queue_proxy.body == "queue", queue_proxy)
    before = (await pod.counters())["requests"]
    reply = await stage.ask(app)
    stage.expect(
        f"a request is held for its {TIMEOUT} s and answered 504",
        (reply.status, reply.body) == (504, "activator request timeout") and reply.took >= TIMEOUT,
        reply,
    )
    reason = reply.headers.get("activator-reason", "")
    stage.expect("the answer says why: pods-not-ready", reason.startswith("pods-not-ready"), reason)
    after = (await pod.counters())["requests"]
    stage.expect("the pod was not asked", after == before, f"{after - before} requests")

    waiting = stage.begin(app)
    await app.until_view("a request waits", lambda view: view["queued"] == 1)
    await pod.switch("Exec", "its exec readiness probe passes again")
    reply = await waiting
    stage.expect("what waits is served when the probe passes again", reply.status == 200, reply)


def _has_decided(view: View) -> bool:
    """Whether the API says of the pod what it must: not until it was probed once more."""
    keys = ("kubernetes", "probe", "decision", "decidedBy")
    said = [view["pods"][0][key] for key in keys]
    return said == ["not-ready", "passed", "wait", "exec-readiness-probe"]


SCENARIO = Scenario(
    1,
    "exec-readiness",
    "An exec readiness probe fails, with one container",
    knative="holds each request until the pod is ready again, or answers 504 without a reason.",
    ours="the same for requests: where a command decides, only Kubernetes' list counts. The 504 "
    "and the API say why.",
    script=script,
)
