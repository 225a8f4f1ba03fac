"""Scenario 3: the serving container of one of two pods restarts while it has requests."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from activator.lab.checks import Container
from activator.lab.environment import QUICK, Environment
from activator.lab.handles import AppHandle
from activator.lab.kubelet import Step
from activator.lab.load import Load
from activator.lab.scenario import Scenario

#: Longer than kubelet needs to detect a dead container and kill it.
SLOW = "/sleep?ms=2500"


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    probes = replace(QUICK, liveness=Container.APPLICATION, restart_after=0.5)
    app = await environment.deploy(
        pods=2, probes=probes, pod={"blind": True}, sidecar={}, timeout=20
    )
    pod, other = app.pods
    pod.pause(Step.RESTART)
    slow = [environment.start_request(app, SLOW) for _ in range(2)]
    await app.until_view(
        "each pod has a slow GET", lambda view: all(each["inFlight"] for each in view["pods"])
    )
    async with environment.load(app, rate=30, posts=5) as load:
        await load.more(5)
        await pod.switch("Live", "the liveness probe of its serving container begins to fail")
        await pod.until("killing")
        seen = other.count("responded")
        await other.until("responded", seen + 20)
        pod.resume(Step.RESTART)
        await pod.until("restarted")
        seen = pod.count("responded")
        await pod.until("responded", seen + 5)
    cut = [response.status for response in await asyncio.gather(*slow)]
    environment.expect(
        "the slow GET of the killed container gets 200 from the other pod", cut == [200, 200], cut
    )
    await _check_load(environment, app, load)


async def _check_load(environment: Environment, app: AppHandle, load: Load) -> None:
    gets, posts = load.statuses("GET"), load.statuses("POST")
    environment.expect("each GET gets 200", set(gets) == {200}, gets)
    environment.expect(
        "each POST gets a pod's response, or its 502", set(posts) <= {200, 502}, posts
    )
    seen: dict[str, int] = {}
    for pod in app.pods:
        for request_id, count in (await pod.counters())["seenById"].items():
            seen[request_id] = seen.get(request_id, 0) + count
    twice = [one for one, count in seen.items() if one in load.posts and count > 1]
    environment.expect("no application gets a POST twice, nor do two get one", not twice, twice)


SCENARIO = Scenario(
    3,
    "serving-container",
    "Liveness of the serving container fails, with two containers",
    knative="passes on 502 connection refused or 503 Service Unavailable; queue-proxy reports "
    "ready (200) all the time.",
    here="no GET is lost, not even one in flight in the killed container: the other pod gets it. "
    "No application gets a POST twice.",
    script=script,
)
