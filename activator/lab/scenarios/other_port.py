"""Scenario 8: the readiness probe goes to another port than requests."""

from __future__ import annotations

from activator.lab.environment import Environment
from activator.lab.scenario import Scenario


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(pod={"readiness_port": 0}, readiness_port=8090, timeout=20)
    (pod,) = app.pods
    response = await environment.request(app)
    environment.expect("a request gets 200", response.status == 200, response)

    await pod.switch("Ready", "its readiness probe, on a port of its own, begins to fail")
    await app.until_view(
        "Kubernetes lists its pod as not ready",
        lambda view: view["pods"][0]["kubernetes"] == "not-ready",
    )
    waiting = environment.start_request(app)
    await app.until_view("a request waits", lambda view: view["queued"] == 1)
    await pod.switch("Ready", "its readiness probe passes again")
    response = await waiting
    environment.expect(
        "the queued request gets 200 when the probe passes again", response.status == 200, response
    )

    counters = await pod.counters()
    asked = counters["lastProbes"].get("Knative-Activator-Probe", [])
    host = f"Host: {pod.options.address}:{pod.options.port}"
    environment.expect(
        "the activator probes queue-proxy, on the port in Endpoints", host in asked, asked
    )
    elsewhere = counters["atReadinessPort"]
    environment.expect("and does not probe the application's own port", elsewhere == 0, elsewhere)


SCENARIO = Scenario(
    8,
    "other-port",
    "The readiness probe uses another port than requests",
    knative="probes only queue-proxy, which probes that port.",
    here="the same: it probes queue-proxy at the port in Endpoints.",
    script=script,
)
