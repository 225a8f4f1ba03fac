"""Policies: many clients share pods, and requests reach a service without a pod."""

from __future__ import annotations

import asyncio
from asyncio import Task

from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.http1 import Connection, HttpRequest, HttpResponse, HttpServer
from activator.lab.programs import ClientResponse, served_by
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
    lab.expect("each client reaches its pod again", served_by(again) == served_by(first))

    app.start_pods(1)
    await app.until_usable(4, "a fourth pod is usable")
    more = await _visit(lab, app, cookies)
    lab.expect("no client moves to the new pod", served_by(more) == served_by(first))

    gone = app.pods[0]
    gone.terminate()
    await app.until_usable(3, "one pod is gone")
    last = await _visit(lab, app, cookies)
    stayed = [old == new for old, new in zip(served_by(first), served_by(last), strict=True)]
    lab.expect(
        "only the clients of the pod that is gone move",
        all(same or old == gone.name for same, old in zip(stayed, served_by(first), strict=True)),
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
    lab.expect_all_200("each client gets 200", responses)
    return responses


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
            lambda view: view["pods"][0]["adaptiveLimit"] < SLOW_FROM and view["queued"] > 0,
        )
    statuses = load.statuses("GET")
    lab.expect("no request is refused", list(statuses) == [200], statuses)
    most = (await app.pods[0].counters())["maxInFlight"]
    lab.expect(f"the pod never had more than {MOST}", most <= MOST, most)


PAGE = {"activator.dev/while-waiting": "page, refuse", "activator.dev/page-after-seconds": "0.5"}
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
PEEK = {"Activator-Peek": "1"}


@scenario(26, "waiting-page")
async def waiting_page(lab: Environment) -> None:
    """A browser and a program send requests to a service without a pod.

    Knative: lets both wait until a pod responds, or until the time-out.

    Here: the browser gets a page that follows the start. The program gets 503 with Retry-After.
    Both count as one request until they are back.
    """
    app = await lab.deploy(pods=0, timeout=30, annotations=PAGE)
    page = await lab.request(app, headers=NAVIGATION)
    lab.expect("the browser gets a page", "<html" in page.body, page.body)
    lab.expect_equal("with status 503", page.status, 503)
    lab.expect("which no cache keeps", page.headers.get("cache-control") == "no-store")
    refusal = await lab.request(app, method="POST", body=b"{}")
    lab.expect(
        "the program gets 503 at once",
        refusal.headers.get("activator-reason", "").startswith("wait-refused"),
        refusal,
    )
    lab.expect("with Retry-After", "retry-after" in refusal.headers, refusal)
    view = await app.view()
    lab.expect_equal("no request waits", view["queued"], 0)
    lease = view["whileWaiting"]["leaseSeconds"]
    lab.expect("both clients are expected back", lease > 0, lease)
    await _follow_the_start(lab, app)
    for response in (
        await lab.request(app, headers=NAVIGATION),
        await lab.request(app, method="POST", body=b"{}"),
    ):
        lab.expect_200("a pod responds to both", response)


async def _follow_the_start(lab: Environment, app: AppHandle) -> None:
    """Ask as the page does, before a pod is listed and until one responds."""
    before = await _peek(lab, app)
    what = "the page learns that a pod was asked for"
    lab.expect_response(what, before, 503, activator_phase="asked")
    app.start_pods(1)
    await app.until_view("its pod is usable", lambda view: view["capacity"] != 0)
    lab.expect_200("the page learns that it should reload", await _peek(lab, app))


async def _peek(lab: Environment, app: AppHandle) -> ClientResponse:
    return await lab.request(app, method="HEAD", headers=PEEK)


MONITOR = {"User-Agent": "Prometheus/3.5.0"}
PASSWORD = {"Authorization": "Bearer secret"}
_DENIED = HttpResponse(401, headers=(("WWW-Authenticate", "Bearer"),))


@scenario(27, "wake-rules")
async def wake_rules(lab: Environment) -> None:
    """A monitor, a stranger and a user send requests to a service without a pod.

    Knative: starts a pod for each of them.

    Here: only the user's request starts a pod. The monitor gets 503 and the stranger 401 at
    once. With a pod, all are served.
    """
    decisions: list[bool] = []

    async def decide(request: HttpRequest, connection: Connection) -> None:
        """Allow one password."""
        decisions.append(request.header("authorization") == PASSWORD["Authorization"])
        await connection.send(request, HttpResponse(204) if decisions[-1] else _DENIED)

    server = HttpServer(decide)
    await server.start("127.0.0.1", 0)
    try:
        annotations = {
            "activator.dev/wake-not-user-agents": "Prometheus,kube-probe",
            "activator.dev/wake-not-paths": "/status",
            "activator.dev/auth-url": f"http://127.0.0.1:{server.port}/check",
        }
        app = await lab.deploy(pods=0, timeout=30, annotations=annotations)
        await _keep_asleep(lab, app)
        lab.expect_equal("the server decided about two requests only", len(decisions), 2)
        await _wake(lab, app)
    finally:
        server.close()


