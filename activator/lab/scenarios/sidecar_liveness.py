"""Scenario 4: only the sidecar restarts; the serving container stays."""

from __future__ import annotations

from dataclasses import replace

from activator.lab.checks import Container
from activator.lab.environment import QUICK, Environment
from activator.lab.kubelet import Step
from activator.lab.scenario import Scenario


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    probes = replace(QUICK, liveness=Container.SIDECAR)
    app = await environment.deploy(probes=probes, sidecar={}, timeout=20)
    (pod,) = app.pods
    pod.pause(Step.RESTART)
    async with environment.load(app, rate=30, posts=5) as load:
        await load.more(5)
        await pod.switch("SidecarLive", "the liveness probe of its sidecar begins to fail")
        view = await app.until_view(
            "Kubernetes lists its pod as not ready",
            lambda view: view["pods"][0]["kubernetes"] == "not-ready",
        )
        await load.more(20)
        view = await app.view()
        said = {key: view["pods"][0][key] for key in ("kubernetes", "decision", "decidedBy")}
        environment.expect(
            "the API shows: Kubernetes not-ready, use, probe-passed",
            list(said.values()) == ["not-ready", "use", "probe-passed"],
            said,
        )
        pod.resume(Step.RESTART)
        await app.until_view(
            "Kubernetes lists its pod as ready again",
            lambda view: view["pods"][0]["kubernetes"] == "ready",
        )
        await load.more(5)
    for method in ("GET", "POST"):
        found = load.statuses(method)
        environment.expect(f"each {method} gets 200", set(found) == {200}, found)
    twice = (await pod.counters())["postsSeenTwice"]
    environment.expect("no POST reaches the pod twice", twice == [], twice)


SCENARIO = Scenario(
    4,
    "sidecar-liveness",
    "Liveness of a sidecar fails",
    knative="sends requests to the pod; whether a client sees an error depends on the sidecar.",
    here="no request is lost: queue-proxy reports the serving container as ready, and the API "
    "shows that Kubernetes does not.",
    script=script,
)
