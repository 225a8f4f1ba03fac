"""The sample application and its switches: the path of a request selects the response.

==================== ==========================================================================
``/``                a greeting with the pod's name and how the request came
``/sleep?ms=N``      the greeting, N milliseconds later
``/crowd?ms=N&n=M``  the same; with more than M in flight, later by the square of the ratio
``/bytes?n=N``       N bytes
``/echo``            the request's body, with its content type
``/headers``         method, target and headers as they reached the pod, as JSON
``/status?code=N``   a response with that status
``/stream?n=N&ms=M`` N lines, M milliseconds apart, chunked
``/events?n=N&ms=M`` the same as an event stream
``/v1/…``            ``models`` and ``chat/completions`` of the OpenAI API (`chat`)
``/ws``              a WebSocket that returns each message (`Echo`)
``/healthz``         200 while the pod is ready, otherwise 503; only in pods without queue-proxy
``/toggleReady``     toggles the result of the readiness probe
``/toggleLive``      toggles the result of the liveness probe
``/toggleExec``      toggles the result of an exec readiness probe, which queue-proxy cannot run
==================== ==========================================================================

The admin port has all switches, counters, and the results of kubelet's probes:

============================ ==================================================================
``/counters``                requests by id, most requests at a time, probes; as JSON
``/state``                   the switches, as JSON
``/toggleReady`` and others  toggle a switch: Ready, Live, Exec, Running, SidecarReady,
                             SidecarLive
``/exec``, ``/live``         the result of an exec readiness or liveness probe: 200 or 500
``/sidecarReady``, ``…Live`` the same for the sidecar
``/kill``, ``/start``        kill or start the application's process, as kubelet does
``/startSidecar``            start the sidecar's process
============================ ==================================================================

:mod:`.pod` handles ``/wait-for-drain`` itself, which is queue-proxy's preStop hook. This module
does not use sockets, the clock or queue-proxy.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from activator.lab.http1 import JSON, HttpRequest, HttpResponse, as_json, render, text

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.server import ServerProtocol


#: Most request ids that are stored; further requests are only counted, to limit memory.
MAX_REMEMBERED_IDS = 200_000


@dataclass(slots=True)
class Switches:
    """The conditions a scenario turns on and off.

    Attributes:
        ready: the application's HTTP readiness, which queue-proxy checks and reports.
        live: the application's liveness; kubelet restarts the application while it is False.
        exec_ready: an exec readiness probe's result; only kubelet sees it, queue-proxy does not.
        running: whether the application's process exists behind queue-proxy.
        sidecar_ready, sidecar_live: the same for the sidecar. queue-proxy polls ``sidecar_ready``
            if the pod has the option ``polls_sidecar``.
        draining: set by SIGTERM or ``/wait-for-drain``; probes fail, requests still succeed.
    """

    ready: bool = True
    live: bool = True
    exec_ready: bool = True
    running: bool = True
    sidecar_ready: bool = True
    sidecar_live: bool = True
    draining: bool = False

    def toggle(self, name: str) -> bool:
        """Toggle the switch of that name, and return its new value."""
        value = not getattr(self, name)
        setattr(self, name, value)
        return value


@dataclass(slots=True)
class PodCounters:
    """Counts of requests and probes, from which tests see lost and repeated requests.

    Attributes:
        last_probes: the last probe of each prober, by user agent: request line and headers.
        at_readiness_port: requests to the separate port of the readiness probe.
    """

    requests: int = 0
    probes: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    by_id: Counter[str] = field(default_factory=Counter)
    posts_by_id: Counter[str] = field(default_factory=Counter)
    last_probes: dict[str, list[str]] = field(default_factory=dict)
    at_readiness_port: int = 0

    def enter(self, method: str, request_id: str) -> None:
        """Count a request that arrived; the caller must call `leave` after the response."""
        self.requests += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        if request_id and len(self.by_id) < MAX_REMEMBERED_IDS:
            self.by_id[request_id] += 1
            if method == "POST":
                self.posts_by_id[request_id] += 1

    def refuse(self, method: str, request_id: str) -> None:
        """Count the id of a request no more, because queue-proxy refused it."""
        self.by_id[request_id] -= 1
        self.posts_by_id[request_id] -= method == "POST"

    def leave(self) -> None:
        """Count the end of a request."""
        self.in_flight -= 1

    def report(self) -> dict[str, object]:
        """Return all counters as a JSON object."""
        return {
            "requests": self.requests,
            "probes": self.probes,
            "inFlight": self.in_flight,
            "maxInFlight": self.max_in_flight,
            "seenById": dict(self.by_id),
            "postsSeenTwice": sorted(key for key, seen in self.posts_by_id.items() if seen > 1),
            "lastProbes": self.last_probes,
            "atReadinessPort": self.at_readiness_port,
        }


#: The switches that the application toggles too, on the port of requests.
SWITCHES = {"/toggleReady": "ready", "/toggleLive": "live", "/toggleExec": "exec_ready"}
ALL_SWITCHES = {
    **SWITCHES,
    "/toggleRunning": "running",
    "/toggleSidecarReady": "sidecar_ready",
    "/toggleSidecarLive": "sidecar_live",
}

CHECKS: dict[str, Callable[[Switches], bool]] = {
    "/exec": lambda switches: switches.exec_ready,
    "/live": lambda switches: switches.live and switches.running,
    "/sidecarReady": lambda switches: switches.sidecar_ready,
    "/sidecarLive": lambda switches: switches.sidecar_live,
}

#: The switches that a path sets, as kubelet does: a started process has all its switches on.
ACTIONS: dict[str, dict[str, bool]] = {
    "/kill": {"running": False},
    "/start": {"running": True, "live": True, "ready": True, "exec_ready": True},
    "/startSidecar": {"sidecar_ready": True, "sidecar_live": True},
}


def admin_response(request: HttpRequest, switches: Switches, counters: PodCounters) -> HttpResponse:
    """Return the admin port's response to a request; a request may change the switches."""
    path = request.path
    if path in ALL_SWITCHES:
        name = ALL_SWITCHES[path]
        return text(200, f"{name} is {switches.toggle(name)}\n")
    if path in CHECKS:
        return text(200 if CHECKS[path](switches) else 500, "")
    if path in ACTIONS:
        for name, on in ACTIONS[path].items():
            setattr(switches, name, on)
        return text(200, "")
    if path == "/counters":
        return as_json(counters.report())
    if path == "/state":
        return as_json(asdict(switches))
    return text(404, f"no {path} here; try /counters, /state, {', '.join(ALL_SWITCHES)}\n")


