"""Scenario 2: the only container is restarted, and the queue-proxy beside it does not know."""

from __future__ import annotations

from dataclasses import replace

from activator.lab.checks import Container
from activator.lab.kubelet import Step
from activator.lab.scenario import Scenario
from activator.lab.stage import QUICK, Stage


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    probes = replace(QUICK, liveness=Container.APPLICATION, restart_after=0.5)
    app = await stage.deploy(probes=probes, pod={"blind": True}, timeout=20)
    (pod,) = app.pods
    pod.hold(Step.RESTART)
    async with stage.load(app, rate=20) as load:
        await load.more(5)
        await pod.switch("Live", "its exec liveness probe begins to fail")
        await pod.until("killing")
        direct = await pod.ask_directly()
        stage.expect(
            "queue-proxy answers 502 for the application",
            direct.status == 502 and "connection refused" in direct.body,
            direct,
        )
        stage.expect("Kubernetes lists the pod as ready all the while", pod.listed_ready)
        await app.until_view("requests wait", lambda view: view["queued"] >= 3)
        post = stage.begin(app, "/", "POST", {"x-request-id": "post-1"})
        pod.let(Step.RESTART)
        await pod.until("restarted")
        await load.more(20)
    gets = load.statuses("GET")
    stage.expect("each GET is answered 200 in the end", set(gets) == {200}, gets)
    _check_post(stage, (await post).status, await pod.counters())


def _check_post(stage: Stage, status: int, counters: dict[str, object]) -> None:
    twice = counters["postsSeenTwice"]
    stage.expect("no POST reaches a pod twice", twice == [], twice)
    stage.expect("a POST is answered by the pod, or with its 502", status in (200, 502), status)


SCENARIO = Scenario(
    2,
    "liveness",
    "An exec liveness probe fails: the restart race, with one container",
    knative="passes on 502 connection refused for the 5 s that a restart takes; a pod once found "
    "healthy is not probed again.",
    ours="a GET that queue-proxy could not hand to the application goes back to the front of the "
    "queue and is served by the pod once it is back. A POST that was sent is never sent again.",
    script=script,
)
