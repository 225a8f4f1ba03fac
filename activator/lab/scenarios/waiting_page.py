"""Scenario 26: a browser and a program send requests to a service without a pod."""

from __future__ import annotations

from activator.lab.client import ClientResponse
from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.scenario import Scenario

ANNOTATIONS = {
    "activator.dev/while-waiting": "page, refuse",
    "activator.dev/page-after-seconds": "0.5",
}
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
PEEK = {"Activator-Peek": "1"}


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    app = await environment.deploy(pods=0, timeout=30, annotations=ANNOTATIONS)
    page = await environment.request(app, headers=NAVIGATION)
    environment.expect("the browser gets a page", "<html" in page.body, page.body)
    environment.expect("with status 503", page.status == 503, page.status)
    environment.expect("which no cache keeps", page.headers.get("cache-control") == "no-store")
    refusal = await environment.request(app, method="POST", body=b"{}")
    environment.expect(
        "the program gets 503 at once",
        refusal.headers.get("activator-reason", "").startswith("wait-refused"),
        refusal,
    )
    environment.expect("with Retry-After", "retry-after" in refusal.headers, refusal)
    view = await app.view()
    environment.expect("no request waits", view["queued"] == 0, view["queued"])
    lease = view["whileWaiting"]["leaseSeconds"]
    environment.expect("both clients are expected back", lease > 0, lease)
    await _follow_the_start(environment, app)
    for response in (
        await environment.request(app, headers=NAVIGATION),
        await environment.request(app, method="POST", body=b"{}"),
    ):
        environment.expect("a pod responds to both", response.status == 200, response)


async def _follow_the_start(environment: Environment, app: AppHandle) -> None:
    """Ask as the page does, before a pod is listed and until one responds."""
    before = await _peek(environment, app)
    environment.expect(
        "the page learns that a pod was asked for",
        (before.status, before.headers.get("activator-phase")) == (503, "asked"),
        before,
    )
    app.start_pods(1)
    await app.until_view("its pod is usable", lambda view: view["capacity"] != 0)
    after = await _peek(environment, app)
    environment.expect("the page learns that it should reload", after.status == 200, after)


async def _peek(environment: Environment, app: AppHandle) -> ClientResponse:
    return await environment.request(app, method="HEAD", headers=PEEK)


SCENARIO = Scenario(
    26,
    "waiting-page",
    "A browser and a program send requests to a service without a pod",
    knative="lets both wait until a pod responds, or until the time-out.",
    here="the browser gets a page that follows the start. The program gets 503 with Retry-After. "
    "Both count as one request until they are back.",
    script=script,
)
