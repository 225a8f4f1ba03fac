"""Scenario 20: the scaler is away while a Deployment sleeps and another is awake."""

from __future__ import annotations

import signal

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario


async def script(environment: PlainEnvironment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    base = environment.base
    awake = await environment.deploy("awake", replicas=1)
    asleep = await environment.deploy("asleep")
    async with base.load(awake, rate=50) as load:
        await environment.stop_scaler(signal.SIGTERM)
        waiting = base.start_request(asleep)
        view = await asleep.until_view(
            "a request waits, because the scaler cannot be reached",
            lambda view: view["reason"] == "scaler-unreachable",
        )
        base.expect("one request waits", view["queued"] == 1, view["queued"])
        await load.more(20)
        await environment.start_scaler()
        response = await waiting
        await load.more(10)
    base.expect("it waits until there is a scaler again", response.status == 200, response)
    statuses = load.statuses("GET")
    base.expect("the other Service notices nothing", set(statuses) == {200}, statuses)


SCENARIO = Scenario(
    20,
    "plain-scaler-away",
    "The scaler is away while one Deployment sleeps and another is awake",
    knative="",
    kubernetes="has no scaler for requests of a Service without pods.",
    here="the awake Service notices nothing; requests of the sleeping one wait until there is "
    "a scaler, and the reason says so.",
    plain=script,
)
