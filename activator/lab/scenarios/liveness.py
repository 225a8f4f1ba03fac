"""Scenario 2: the only container restarts, and its queue-proxy cannot detect that."""

from __future__ import annotations

from dataclasses import replace

from activator.lab.checks import Container
from activator.lab.environment import QUICK, Environment
from activator.lab.kubelet import Step
from activator.lab.scenario import Scenario


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    probes = replace(QUICK, liveness=Container.APPLICATION, restart_after=0.5)
    app = await environment.deploy(probes=probes, pod={"blind": True}, timeout=20)
    (pod,) = app.pods
    pod.pause(Step.RESTART)
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
        pod.resume(Step.RESTART)
        await pod.until("restarted")
        await load.more(20)
    gets = load.statuses("GET")
    environment.expect("each GET gets 200 in the end", set(gets) == {200}, gets)
    _check_post(environment, (await post).status, await pod.counters())


def _check_post(environment: Environment, status: int, counters: dict[str, object]) -> None:
    twice = counters["postsSeenTwice"]
    environment.expect("no POST reaches a pod twice", twice == [], twice)
    environment.expect("a POST gets the pod's response, or its 502", status in (200, 502), status)


SCENARIO = Scenario(
    2,
    "liveness",
    "An exec liveness probe fails, and the only container restarts",
    knative="passes on 502 connection refused for the 5 s of the restart; it does not probe a "
    "healthy pod again.",
    here="a GET that did not reach the application returns to the front of the queue, and gets "
    "its response after the restart. A POST is never sent twice.",
    script=script,
)
