"""Containers of a pod restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from activator.lab.client import SteadyTraffic
from activator.lab.environment import QUICK, Environment
from activator.lab.handles import AppHandle
from activator.lab.kubelet import KubeletStep, ProbedContainer
from activator.lab.scenario import Scenario


async def liveness(environment: Environment) -> None:
    """Run scenario 2: the only container restarts, and its queue-proxy cannot detect that."""
    probes = replace(QUICK, liveness=ProbedContainer.APPLICATION, restart_after=0.5)
    app = await environment.deploy(probes=probes, pod={"blind": True}, timeout=20)
    (pod,) = app.pods
    pod.pause(KubeletStep.RESTART)
    async with environment.load(app, rate=20) as load:
        await load.more(5)
        await pod.switch("Live", "its exec liveness probe begins to fail")
        await pod.until("killing")
        direct = await pod.request_directly()
        environment.expect(
            "queue-proxy responds 502 for the application",
            direct.status == 502 and "connection refused" in direct.body,
            direct,
        )
        environment.expect("Kubernetes still lists the pod as ready", pod.listed_ready)
        await app.until_view("requests wait", lambda view: view["queued"] >= 3)
        post = environment.start_request(app, "/", "POST", {"x-request-id": "post-1"})
        pod.resume(KubeletStep.RESTART)
        await pod.until("restarted")
        await load.more(20)
    gets = load.statuses("GET")
    environment.expect("each GET gets 200 in the end", set(gets) == {200}, gets)
    _check_post(environment, (await post).status, await pod.counters())


def _check_post(environment: Environment, status: int, counters: dict[str, object]) -> None:
    twice = counters["postsSeenTwice"]
    environment.expect("no POST reaches a pod twice", twice == [], twice)
    environment.expect("a POST gets the pod's response, or its 502", status in (200, 502), status)


LIVENESS = Scenario(
    2,
    "liveness",
    "An exec liveness probe fails, and the only container restarts",
    knative="passes on 502 connection refused for the 5 s of the restart; it does not probe a "
    "healthy pod again.",
    here="a GET that did not reach the application returns to the front of the queue, and gets "
    "its response after the restart. A POST is never sent twice.",
    script=liveness,
)


#: Longer than kubelet needs to detect a dead container and kill it.
SLOW = "/sleep?ms=2500"


async def serving_container(environment: Environment) -> None:
    """Run scenario 3: the serving container of one of two pods restarts while it has requests."""
    probes = replace(QUICK, liveness=ProbedContainer.APPLICATION, restart_after=0.5)
    app = await environment.deploy(
        pods=2, probes=probes, pod={"blind": True}, sidecar={}, timeout=20
    )
    pod, other = app.pods
    pod.pause(KubeletStep.RESTART)
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
        pod.resume(KubeletStep.RESTART)
        await pod.until("restarted")
        seen = pod.count("responded")
        await pod.until("responded", seen + 5)
    cut = [response.status for response in await asyncio.gather(*slow)]
    environment.expect(
        "the slow GET of the killed container gets 200 from the other pod", cut == [200, 200], cut
    )
    await _check_load(environment, app, load)


async def _check_load(environment: Environment, app: AppHandle, load: SteadyTraffic) -> None:
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


SERVING_CONTAINER = Scenario(
    3,
    "serving-container",
    "Liveness of the serving container fails, with two containers",
    knative="passes on 502 connection refused or 503 Service Unavailable; queue-proxy reports "
    "ready (200) all the time.",
    here="no GET is lost, not even one in flight in the killed container: the other pod gets it. "
    "No application gets a POST twice.",
    script=serving_container,
)


async def sidecar_liveness(environment: Environment) -> None:
    """Run scenario 4: only the sidecar restarts; the serving container stays."""
    probes = replace(QUICK, liveness=ProbedContainer.SIDECAR)
    app = await environment.deploy(probes=probes, sidecar={}, timeout=20)
    (pod,) = app.pods
    pod.pause(KubeletStep.RESTART)
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
        pod.resume(KubeletStep.RESTART)
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


SIDECAR_LIVENESS = Scenario(
    4,
    "sidecar-liveness",
    "Liveness of a sidecar fails",
    knative="sends requests to the pod; whether a client sees an error depends on the sidecar.",
    here="no request is lost: queue-proxy reports the serving container as ready, and the API "
    "shows that Kubernetes does not.",
    script=sidecar_liveness,
)
