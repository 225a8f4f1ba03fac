"""Scenario 9: Endpoints still lists a pod that kubelet is killing."""

from __future__ import annotations

import time

from activator.lab.checks import Container, Probes
from activator.lab.environment import Environment
from activator.lab.handles import PodHandle, View
from activator.lab.kubelet import Step
from activator.lab.load import Load
from activator.lab.scenario import Scenario

#: Ten times as fast as in a cluster with checks every 5 s, 30 s of grace and 1 s for the start.
PROBES = Probes(0.5, liveness=Container.WHOLE, restart_after=3.1)
CONCURRENCY = 10


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(
        pods=3, probes=PROBES, container_concurrency=CONCURRENCY, timeout=20
    )
    pod = app.pods[0]
    pod.pause(Step.RESTART)
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
        pod.resume(Step.RESTART)
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


def _check_load(environment: Environment, load: Load, dead: float) -> None:
    """Check that no request waited while the pod was dead, for so many seconds."""
    gets = load.statuses("GET")
    environment.expect("each request gets 200", set(gets) == {200}, gets)
    slowest = max(response.took for response in load.responses["GET"])
    soon = dead / 2
    environment.expect(f"and none waits for {soon:.1f} s", slowest < soon, f"{slowest:.2f} s")


SCENARIO = Scenario(
    9,
    "stale-endpoints",
    "Liveness of one of three pods fails; Endpoints still lists it (ten times as fast)",
    knative="sends a third of all requests to a dead container for 31 s: Endpoints removes the "
    "address when the new container has started.",
    here="after the first refused connection, the pod gets no request until the activator's probe "
    "passes; no client sees an error.",
    script=script,
)
