"""Scenario 27: monitors and strangers send requests to a service that sleeps."""

from __future__ import annotations

import asyncio

from activator.lab.environment import Environment
from activator.lab.handles import AppHandle
from activator.lab.scenario import Scenario

MONITOR = {"User-Agent": "Prometheus/3.5.0"}
PASSWORD = {"Authorization": "Bearer secret"}
_ALLOWED = b"HTTP/1.1 204 No Content\r\n\r\n"
_DENIED = b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n"


class AuthorizationServer:
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


async def script(environment: Environment) -> None:
    """Run the scenario; see activator.lab.scenario."""
    deciding = AuthorizationServer()
    server = await asyncio.start_server(deciding.decide, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        annotations = {
            "activator.dev/wake-not-user-agents": "Prometheus,kube-probe",
            "activator.dev/wake-not-paths": "/status",
            "activator.dev/auth-url": f"http://127.0.0.1:{port}/check",
        }
        app = await environment.deploy(pods=0, timeout=30, annotations=annotations)
        await _keep_asleep(environment, app)
        environment.expect(
            "the server decided about two requests only", deciding.requests == 2, deciding.requests
        )
        await _wake(environment, app)
    finally:
        server.close()


async def _keep_asleep(environment: Environment, app: AppHandle) -> None:
    """Send requests that must not start a pod."""
    rules = {
        "User-Agent Prometheus": ("/", MONITOR),
        "the path /status": ("/status?code=200", PASSWORD),
    }
    for name, (target, headers) in rules.items():
        asleep = await environment.request(app, target, headers=headers)
        got = asleep.status, asleep.headers.get("activator-reason")
        environment.expect(f"{name} gets 503 asleep", got == (503, "asleep"), asleep)
    strangers = {"no password": {}, "a wrong password": {"Authorization": "Bearer wrong"}}
    for name, headers in strangers.items():
        denied = await environment.request(app, headers=headers)
        challenge = denied.headers.get("www-authenticate")
        environment.expect(
            f"{name} gets 401", (denied.status, challenge) == (401, "Bearer"), denied
        )
    view = await app.view()
    environment.expect("no request waits", view["queued"] == 0, view["queued"])
    environment.expect("no cold start began", not view["coldStarts"], view["coldStarts"])


async def _wake(environment: Environment, app: AppHandle) -> None:
    """Send a request that may wait, then others that need not."""
    waiting = environment.start_request(app, headers=PASSWORD)
    await app.until_view("the request with a password waits", lambda view: view["queued"] == 1)
    app.start_pods(1)
    response = await waiting
    environment.expect("the new pod serves it", response.status == 200, response)
    for _ in range(3):
        monitor = await environment.request(app, headers=MONITOR)
        environment.expect("now the monitor is served, too", monitor.status == 200, monitor)
    agents = (await app.view())["keptAwakeBy"]
    environment.expect("the monitor does not keep the service awake", agents == [], agents)


SCENARIO = Scenario(
    27,
    "wake-rules",
    "A monitor, a stranger and a user send requests to a service without a pod",
    knative="starts a pod for each of them.",
    here="only the user's request starts a pod. The monitor gets 503 and the stranger 401 at once. "
    "With a pod, all are served.",
    script=script,
)
