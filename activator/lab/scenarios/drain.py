"""Scenario 12: a pod terminates while it has requests."""

from __future__ import annotations

import asyncio

from activator.lab.environment import Environment
from activator.lab.handles import View
from activator.lab.scenario import Scenario

SLOW = "/sleep?ms=1500"


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
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


SCENARIO = Scenario(
    12,
    "drain",
    "A pod terminates while it has requests",
    knative="lets the requests finish and sends the pod no others.",
    here="the same.",
    script=script,
)
