"""Scenario 1: a failing exec readiness probe, which queue-proxy cannot run."""

from __future__ import annotations

from dataclasses import replace

from activator.lab.environment import QUICK, Environment
from activator.lab.handles import View
from activator.lab.scenario import Scenario

TIMEOUT = 3


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    probes = replace(QUICK, exec_readiness=True)
    app = await environment.deploy(
        probes=probes, pod={"blind": True}, exec_readiness=True, timeout=TIMEOUT
    )
    (pod,) = app.pods
    response = await environment.request(app)
    environment.expect(
        "while the probe passes, a request gets 200", response.status == 200, response
    )

    await pod.switch("Exec", "its exec readiness probe begins to fail")
    await app.until_view(
        "Kubernetes: not ready; activator's probe: passed; decided by exec-readiness-probe",
        _has_decided,
    )
    queue_proxy = await pod.probe_as_kubelet()
    environment.expect(
        "queue-proxy still responds 200 queue", queue_proxy.body == "queue", queue_proxy
    )
    before = (await pod.counters())["requests"]
    response = await environment.request(app)
    environment.expect(
        f"a request waits for its {TIMEOUT} s and gets 504",
        (response.status, response.body) == (504, "activator request timeout")
        and response.took >= TIMEOUT,
        response,
    )
    reason = response.headers.get("activator-reason", "")
    environment.expect(
        "the 504 has the reason pods-not-ready", reason.startswith("pods-not-ready"), reason
    )
    after = (await pod.counters())["requests"]
    environment.expect("the pod gets no request", after == before, f"{after - before} requests")

    waiting = environment.start_request(app)
    await app.until_view("a request waits", lambda view: view["queued"] == 1)
    await pod.switch("Exec", "its exec readiness probe passes again")
    response = await waiting
    environment.expect(
        "the queued request gets 200 when the probe passes again", response.status == 200, response
    )


def _has_decided(view: View) -> bool:
    """Return whether the API shows the decision, which needs one more probe."""
    keys = ("kubernetes", "probe", "decision", "decidedBy")
    said = [view["pods"][0][key] for key in keys]
    return said == ["not-ready", "passed", "wait", "exec-readiness-probe"]


SCENARIO = Scenario(
    1,
    "exec-readiness",
    "An exec readiness probe fails, with one container",
    knative="queues each request until the pod is ready again, or returns 504 without a reason.",
    here="the same for requests: for an exec probe, only Kubernetes' list counts. The 504 "
    "and the API give the reason.",
    script=script,
)
