"""Scenario 19: the API server is away while a Deployment sleeps and another is awake."""

from __future__ import annotations

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    awake = await environment.deploy("awake", replicas=1)
    asleep = await environment.deploy("asleep")
    async with base.load(awake, rate=50) as load:
        environment.cut_api_server()
        waiting = base.start_request(asleep)
        await asleep.until_view("a request waits", lambda view: view["queued"] == 1)
        await load.more(50)
        base.expect("no pod can start", asleep.replicas == 0, asleep.replicas)
        environment.restore_api_server()
        response = await waiting
        await load.more(10)
    base.expect("the request waits until the server is back", response.status == 200, response)
    statuses = load.statuses("GET")
    base.expect("the other Service notices nothing", set(statuses) == {200}, statuses)


SCENARIO = Scenario(
    19,
    "plain-api-server-away",
    "The API server is away while one Deployment sleeps and another is awake",
    knative="",
    kubernetes="keeps the Service that is awake, and starts no pod.",
    here="the awake Service notices nothing; requests of the sleeping one wait until the server is "
    "back.",
    plain=script,
)
