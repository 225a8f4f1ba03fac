"""Scenario 25: a greedy tenant, a modest tenant and an urgent request share one small service."""

from __future__ import annotations

import asyncio
from asyncio import Task

from activator.lab.client import ClientResponse
from activator.lab.environment import Environment
from activator.lab.scenario import Scenario

ANNOTATIONS = {
    "activator.dev/priority-trust": "true",
    "activator.dev/fair-by": "header:X-Tenant",
    "activator.dev/fair-names": "true",
}
#: Each request takes long enough for all others to arrive meanwhile.
SLOW = "/sleep?ms=100"
GREEDY = 20
MODEST = 3
#: A request of the modest tenant waits for the one in flight, and for one turn of the other tenant.
MOST_BEFORE = 3


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(container_concurrency=1, timeout=60, annotations=ANNOTATIONS)
    order: list[str] = []

    def send(name: str, **headers: str) -> Task[ClientResponse]:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        # The pod ignores the name; it shows in the timeline.
        task = environment.start_request(app, f"{SLOW}&from={name}", headers=fields)
        task.add_done_callback(lambda _: order.append(name))
        return task

    greedy = [send("greedy", X_Tenant="greedy") for _ in range(GREEDY)]
    await app.until_view("the greedy tenant waits", lambda view: view["queued"] >= GREEDY - 5)
    view = await app.view()
    largest = view["queueOrder"]["largestFlows"]
    environment.expect("the API names the tenant", largest[0]["flow"] == "greedy", largest)
    for _ in range(MODEST):
        before = len(order)
        response = await send("modest", X_Tenant="modest")
        others = order[before:].count("greedy")
        environment.expect("the modest tenant gets a response", response.status == 200, response)
        environment.expect(
            f"at most {MOST_BEFORE} requests of the greedy one go first",
            others <= MOST_BEFORE,
            f"{others} requests",
        )
    late = [
        send("low", X_Tenant="modest", Activator_Priority="low"),
        send("high", X_Tenant="greedy", Activator_Priority="high"),
    ]
    await app.until_view(
        "both classes wait",
        lambda view: all(view["queueOrder"]["queuedByClass"][name] for name in ("low", "normal")),
    )
    await asyncio.gather(*late, *greedy)
    environment.expect("the urgent request goes before the rest", _first(order, "high"), order)
    environment.expect("the request of class low goes last", order[-1] == "low", order)


def _first(order: list[str], name: str) -> bool:
    """Return whether a request ended while requests of the greedy tenant still waited."""
    return order[order.index(name) :].count("greedy") > GREEDY // 4


SCENARIO = Scenario(
    25,
    "fair-queue",
    "One tenant sends 20 requests at once, another one and an urgent request come later",
    knative="serves them in order of arrival, so the others wait for all 20.",
    here="the other tenant waits for a few requests only, the urgent one for the request in "
    "flight, and a request of class low comes last.",
    script=script,
)