# A stand-in for a server of the OpenAI API: one model, which repeats the last message.
#
# Only as much of the API as clients need for a first request. Source:
# https://platform.openai.com/docs/api-reference/chat.

EVENT_STREAM: Final = "text/event-stream"
MODEL: Final = "echo"
#: Seconds between two words of a streamed response.
_PACE: Final = 0.05


def models(request: HttpRequest) -> HttpResponse:
    """Return the list of models."""
    model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "lab"}
    return as_json({"object": "list", "data": [model]})


def chat(request: HttpRequest) -> HttpResponse:
    """Return a chat completion, as an event stream if the request wants one."""
    try:
        asked: dict[str, Any] = json.loads(request.body)
        model, words = asked["model"], str(asked["messages"][-1]["content"]).split()
    except (ValueError, LookupError, TypeError):
        return _error(400, "expected a model and messages", "invalid_request_error")
    if model != MODEL:
        return _error(404, f"no model {model!r}; try {MODEL!r}", "model_not_found")
    if asked.get("stream") is True:
        deltas = [{"role": "assistant"}, *({"content": f"{word} "} for word in words)]
        events = (*(_event(_choice(delta=delta)) for delta in deltas), b"data: [DONE]\n\n")
        return HttpResponse(content_type=EVENT_STREAM, pieces=events, interval=_PACE)
    message = {"role": "assistant", "content": " ".join(words)}
    return as_json(_choice("chat.completion", message=message, finish_reason="stop"))


def _choice(
    kind: str = "chat.completion.chunk", *, finish_reason: str | None = None, **given: object
) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish_reason, **given}
    return {"id": "1", "object": kind, "created": 0, "model": MODEL, "choices": [choice]}


def _event(value: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(value).encode()


def _error(status: int, message: str, code: str) -> HttpResponse:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return HttpResponse(status, json.dumps({"error": error}).encode(), JSON)


# A WebSocket echo of the sample application, to try tunnels through the activator.
#
# It turns received bytes into bytes to send; the pod's connection moves them. The first WebSocket
# imports the library, because most pods never need it and should start quickly.


def asks_for_websocket(request: HttpRequest) -> bool:
    """Return whether the request is the opening handshake of an echo."""
    return request.path == "/ws" and request.header("upgrade").lower() == "websocket"


class Echo:
    """The pod's side of one WebSocket."""

    def __init__(self, request: HttpRequest) -> None:
        """Take the opening handshake; the first `receive` returns the response to it."""
        from websockets.server import ServerProtocol

        self._protocol: ServerProtocol = ServerProtocol()
        first = f"{request.method} {request.target} {request.version}"
        self._protocol.receive_data(render(first, request.headers))

    def receive(self, data: bytes) -> list[bytes]:
        """Take received bytes, and return pieces to send; an empty piece means: close."""
        from websockets.frames import Frame
        from websockets.http11 import Request as Handshake

        if data:
            self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Handshake):
                self._protocol.send_response(self._protocol.accept(event))
            elif isinstance(event, Frame):
                self._send_back(event)
        return self._protocol.data_to_send()

    def _send_back(self, frame: Frame) -> None:
        from websockets.frames import Opcode

        if frame.opcode is Opcode.TEXT:
            self._protocol.send_text(frame.data, frame.fin)
        elif frame.opcode is Opcode.BINARY:
            self._protocol.send_binary(frame.data, frame.fin)
        elif frame.opcode is Opcode.CONT:
            self._protocol.send_continuation(frame.data, frame.fin)


