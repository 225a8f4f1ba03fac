"""Scenario 4: only the sidecar is restarted; what serves requests stays."""

from __future__ import annotations

from dataclasses import replace

from activator.lab.checks import Container
from activator.lab.kubelet import Step
from activator.lab.scenario import Scenario
from activator.lab.stage import QUICK, Stage


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    probes = replace(QUICK, liveness=Container.SIDECAR)
    app = await stage.deploy(probes=probes, sidecar={}, timeout=20)
    (pod,) = app.pods
    pod.hold(Step.RESTART)
    async with stage.load(app, rate=30, posts=5) as load:
        await load.more(5)
        await pod.switch("SidecarLive", "the liveness probe of its sidecar begins to fail")
        view = await app.until_view(
            "Kubernetes lists its pod as not ready",
            lambda view: view["pods"][0]["kubernetes"] == "not-ready",
        )
        await load.more(20)
        view = await app.view()
        said = {key: view["pods"][0][key] for key in ("kubernetes", "decision", "decidedBy")}
        stage.expect(
            "the API says: Kubernetes not-ready, use, probe-passed",
            list(said.values()) == ["not-ready", "use", "probe-passed"],
            said,
        )
        pod.let(Step.RESTART)
        await app.until_view(
            "Kubernetes lists its pod as ready again",
            lambda view: view["pods"][0]["kubernetes"] == "ready",
        )
        await load.more(5)
    for method in ("GET", "POST"):
        found = load.statuses(method)
        stage.expect(f"each {method} is answered 200", set(found) == {200}, found)
    twice = (await pod.counters())["postsSeenTwice"]
    stage.expect("no POST reaches the pod twice", twice == [], twice)


SCENARIO = Scenario(
    4,
    "sidecar-liveness",
    "Liveness of a sidecar fails",
    knative="serves; whether a caller sees an error depends on what the sidecar does.",
    ours="no request is lost: queue-proxy vouches for what serves, and the API shows the address "
    "that moved.",
    script=script,
)
