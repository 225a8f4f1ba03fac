"""A pod's first start, its end, and Endpoints that lag behind."""

from __future__ import annotations

import asyncio
import time

from activator.lab.client import SteadyTraffic
from activator.lab.environment import Environment
from activator.lab.handles import PodHandle, View
from activator.lab.kubelet import KubeletStep, ProbedContainer, Probes
from activator.lab.scenario import Scenario

UNKNOWN = 'Error getting active endpoint: revision.serving.knative.dev "nobody" not found'


async def first_start(environment: Environment) -> None:
    """Run scenario 7: a revision that was never ready, and one that does not exist."""
    response = await environment.request("nobody")
    environment.expect(
        "a revision that does not exist gets 404, with Knative's text",
        (response.status, response.body.rstrip("\n")) == (404, UNKNOWN),
        response,
    )
    app = await environment.deploy(pods=0, timeout=20)
    waiting = environment.start_request(app)
    view = await app.until_view("a request waits", lambda view: view["queued"] == 1)
    environment.expect(
        "the API has the reason no-endpoints", view["reason"] == "no-endpoints", view["reason"]
    )

    (pod,) = app.start_pods()
    pod.pause(KubeletStep.CHECK)  # the pod listens before kubelet's first check
    response = await waiting
    environment.expect(
        "the new pod responds to the queued request", response.status == 200, response
    )
    environment.expect("before Kubernetes lists the pod as ready", not pod.listed_ready)
    view = await app.view()
    said = {key: view["pods"][0][key] for key in ("kubernetes", "decision", "decidedBy")}
    environment.expect(
        "the API shows: Kubernetes not-ready, use, probe-passed",
        list(said.values()) == ["not-ready", "use", "probe-passed"],
        said,
    )
    pod.resume(KubeletStep.CHECK)
    await app.until_ready()


FIRST_START = Scenario(
    7,
    "first-start",
    "The first start of a revision",
    knative="returns 404 for a revision that does not exist, and queues requests for one without "
    "a pod. No route leads to a revision before its first pod is ready.",
    here="the same 404, word for word; queued requests go to the pod as soon as the activator's "
    "probe passes, before Kubernetes lists the pod as ready.",
    script=first_start,
)


#: Ten times as fast as in a cluster with checks every 5 s, 30 s of grace and 1 s for the start.
PROBES = Probes(0.5, liveness=ProbedContainer.WHOLE, restart_after=3.1)
CONCURRENCY = 10


async def stale_endpoints(environment: Environment) -> None:
    """Run scenario 9: Endpoints still lists a pod that kubelet is killing."""
    app = await environment.deploy(
        pods=3, probes=PROBES, container_concurrency=CONCURRENCY, timeout=20
    )
    pod = app.pods[0]
    pod.pause(KubeletStep.RESTART)
    async with environment.load(app, rate=40) as load:
        await pod.until("responded")
        await pod.switch("Live", "its liveness probe begins to fail")
        await pod.until("killing")
        died = time.monotonic()
        view = await app.until_view(
            f"Kubernetes lists {pod.name} as ready, the activator's probe fails, no requests",
            lambda view: _is_doubted(_of(view, pod)),
        )
        left = view["capacity"]
        environment.expect("the capacity is that of two pods", left == 2 * CONCURRENCY, left)
        await load.more(40)
        environment.expect("Kubernetes still lists it as ready", pod.listed_ready)
        pod.resume(KubeletStep.RESTART)
        await pod.until("restarted")
        dead = time.monotonic() - died
        seen = pod.count("responded")
        await pod.until("ready", 2)
        await app.until_view(
            f"the activator uses {pod.name} again", lambda view: _of(view, pod)["usable"]
        )
        await pod.until("responded", seen + 3)
    _check_load(environment, load, dead)


def _of(view: View, pod: PodHandle) -> View:
    found: View = next(each for each in view["pods"] if each["uid"] == pod.uid)
    return found


def _is_doubted(pod: View) -> bool:
    said = [pod[key] for key in ("kubernetes", "probe", "decision", "decidedBy")]
    return said == ["ready", "failed", "wait", "probe-failed"]


def _check_load(environment: Environment, load: SteadyTraffic, dead: float) -> None:
    """Check that no request waited while the pod was dead, for so many seconds."""
    gets = load.statuses("GET")
    environment.expect("each request gets 200", set(gets) == {200}, gets)
    slowest = max(response.took for response in load.responses["GET"])
    soon = dead / 2
    environment.expect(f"and none waits for {soon:.1f} s", slowest < soon, f"{slowest:.2f} s")


STALE_ENDPOINTS = Scenario(
    9,
    "stale-endpoints",
    "Liveness of one of three pods fails; Endpoints still lists it (ten times as fast)",
    knative="sends a third of all requests to a dead container for 31 s: Endpoints removes the "
    "address when the new container has started.",
    here="after the first refused connection, the pod gets no request until the activator's probe "
    "passes; no client sees an error.",
    script=stale_endpoints,
)


SLOW = "/sleep?ms=1500"


async def drain(environment: Environment) -> None:
    """Run scenario 12: a pod terminates while it has requests."""
    app = await environment.deploy(pods=2, timeout=20)
    leaving, staying = app.pods
    slow = [environment.start_request(app, SLOW) for _ in range(2)]
    await app.until_view(
        "each pod has a slow request", lambda view: all(pod["inFlight"] for pod in view["pods"])
    )
    app.terminate(leaving)

    def is_known(view: View) -> bool:
        return not any(pod["usable"] for pod in view["pods"] if pod["uid"] == leaving.uid)

    await app.until_view(f"the activator sends no request to {leaving.name}", is_known)
    before = (await leaving.counters())["requests"]
    responses = [await environment.request(app) for _ in range(5)]
    environment.expect(
        f"new requests go to {staying.name}",
        all(r.status == 200 and staying.name in r.body for r in responses),
        responses,
    )
    after = (await leaving.counters())["requests"]
    environment.expect(
        f"{leaving.name} gets no new request", after == before, f"{after - before} requests"
    )
    ended = await asyncio.gather(*slow)
    environment.expect(
        "the requests in flight finish", [r.status for r in ended] == [200, 200], ended
    )
    await leaving.until("stopped")
    environment.expect("at both pods", {_pod(r.body) for r in ended} == {"app-1", "app-2"}, ended)


def _pod(greeting: str) -> str:
    return greeting.removeprefix("Hello from ").partition(",")[0]


DRAIN = Scenario(
    12,
    "drain",
    "A pod terminates while it has requests",
    knative="lets the requests finish and sends the pod no others.",
    here="the same.",
    script=drain,
)
