"""Many clients share the pods of one service."""

from __future__ import annotations

import asyncio
from asyncio import Task

from activator.lab.environment import Environment
from activator.lab.handles import AppHandle, View
from activator.lab.programs import ClientResponse
from activator.lab.scenario import scenario
from activator.lab.timeline import Who

CLIENTS = 24
STICKY = {"activator.dev/sticky": "cookie"}


@scenario(24, "sticky-sessions")
async def sticky_sessions(lab: Environment) -> None:
    """Sessions stay on their pods while pods come and go.

    Knative: has no sticky sessions: each request goes to any pod.

    Here: keeps each client on its pod by a cookie; only the clients of a lost pod move.
    """
    app = await lab.deploy(pods=3, annotations=STICKY, timeout=20)
    first = await _visit(lab, app, [""] * CLIENTS)
    cookies = [each.headers.get("set-cookie", "").partition(";")[0] for each in first]
    lab.expect(
        "each client gets a cookie", all(each.startswith("activator-pod=") for each in cookies)
    )
    addresses = [pod.process.options.address for pod in app.pods]
    lab.expect(
        "which names no address",
        not any(address in cookie for address in addresses for cookie in cookies),
    )
    again = await _visit(lab, app, cookies)
    lab.expect("each client reaches its pod again", _pods(again) == _pods(first))

    app.start_pods(1)
    await app.until_view("a fourth pod is usable", lambda view: _usable(view["pods"]) == 4)
    more = await _visit(lab, app, cookies)
    lab.expect("no client moves to the new pod", _pods(more) == _pods(first))

    gone = app.pods[0]
    gone.terminate()
    await app.until_view("one pod is gone", lambda view: _usable(view["pods"]) == 3)
    last = await _visit(lab, app, cookies)
    stayed = [old == new for old, new in zip(_pods(first), _pods(last), strict=True)]
    lab.expect(
        "only the clients of the pod that is gone move",
        all(same or old == gone.name for same, old in zip(stayed, _pods(first), strict=True)),
        f"{stayed.count(False)} of {CLIENTS} moved",
    )
    lab.expect(
        "and they get another cookie",
        all(
            same or response.headers.get("set-cookie", "").startswith("activator-pod=")
            for same, response in zip(stayed, last, strict=True)
        ),
    )


async def _visit(lab: Environment, app: AppHandle, cookies: list[str]) -> list[ClientResponse]:
    """Send one request of each client; a client without a cookie sends none."""
    lab.note(Who.CLIENT, f"{len(cookies)} clients send a request each")
    responses = await asyncio.gather(
        *(lab.request(app, headers={"Cookie": each or "theme=dark"}) for each in cookies)
    )
    served = [response.status for response in responses]
    lab.expect("each client gets 200", served == [200] * len(cookies), set(served))
    return responses


def _pods(responses: list[ClientResponse]) -> list[str]:
    """Return the name of the pod that sent each response."""
    return [response.body.removeprefix("Hello from ").partition(",")[0] for response in responses]


def _usable(pods: list[dict[str, object]]) -> int:
    return sum(pod["usable"] is True for pod in pods)


TENANTS = {
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


@scenario(25, "fair-queue")
async def fair_queue(lab: Environment) -> None:
    """One tenant sends 20 requests at once, another one and an urgent request come later.

    Knative: serves them in order of arrival, so the others wait for all 20.

    Here: the other tenant waits for a few requests only, the urgent one for the request in
    flight, and a request of class low comes last.
    """
    app = await lab.deploy(container_concurrency=1, timeout=60, annotations=TENANTS)
    order: list[str] = []

    def send(name: str, **headers: str) -> Task[ClientResponse]:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        # The pod ignores the name; it shows in the timeline.
        task = lab.start_request(app, f"{SLOW}&from={name}", headers=fields)
        task.add_done_callback(lambda _: order.append(name))
        return task

    greedy = [send("greedy", X_Tenant="greedy") for _ in range(GREEDY)]
    await app.until_view("the greedy tenant waits", lambda view: view["queued"] >= GREEDY - 5)
    view = await app.view()
    largest = view["queueOrder"]["largestFlows"]
    lab.expect("the API names the tenant", largest[0]["flow"] == "greedy", largest)
    for _ in range(MODEST):
        before = len(order)
        response = await send("modest", X_Tenant="modest")
        others = order[before:].count("greedy")
        lab.expect_200("the modest tenant gets a response", response)
        lab.expect(
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
    lab.expect("the urgent request goes before the rest", _first(order, "high"), order)
    lab.expect("the request of class low goes last", order[-1] == "low", order)


def _first(order: list[str], name: str) -> bool:
    """Return whether a request ended while requests of the greedy tenant still waited."""
    return order[order.index(name) :].count("greedy") > GREEDY // 4


ADAPTIVE = {"activator.dev/adaptive-concurrency": "on"}
#: Requests that the pod processes without delay, in a tenth of a second each.
ROOM = 20
CROWD = f"/crowd?ms=100&n={ROOM}"
#: Requests a second: what the pod processes easily, and more than it can process.
USUAL = 80
TOO_MANY = 350
#: The limit doubles from 4 on, until responses are slow: this value is above ROOM.
SLOW_FROM = 32
#: The limit may double once more, if many requests arrive before the first slow response.
MOST = 2 * SLOW_FROM


@scenario(30, "adaptive-limit")
async def adaptive_limit(lab: Environment) -> None:
    """A pod without a concurrency limit gets more requests than it can process.

    Knative: sends all requests to the pod, which then finishes fewer than before.

    Here: finds the limit by the pod's response times. The rest waits in the activator, and no
    request is refused.
    """
    app = await lab.deploy(timeout=60, annotations=ADAPTIVE)
    async with lab.load(app, USUAL, target=CROWD) as load:
        await load.more(40)
        view = await app.view()
    lab.expect("the API shows that the limit applies", view["adaptiveConcurrency"] == "on")
    async with lab.load(app, TOO_MANY, target=CROWD) as load:
        await app.until_view(
            "the limit of the pod falls, and requests wait in the activator",
            lambda view: _limit(view) < SLOW_FROM and view["queued"] > 0,
        )
    statuses = load.statuses("GET")
    lab.expect("no request is refused", list(statuses) == [200], statuses)
    most = (await app.pods[0].counters())["maxInFlight"]
    lab.expect(f"the pod never had more than {MOST}", most <= MOST, most)


def _limit(view: View) -> int:
    limit: int = view["pods"][0]["adaptiveLimit"]
    return limit
