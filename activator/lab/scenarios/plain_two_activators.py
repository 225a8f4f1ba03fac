"""Scenario 31: two activators send requests to one pod with a concurrency limit of 1."""

from __future__ import annotations

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario

#: Requests a second at each activator, and the milliseconds that each of them takes.
RATE = 15
TARGET = "/sleep?ms=25"
LIMIT = {"container-concurrency": "1", "owner": "none"}


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    web = await environment.deploy(replicas=1, annotations=LIMIT)
    second = await environment.start_second()
    await web.until_view(
        "the first activator knows the second one", lambda view: view["activatorCount"] == 2
    )
    async with (
        base.load(web, RATE, target=TARGET) as load,
        base.load(web, RATE, where=second.traffic, target=TARGET) as other,
    ):
        await load.more(2 * RATE)
        await other.more(2 * RATE)
    for one, name in ((load, "first"), (other, "second")):
        statuses = one.statuses("GET")
        base.expect(
            f"each request to the {name} activator gets 200", set(statuses) == {200}, statuses
        )
    most = (await web.pods[0].counters())["maxInFlight"]
    base.expect("the pod never had two requests at once", most == 1, most)


SCENARIO = Scenario(
    31,
    "plain-two-activators",
    "Two activators before one pod with container-concurrency 1",
    knative="",
    kubernetes="limits no requests: the pod gets all of them at once.",
    here="the activator that owns the pod sends it one request at a time; the other one sends its "
    "requests to the owner.",
    plain=script,
)
