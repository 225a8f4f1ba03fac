"""What a service without a pod does with requests."""

from __future__ import annotations

import asyncio

from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.programs import ClientResponse
from activator.lab.scenario import scenario

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
    lab.expect(
        "the page learns that a pod was asked for",
        (before.status, before.headers.get("activator-phase")) == (503, "asked"),
        before,
    )
    app.start_pods(1)
    await app.until_view("its pod is usable", lambda view: view["capacity"] != 0)
    lab.expect_200("the page learns that it should reload", await _peek(lab, app))


async def _peek(lab: Environment, app: AppHandle) -> ClientResponse:
    return await lab.request(app, method="HEAD", headers=PEEK)


MONITOR = {"User-Agent": "Prometheus/3.5.0"}
PASSWORD = {"Authorization": "Bearer secret"}
_ALLOWED = b"HTTP/1.1 204 No Content\r\n\r\n"
_DENIED = b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"


class PasswordServer:
    """A server that allows one password.

    Attributes:
        requests: how many it has decided about.
    """

    def __init__(self) -> None:
        self.requests = 0

    async def decide(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to each request of a connection."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests += 1
                writer.write(
                    _ALLOWED if b"\r\nauthorization: bearer secret" in head.lower() else _DENIED
                )
        except asyncio.IncompleteReadError:
            writer.close()


@scenario(27, "wake-rules")
async def wake_rules(lab: Environment) -> None:
    """A monitor, a stranger and a user send requests to a service without a pod.

    Knative: starts a pod for each of them.

    Here: only the user's request starts a pod. The monitor gets 503 and the stranger 401 at
    once. With a pod, all are served.
    """
    deciding = PasswordServer()
    server = await asyncio.start_server(deciding.decide, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        annotations = {
            "activator.dev/wake-not-user-agents": "Prometheus,kube-probe",
            "activator.dev/wake-not-paths": "/status",
            "activator.dev/auth-url": f"http://127.0.0.1:{port}/check",
        }
        app = await lab.deploy(pods=0, timeout=30, annotations=annotations)
        await _keep_asleep(lab, app)
        lab.expect_equal("the server decided about two requests only", deciding.requests, 2)
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
        got = asleep.status, asleep.headers.get("activator-reason")
        lab.expect(f"{name} gets 503 asleep", got == (503, "asleep"), asleep)
    strangers = {"no password": {}, "a wrong password": {"Authorization": "Bearer wrong"}}
    for name, headers in strangers.items():
        denied = await lab.request(app, headers=headers)
        challenge = denied.headers.get("www-authenticate")
        lab.expect(f"{name} gets 401", (denied.status, challenge) == (401, "Bearer"), denied)
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
