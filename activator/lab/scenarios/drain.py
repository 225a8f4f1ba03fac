"""Scenario 12: a pod is terminating while it has requests."""

from __future__ import annotations

import asyncio

from activator.lab.scenario import Scenario
from activator.lab.stage import Stage
from activator.lab.staged import View

SLOW = "/sleep?ms=1500"


async def script(stage: Stage) -> None:
    """Play it; see activator.lab.scenario."""
    app = await stage.deploy(pods=2, timeout=20)
    leaving, staying = app.pods
    slow = [stage.begin(app, SLOW) for _ in range(2)]
    await app.until_view(
        "each pod has a slow request", lambda view: all(pod["inFlight"] for pod in view["pods"])
    )
    app.terminate(leaving)

    def is_known(view: View) -> bool:
        return not any(pod["usable"] for pod in view["pods"] if pod["uid"] == leaving.uid)

    await app.until_view(f"uses {leaving.name} no more", is_known)
    before = (await leaving.counters())["requests"]
    replies = [await stage.ask(app) for _ in range(5)]
    stage.expect(
        f"new requests go to {staying.name}",
        all(r.status == 200 and staying.name in r.body for r in replies),
        replies,
    )
    after = (await leaving.counters())["requests"]
    stage.expect(f"{leaving.name} is sent none", after == before, f"{after - before} requests")
    ended = await asyncio.gather(*slow)
    stage.expect("what it had is finished", [r.status for r in ended] == [200, 200], ended)
    await leaving.until("stopped")
    stage.expect("by both pods", {_pod(r.body) for r in ended} == {"app-1", "app-2"}, ended)


def _pod(greeting: str) -> str:
    return greeting.removeprefix("Hello from ").partition(",")[0]


SCENARIO = Scenario(
    12,
    "drain",
    "A pod that has requests is terminating",
    knative="lets them finish and sends it no other.",
    ours="the same.",
    script=script,
)
