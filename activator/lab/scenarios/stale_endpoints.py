"""Scenario 9: Endpoints goes on listing a pod that is being killed."""

from __future__ import annotations

import time

from activator.lab.checks import Container, Probes
from activator.lab.kubelet import Step
from activator.lab.load import Load
from activator.lab.scenario import Scenario
from activator.lab.stage import Stage
from activator.lab.staged import StagePod, View

#: Ten times as fast as in the cluster: checks 5 s apart, 30 s of grace and one for the start.
PROBES = Probes(0.5, liveness=Container.WHOLE, restart_after=3.1)
CONCURRENCY = 10


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    app = await stage.deploy(pods=3, probes=PROBES, container_concurrency=CONCURRENCY, timeout=20)
    pod = app.pods[0]
    pod.hold(Step.RESTART)
    async with stage.load(app, rate=40) as load:
        await pod.until("answered")
        await pod.switch("Live", "its liveness probe begins to fail")
        await pod.until("killing")
        died = time.monotonic()
        view = await app.until_view(
            f"{pod.name} is ready for Kubernetes, fails our own probe, and waits",
            lambda view: _is_doubted(_of(view, pod)),
        )
        left = view["capacity"]
        stage.expect("what is left is the capacity of two pods", left == 2 * CONCURRENCY, left)
        await load.more(40)
        stage.expect("Kubernetes lists it as ready all the while", pod.listed_ready)
        pod.let(Step.RESTART)
        await pod.until("restarted")
        dead = time.monotonic() - died
        seen = pod.count("answered")
        await pod.until("ready", 2)
        await app.until_view(f"uses {pod.name} again", lambda view: _of(view, pod)["usable"])
        await pod.until("answered", seen + 3)
    _check_load(stage, load, dead)


def _of(view: View, pod: StagePod) -> View:
    found: View = next(each for each in view["pods"] if each["uid"] == pod.uid)
    return found


def _is_doubted(pod: View) -> bool:
    said = [pod[key] for key in ("kubernetes", "probe", "decision", "decidedBy")]
    return said == ["ready", "failed", "wait", "probe-failed"]


def _check_load(stage: Stage, load: Load, dead: float) -> None:
    """Check that no request waited for the pod, which was dead for so many seconds."""
    gets = load.statuses("GET")
    stage.expect("each request is answered 200", set(gets) == {200}, gets)
    slowest = max(reply.took for reply in load.replies["GET"])
    soon = dead / 2
    stage.expect(f"and none waits for {soon:.1f} s", slowest < soon, f"{slowest:.2f} s")


SCENARIO = Scenario(
    9,
    "stale-endpoints",
    "Liveness fails among three pods, which Endpoints lists all the while (ten times as fast)",
    knative="and whoever trusts Endpoints sends a third of all requests to a dead container for "
    "31 s: the address goes when the new container has started.",
    ours="after the first refused connection the pod takes no request until our own probe passes; "
    "no caller sees an error.",
    script=script,
)
