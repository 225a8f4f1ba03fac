"""Scenario 30: a pod without a concurrency limit slows down with too many requests."""

from __future__ import annotations

from activator.lab.environment import Environment
from activator.lab.handles import View
from activator.lab.scenario import Scenario

ANNOTATION = {"activator.dev/adaptive-concurrency": "on"}
#: Requests that the pod processes without delay, in a tenth of a second each.
ROOM = 20
CROWD = f"/crowd?ms=100&n={ROOM}"
#: Requests a second: what the pod processes easily, and more than it can process.
USUAL = 80
TOO_MANY = 350
#: The limit doubles from 4 on, until responses are slow: this value is above ROOM.
SLOW = 32
#: The limit may double once more, if many requests arrive before the first slow response.
MOST = 2 * SLOW


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(timeout=60, annotations=ANNOTATION)
    async with environment.load(app, USUAL, target=CROWD) as load:
        await load.more(40)
        view = await app.view()
    environment.expect("the API shows that the limit applies", view["adaptiveConcurrency"] == "on")
    async with environment.load(app, TOO_MANY, target=CROWD) as load:
        await app.until_view(
            "the limit of the pod falls, and requests wait in the activator",
            lambda view: _limit(view) < SLOW and view["queued"] > 0,
        )
    statuses = load.statuses("GET")
    environment.expect("no request is refused", list(statuses) == [200], statuses)
    most = (await app.pods[0].counters())["maxInFlight"]
    environment.expect(f"the pod never had more than {MOST}", most <= MOST, most)


def _limit(view: View) -> int:
    limit: int = view["pods"][0]["adaptiveLimit"]
    return limit


SCENARIO = Scenario(
    30,
    "adaptive-limit",
    "A pod without a concurrency limit gets more requests than it can process",
    knative="sends all requests to the pod, which then finishes fewer than before.",
    here="finds the limit by the pod's response times. The rest waits in the activator, and no "
    "request is refused.",
    script=script,
)
