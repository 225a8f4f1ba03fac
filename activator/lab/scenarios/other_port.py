"""Scenario 8: the readiness probe goes to another port than requests do."""

from __future__ import annotations

from activator.lab.scenario import Scenario
from activator.lab.stage import Stage


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    app = await stage.deploy(pod={"readiness_port": 0}, readiness_port=8090, timeout=20)
    (pod,) = app.pods
    reply = await stage.ask(app)
    stage.expect("a request is answered", reply.status == 200, reply)

    await pod.switch("Ready", "its readiness probe, on a port of its own, begins to fail")
    await app.until_view(
        "Kubernetes lists its pod as not ready",
        lambda view: view["pods"][0]["kubernetes"] == "not-ready",
    )
    waiting = stage.begin(app)
    await app.until_view("a request waits", lambda view: view["queued"] == 1)
    await pod.switch("Ready", "its readiness probe passes again")
    reply = await waiting
    stage.expect("what waits is served when the probe passes again", reply.status == 200, reply)

    counters = await pod.counters()
    asked = counters["lastProbes"].get("Knative-Activator-Probe", [])
    host = f"Host: {pod.options.address}:{pod.options.port}"
    stage.expect("the activator asks queue-proxy, on the port of Endpoints", host in asked, asked)
    elsewhere = counters["atReadinessPort"]
    stage.expect("and nobody asks the application's own port", elsewhere == 0, elsewhere)


SCENARIO = Scenario(
    8,
    "other-port",
    "Readiness is probed on another port than requests go to",
    knative="leaves that port to queue-proxy and asks queue-proxy only.",
    ours="the same: whichever port the probe names, queue-proxy is asked, where Endpoints says.",
    script=script,
)
