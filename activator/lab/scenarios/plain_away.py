"""The API server or the scaler is away."""

from __future__ import annotations

import signal

from activator.lab.plain.environment import PlainEnvironment
from activator.lab.scenario import Scenario


async def api_server_away(environment: PlainEnvironment) -> None:
    """Run scenario 19: the API server is away while a Deployment sleeps and another is awake."""
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


API_SERVER_AWAY = Scenario(
    19,
    "plain-api-server-away",
    "The API server is away while one Deployment sleeps and another is awake",
    kubernetes="keeps the Service that is awake, and starts no pod.",
    here="the awake Service notices nothing; requests of the sleeping one wait until the server is "
    "back.",
    plain=api_server_away,
)


async def scaler_away(environment: PlainEnvironment) -> None:
    """Run scenario 20: the scaler is away while a Deployment sleeps and another is awake."""
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


SCALER_AWAY = Scenario(
    20,
    "plain-scaler-away",
    "The scaler is away while one Deployment sleeps and another is awake",
    kubernetes="has no scaler for requests of a Service without pods.",
    here="the awake Service notices nothing; requests of the sleeping one wait until there is "
    "a scaler, and the reason says so.",
    plain=scaler_away,
)
