"""Scenario 24: sessions stay on their pods while pods come and go."""

from __future__ import annotations

import asyncio

from activator.lab.client import ClientResponse
from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.scenario import Scenario
from activator.lab.timeline import Who

CLIENTS = 24
ANNOTATION = {"activator.dev/sticky": "cookie"}


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(pods=3, annotations=ANNOTATION, timeout=20)
    first = await _visit(environment, app, [""] * CLIENTS)
    cookies = [each.headers.get("set-cookie", "").partition(";")[0] for each in first]
    environment.expect(
        "each client gets a cookie", all(each.startswith("activator-pod=") for each in cookies)
    )
    addresses = [pod.options.address for pod in app.pods]
    environment.expect(
        "which names no address",
        not any(address in cookie for address in addresses for cookie in cookies),
    )
    again = await _visit(environment, app, cookies)
    environment.expect("each client reaches its pod again", _pods(again) == _pods(first))

    app.start_pods(1)
    await app.until_view("a fourth pod is usable", lambda view: _usable(view["pods"]) == 4)
    more = await _visit(environment, app, cookies)
    environment.expect("no client moves to the new pod", _pods(more) == _pods(first))

    gone = app.pods[0]
    app.terminate(gone)
    await app.until_view("one pod is gone", lambda view: _usable(view["pods"]) == 3)
    last = await _visit(environment, app, cookies)
    stayed = [old == new for old, new in zip(_pods(first), _pods(last), strict=True)]
    environment.expect(
        "only the clients of the pod that is gone move",
        all(same or old == gone.name for same, old in zip(stayed, _pods(first), strict=True)),
        f"{stayed.count(False)} of {CLIENTS} moved",
    )
    environment.expect(
        "and they get another cookie",
        all(
            same or response.headers.get("set-cookie", "").startswith("activator-pod=")
            for same, response in zip(stayed, last, strict=True)
        ),
    )


async def _visit(
    environment: Environment, app: AppHandle, cookies: list[str]
) -> list[ClientResponse]:
    """Send one request of each client; a client without a cookie sends none."""
    environment.note(Who.CLIENT, f"{len(cookies)} clients send a request each")
    responses = await asyncio.gather(
        *(environment.request(app, headers={"Cookie": each or "theme=dark"}) for each in cookies)
    )
    served = [response.status for response in responses]
    environment.expect("each client gets 200", served == [200] * len(cookies), set(served))
    return responses


def _pods(responses: list[ClientResponse]) -> list[str]:
    """Return the name of the pod that sent each response."""
    return [response.body.removeprefix("Hello from ").partition(",")[0] for response in responses]


def _usable(pods: list[dict[str, object]]) -> int:
    return sum(pod["usable"] is True for pod in pods)


SCENARIO = Scenario(
    24,
    "sticky-sessions",
    "Sessions stay on their pods while pods come and go",
    knative="has no sticky sessions: each request goes to any pod.",
    here="keeps each client on its pod by a cookie; only the clients of a lost pod move.",
    script=script,
)