async def _keep_asleep(lab: Environment, app: AppHandle) -> None:
    """Send requests that must not start a pod."""
    rules = {
        "User-Agent Prometheus": ("/", MONITOR),
        "the path /status": ("/status?code=200", PASSWORD),
    }
    for name, (target, headers) in rules.items():
        asleep = await lab.request(app, target, headers=headers)
        lab.expect_response(f"{name} gets 503 asleep", asleep, 503, activator_reason="asleep")
    strangers = {"no password": {}, "a wrong password": {"Authorization": "Bearer wrong"}}
    for name, headers in strangers.items():
        denied = await lab.request(app, headers=headers)
        lab.expect_response(f"{name} gets 401", denied, 401, www_authenticate="Bearer")
    view = await app.view()
    lab.expect_equal("no request waits", view["queued"], 0)
    lab.expect("no cold start began", not view["coldStarts"], view["coldStarts"])


async def _wake(lab: Environment, app: AppHandle) -> None:
    """Send a request that may wait, then others that need not."""
    waiting = lab.start_request(app, headers=PASSWORD)
    await app.until_view("the request with a password waits", lambda view: view["queued"] == 1)
    app.start_pods(1)
    lab.expect_200("the new pod serves it", await waiting)
    for _ in range(3):
        monitor = await lab.request(app, headers=MONITOR)
        lab.expect_200("now the monitor is served, too", monitor)
    agents = (await app.view())["keptAwakeBy"]
    lab.expect_equal("the monitor does not keep the service awake", agents, [])


PATH = "/echo"


@scenario(28, "admission")
async def admission(lab: Environment) -> None:
    """A proxy asks for a pod of a service without one, and sends the request to it.

    Knative: has no port for proxies that ask.

    Here: the proxy waits until the pod is healthy, and learns its address. The request does not
    pass the activator.
    """
    app = await lab.deploy(pods=0, timeout=30)
    port = lab.activator.admission

    def described(host: str) -> dict[str, str]:
        """Return the fields of nginx's request."""
        return {"Host": "activator", "X-Original-URL": f"http://{host}{PATH}"}

    unknown = await lab.request(app, headers=described("unknown.example"), where=port)
    lab.expect("an unknown host gets 404", unknown.status == 404, unknown)
    asking = lab.start_request(
        app, headers=described(f"{app.name}.default.svc.cluster.local"), where=port
    )
    await app.until_view("the proxy waits", lambda view: view["queued"] == 1)
    (pod,) = app.start_pods(1)
    response = await asking
    address = response.headers.get("activator-pod", "")
    lab.expect_200("the proxy gets 200", response)
    host, _, number = address.rpartition(":")
    lab.expect("with the address of the pod", host == pod.process.options.address, address)
    counters = await pod.counters()
    lab.expect("the pod has no request yet", not counters["requests"], counters)
    served = await lab.request(app, PATH, where=(host, int(number)))
    lab.expect_200("it serves the proxy's request", served)


STREAM = {
    "activator.dev/profile": "openai",
    "activator.dev/heartbeat-seconds": "1",
    "activator.dev/wait-seconds": "60",
}
ACCEPT = {"Accept": "text/event-stream"}
JSON = {"Accept": "application/json"}
MODELS = "/v1/models"


@scenario(29, "event-stream")
async def event_stream(lab: Environment) -> None:
    """Clients of event streams send requests to a service without a pod.

    Knative: sends no byte until a pod responds. The time-out covers wait and response.

    Here: the client gets comments while the model loads, then the events of the pod. Polls for
    models start no pod, and get the last list.
    """
    app = await lab.deploy(pods=0, timeout=2, annotations=STREAM)
    poll = await lab.request(app, MODELS, headers=JSON)
    lab.expect("a poll starts no pod", poll.status == 503, poll)
    lab.expect("its error has the form of OpenAI", '{"error":{' in poll.body, poll.body)

    waiting = lab.start_request(app, "/events?n=2", headers=ACCEPT)
    await app.until_view(
        "the client has the head of the stream",
        lambda view: view["whileWaiting"]["earlyHeads"] == 1,
    )
    await app.until_view(
        "it waits for longer than the time-out",
        lambda view: view["oldestWaiterSeconds"] is not None and view["oldestWaiterSeconds"] > 2.2,
    )
    (pod,) = app.start_pods(1)
    stream = await waiting
    lab.expect_200("the stream has status 200", stream)
    lab.expect("comments came before the pod", ": waiting reason=" in stream.body, stream.body)
    lab.expect("and its events followed", "line 2" in stream.body, stream.body)
    lab.expect("without an error", "event: error" not in stream.body, stream.body)

    models = await lab.request(app, MODELS, headers=JSON)
    lab.expect("the pod lists its models", '"echo"' in models.body, models)
    pod.terminate()
    await app.until_view("the service sleeps again", lambda view: not view["pods"])
    kept = await lab.request(app, MODELS, headers=JSON)
    lab.expect("the list stays while the service sleeps", '"echo"' in kept.body, kept)
