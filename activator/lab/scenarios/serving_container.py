"""Scenario 3: the serving container of one of two pods is restarted, with requests in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from activator.lab.checks import Container
from activator.lab.kubelet import Step
from activator.lab.load import Load
from activator.lab.scenario import Scenario
from activator.lab.stage import QUICK, Stage
from activator.lab.staged import App

#: Milliseconds: longer than it takes kubelet to find a container dead and kill it.
SLOW = "/sleep?ms=2500"


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    probes = replace(QUICK, liveness=Container.APPLICATION, restart_after=0.5)
    app = await stage.deploy(pods=2, probes=probes, pod={"blind": True}, sidecar={}, timeout=20)
    pod, other = app.pods
    pod.hold(Step.RESTART)
    slow = [stage.begin(app, SLOW) for _ in range(2)]
    await app.until_view(
        "each pod has a slow GET", lambda view: all(each["inFlight"] for each in view["pods"])
    )
    async with stage.load(app, rate=30, posts=5) as load:
        await load.more(5)
        await pod.switch("Live", "the liveness probe of its serving container begins to fail")
        await pod.until("killing")
        seen = other.count("answered")
        await other.until("answered", seen + 20)
        pod.let(Step.RESTART)
        await pod.until("restarted")
        seen = pod.count("answered")
        await pod.until("answered", seen + 5)
    cut = [reply.status for reply in await asyncio.gather(*slow)]
    stage.expect(
        "the slow GET that the container had is answered by the other pod", cut == [200, 200], cut
    )
    await _check_load(stage, app, load)


async def _check_load(stage: Stage, app: App, load: Load) -> None:
    gets, posts = load.statuses("GET"), load.statuses("POST")
    stage.expect("each GET is answered 200", set(gets) == {200}, gets)
    stage.expect("each POST is answered by a pod, or with its 502", set(posts) <= {200, 502}, posts)
    seen: dict[str, int] = {}
    for pod in app.pods:
        for request_id, count in (await pod.counters())["seenById"].items():
            seen[request_id] = seen.get(request_id, 0) + count
    twice = [one for one, count in seen.items() if one in load.posts and count > 1]
    stage.expect("no POST reaches two pods, or one twice", not twice, twice)


SCENARIO = Scenario(
    3,
    "serving-container",
    "Liveness of the serving container fails, with two containers",
    knative="passes on 502 connection refused or 503 Service Unavailable, as the moment has it; "
    "queue-proxy's readiness stays 200 throughout.",
    ours="no GET is lost, not even one that the container had when it was killed; the other pod "
    "takes over. A POST that was sent is never sent again.",
    script=script,
)
