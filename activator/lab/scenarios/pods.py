"""Pods of a revision start, restart and end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from activator.lab.environment import QUICK, Environment
from activator.lab.handles import AppHandle, verdict
from activator.lab.kubelet import KubeletStep, ProbedContainer, Probes
from activator.lab.programs import SteadyTraffic, served_by
from activator.lab.scenario import scenario

UNKNOWN = 'Error getting active endpoint: revision.serving.knative.dev "nobody" not found'


@scenario(7, "first-start")
async def first_start(lab: Environment) -> None:
    """The first start of a revision.

    Knative: returns 404 for a revision that does not exist, and queues requests for one without
    a pod. No route leads to a revision before its first pod is ready.

    Here: the same 404, word for word; queued requests go to the pod as soon as the activator's
    probe passes, before Kubernetes lists the pod as ready.
    """
    response = await lab.request("nobody")
    lab.expect(
        "a revision that does not exist gets 404, with Knative's text",
        (response.status, response.body.rstrip("\n")) == (404, UNKNOWN),
        response,
    )
    app = await lab.deploy(pods=0, timeout=20)
    waiting = lab.start_request(app)
    view = await app.until_view("a request waits", lambda view: view["queued"] == 1)
    lab.expect_equal("the API has the reason no-endpoints", view["reason"], "no-endpoints")

    (pod,) = app.start_pods()
    pod.process.pause(KubeletStep.CHECK)  # the pod listens before kubelet's first check
    lab.expect_200("the new pod responds to the queued request", await waiting)
    lab.expect("before Kubernetes lists the pod as ready", not pod.process.ready)
    lab.expect_used_early(await app.view())
    pod.process.resume(KubeletStep.CHECK)
    await app.until_ready()


#: Ten times as fast as in a cluster with checks every 5 s, 30 s of grace and 1 s for the start.
PROBES = Probes(0.5, liveness=ProbedContainer.WHOLE, restart_after=3.1)
CONCURRENCY = 10


@scenario(9, "stale-endpoints")
async def stale_endpoints(lab: Environment) -> None:
    """Liveness of one of three pods fails; Endpoints still lists it (ten times as fast).

    Knative: sends a third of all requests to a dead container for 31 s: Endpoints removes the
    address when the new container has started.

    Here: after the first refused connection, the pod gets no request until the activator's
    probe passes; no client sees an error.
    """
    app = await lab.deploy(pods=3, probes=PROBES, container_concurrency=CONCURRENCY, timeout=20)
    pod = app.pods[0]
    pod.process.pause(KubeletStep.RESTART)
    async with lab.load(app, rate=40) as load:
        await pod.until("responded")
        await pod.switch("Live", "its liveness probe begins to fail")
        await pod.until("killing")
        died = time.monotonic()
        view = await app.until_view(
            f"Kubernetes lists {pod.name} as ready, the activator's probe fails, no requests",
            lambda view: verdict(pod.in_view(view)) == ["ready", "failed", "wait", "probe-failed"],
        )
        lab.expect_equal("the capacity is that of two pods", view["capacity"], 2 * CONCURRENCY)
        await load.more(40)
        lab.expect("Kubernetes still lists it as ready", pod.process.ready)
        pod.process.resume(KubeletStep.RESTART)
        await pod.until("restarted")
        dead = time.monotonic() - died
        await pod.until("ready", 2)
        await app.until_view(
            f"the activator uses {pod.name} again", lambda view: pod.in_view(view)["usable"]
        )
        await pod.until_responses(3)
    _check_load(lab, load, dead)


def _check_load(lab: Environment, load: SteadyTraffic, dead: float) -> None:
    """Check that no request waited while the pod was dead, for so many seconds."""
    lab.expect_only_200("each request gets 200", load)
    slowest = max(response.took for response in load.responses["GET"])
    soon = dead / 2
    lab.expect(f"and none waits for {soon:.1f} s", slowest < soon, f"{slowest:.2f} s")


SLOW = "/sleep?ms=1500"


@scenario(12, "drain")
async def drain(lab: Environment) -> None:
    """A pod terminates while it has requests.

    Knative: lets the requests finish and sends the pod no others.

    Here: the same.
    """
    app = await lab.deploy(pods=2, timeout=20)
    leaving, staying = app.pods
    slow = await app.occupy(SLOW, 2, "each pod has a slow request")
    leaving.terminate()
    await app.until_view(
        f"the activator sends no request to {leaving.name}",
        lambda view: not leaving.in_view(view).get("usable"),
    )
    before = await leaving.requests()
    responses = [await lab.request(app) for _ in range(5)]
    lab.expect(
        f"new requests go to {staying.name}",
        all(r.status == 200 and staying.name in r.body for r in responses),
        responses,
    )
    after = await leaving.requests()
    lab.expect(f"{leaving.name} gets no new request", after == before, f"{after - before} requests")
    ended = await asyncio.gather(*slow)
    lab.expect_all_200("the requests in flight finish", ended)
    await leaving.until("stopped")
    lab.expect("at both pods", set(served_by(ended)) == {"app-1", "app-2"}, ended)


@scenario(2, "liveness")
async def liveness(lab: Environment) -> None:
    """An exec liveness probe fails, and the only container restarts.

    Knative: passes on 502 connection refused for the 5 s of the restart; it does not probe a
    healthy pod again.

    Here: a GET that did not reach the application returns to the front of the queue, and gets
    its response after the restart. A POST is never sent twice.
    """
    probes = replace(QUICK, liveness=ProbedContainer.APPLICATION, restart_after=0.5)
    app = await lab.deploy(probes=probes, pod={"blind": True}, timeout=20)
    (pod,) = app.pods
    pod.process.pause(KubeletStep.RESTART)
    async with lab.load(app, rate=20) as load:
        await load.more(5)
        await pod.switch("Live", "its exec liveness probe begins to fail")
        await pod.until("killing")
        # kubelet announces the end before it begins; once requests wait, the application is gone.
        await app.until_view("requests wait", lambda view: view["queued"] >= 3)
        direct = await pod.request_directly()
        lab.expect(
            "queue-proxy responds 502 for the application",
            direct.status == 502 and "connection refused" in direct.body,
            direct,
        )
        lab.expect("Kubernetes still lists the pod as ready", pod.process.ready)
        post = lab.start_request(app, "/", "POST", headers={"x-request-id": "post-1"})
        pod.process.resume(KubeletStep.RESTART)
        await pod.until("restarted")
        await load.more(20)
    lab.expect_only_200("each GET gets 200 in the end", load)
    _check_post(lab, (await post).status, await pod.counters())


def _check_post(lab: Environment, status: int, counters: dict[str, object]) -> None:
    twice = counters["postsSeenTwice"]
    lab.expect_equal("no POST reaches a pod twice", twice, [])
    lab.expect("a POST gets the pod's response, or its 502", status in (200, 502), status)


#: Longer than kubelet needs to detect a dead container and kill it.
SLOWER = "/sleep?ms=2500"


@scenario(3, "serving-container")
async def serving_container(lab: Environment) -> None:
    """Liveness of the serving container fails, with two containers.

    Knative: passes on 502 connection refused or 503 Service Unavailable; queue-proxy reports
    ready (200) all the time.

    Here: no GET is lost, not even one in flight in the killed container: the other pod gets it.
    No application gets a POST twice.
    """
    probes = replace(QUICK, liveness=ProbedContainer.APPLICATION, restart_after=0.5)
    app = await lab.deploy(pods=2, probes=probes, pod={"blind": True}, sidecar={}, timeout=20)
    pod, other = app.pods
    pod.process.pause(KubeletStep.RESTART)
    slow = await app.occupy(SLOWER, 2, "each pod has a slow GET")
    async with lab.load(app, rate=30, posts=5) as load:
        await load.more(5)
        await pod.switch("Live", "the liveness probe of its serving container begins to fail")
        await pod.until("killing")
        await other.until_responses(20)
        pod.process.resume(KubeletStep.RESTART)
        await pod.until("restarted")
        await pod.until_responses(5)
    cut = [response.status for response in await asyncio.gather(*slow)]
    lab.expect_equal(
        "the slow GET of the killed container gets 200 from the other pod", cut, [200, 200]
    )
    await _check_requests(lab, app, load)


async def _check_requests(lab: Environment, app: AppHandle, load: SteadyTraffic) -> None:
    gets, posts = load.statuses("GET"), load.statuses("POST")
    lab.expect("each GET gets 200", set(gets) == {200}, gets)
    lab.expect("each POST gets a pod's response, or its 502", set(posts) <= {200, 502}, posts)
    seen: dict[str, int] = {}
    for pod in app.pods:
        for request_id, count in (await pod.counters())["seenById"].items():
            seen[request_id] = seen.get(request_id, 0) + count
    twice = [one for one, count in seen.items() if one in load.posts and count > 1]
    lab.expect("no application gets a POST twice, nor do two get one", not twice, twice)


@scenario(4, "sidecar-liveness")
async def sidecar_liveness(lab: Environment) -> None:
    """Liveness of a sidecar fails.

    Knative: sends requests to the pod; whether a client sees an error depends on the sidecar.

    Here: no request is lost: queue-proxy reports the serving container as ready, and the API
    shows that Kubernetes does not.
    """
    probes = replace(QUICK, liveness=ProbedContainer.SIDECAR)
    app = await lab.deploy(probes=probes, sidecar={}, timeout=20)
    (pod,) = app.pods
    pod.process.pause(KubeletStep.RESTART)
    async with lab.load(app, rate=30, posts=5) as load:
        await load.more(5)
        await pod.switch("SidecarLive", "the liveness probe of its sidecar begins to fail")
        await app.until_kubernetes("not-ready", "Kubernetes lists its pod as not ready")
        await load.more(20)
        lab.expect_used_early(await app.view())
        pod.process.resume(KubeletStep.RESTART)
        await app.until_kubernetes("ready", "Kubernetes lists its pod as ready again")
        await load.more(5)
    for method in ("GET", "POST"):
        lab.expect_only_200(f"each {method} gets 200", load, method)
    twice = (await pod.counters())["postsSeenTwice"]
    lab.expect_equal("no POST reaches the pod twice", twice, [])