#: Upper limits, so that a slip in a URL does not occupy a laptop.
MAX_DELAY_MS = 3_600_000
MAX_BYTES = 1 << 30
MAX_LINES = 1_000_000


class Application:
    """The user's container of one pod.

    Arguments:
        counters: of the pod; the requests in flight slow ``/crowd`` down.
    """

    def __init__(self, pod_name: str, switches: Switches, counters: PodCounters) -> None:
        self._pod_name = pod_name
        self._switches = switches
        self._counters = counters
        self._is_sleeping = False
        self._routes: dict[str, Callable[[HttpRequest], HttpResponse]] = {
            "/": self._hello,
            "/sleep": self._sleep,
            "/wake_up": self._mode,
            "/is_sleeping": self._mode,
            "/crowd": self._crowd,
            "/bytes": _bytes,
            "/echo": _echo,
            "/headers": _headers,
            "/status": _status,
            "/stream": self._stream,
            "/events": self._events,
            "/v1/models": models,
            "/v1/chat/completions": chat,
        }

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request that is no probe; 400 for a wrong parameter."""
        path = request.path
        if path in SWITCHES:
            name = SWITCHES[path]
            return text(200, f"{self._pod_name}: {name} is {self._switches.toggle(name)}\n")
        route = self._routes.get(path)
        if route is None:
            known = ", ".join((*self._routes, *SWITCHES))
            rest = "; the other switches are on the pod's admin port"
            return text(404, f"{self._pod_name} knows no {path}; try {known}{rest}\n")
        try:
            return route(request)
        except ValueError as error:
            return text(400, f"{error}\n")

    def _sleep(self, request: HttpRequest) -> HttpResponse:
        """Sleep, if the request has a level; else respond late."""
        return self._mode(request) if "level" in request.query else self._hello(request)

    def _mode(self, request: HttpRequest) -> HttpResponse:
        """Sleep and wake by the paths of vLLM."""
        if request.method == "POST":
            self._is_sleeping = request.path == "/sleep"
        return as_json({"is_sleeping": self._is_sleeping})

    def _hello(self, request: HttpRequest) -> HttpResponse:
        if self._is_sleeping:
            return text(500, f"{self._pod_name} sleeps\n")
        host = request.header("k-original-host") or request.header("host")
        via = request.header("k-proxy-request")
        # Only a pod with queue-proxy learns the name of a proxy.
        proxied = "through a proxy" if request.header("x-forwarded-for") else "directly"
        way = f"through the {via}" if via else proxied
        delay = _number(request, "ms", 0, MAX_DELAY_MS) / 1000
        return text(200, f"Hello from {self._pod_name}, reached {way} for {host}\n", delay)

    def _crowd(self, request: HttpRequest) -> HttpResponse:
        room = max(_number(request, "n", 50, MAX_LINES), 1)
        times = max(1.0, self._counters.in_flight / room) ** 2
        response = self._hello(request)
        return replace(response, delay=min(response.delay * times, MAX_DELAY_MS / 1000))

    def _stream(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(pieces=self._lines(request), interval=_interval(request))

    def _events(self, request: HttpRequest) -> HttpResponse:
        pieces = tuple(b"data: %b\n" % line for line in self._lines(request))
        return HttpResponse(content_type=EVENT_STREAM, pieces=pieces, interval=_interval(request))

    def _lines(self, request: HttpRequest) -> tuple[bytes, ...]:
        count = _number(request, "n", 5, MAX_LINES)
        return tuple(f"{self._pod_name} line {i}\n".encode() for i in range(1, count + 1))


def _interval(request: HttpRequest) -> float:
    return _number(request, "ms", 100, MAX_DELAY_MS) / 1000


def _bytes(request: HttpRequest) -> HttpResponse:
    body = bytes(_number(request, "n", 1024, MAX_BYTES))
    return HttpResponse(body=body, content_type="application/octet-stream")


def _echo(request: HttpRequest) -> HttpResponse:
    kind = request.header("content-type") or "application/octet-stream"
    return HttpResponse(body=request.body, content_type=kind)


def _headers(request: HttpRequest) -> HttpResponse:
    lines = [f"{name}: {value}" for name, value in request.headers]
    return as_json({"method": request.method, "target": request.target, "headers": lines})


def _status(request: HttpRequest) -> HttpResponse:
    code = _number(request, "code", 200, 599)
    if code < 200:
        raise ValueError(f"code={code}: expected a final status, 200 to 599")
    return HttpResponse(code) if code in (204, 304) else text(code, f"status {code} as asked\n")


def _number(request: HttpRequest, name: str, default: int, limit: int) -> int:
    given = request.query.get(name, str(default))
    if not given.isascii() or not given.isdigit() or int(given) > limit:
        raise ValueError(f"{name}={given}: expected a number from 0 to {limit}")
    return int(given)
