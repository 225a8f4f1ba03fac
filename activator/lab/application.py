"""The sample application: the path of a request selects the response.

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
``/v1/…``            ``models`` and ``chat/completions`` of the OpenAI API (:mod:`.openai_server`)
``/ws``              a WebSocket that returns each message (by :mod:`.websocket`)
``/healthz``         200 while the pod is ready, otherwise 503; only in pods without queue-proxy
``/toggleReady``     toggles the result of the readiness probe
``/toggleLive``      toggles the result of the liveness probe
``/toggleExec``      toggles the result of an exec readiness probe, which queue-proxy cannot run
==================== ==========================================================================

It does not use sockets, the clock or queue-proxy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from activator.lab import openai_server
from activator.lab.http1 import PodRequest
from activator.lab.responses import PodResponse, as_json, text
from activator.lab.state import PodCounters, Switches

#: Upper limits, so that a slip in a URL does not occupy a laptop.
MAX_DELAY_MS = 3_600_000
MAX_BYTES = 1 << 30
MAX_LINES = 1_000_000

SWITCHES = {"/toggleReady": "ready", "/toggleLive": "live", "/toggleExec": "exec_ready"}


def health_response(request: PodRequest, switches: Switches) -> PodResponse | None:
    """Return the response of the health page; None for a request to another page."""
    if request.path != "/healthz":
        return None
    return text(200 if switches.ready and not switches.draining else 503, "")


class Application:
    """The user's container of one pod.

    Arguments:
        counters: of the pod; the requests in flight slow ``/crowd`` down.
    """

    def __init__(self, pod_name: str, switches: Switches, counters: PodCounters) -> None:
        self._pod_name = pod_name
        self._switches = switches
        self._counters = counters
        self._routes: dict[str, Callable[[PodRequest], PodResponse]] = {
            "/": self._hello,
            "/sleep": self._hello,
            "/crowd": self._crowd,
            "/bytes": _bytes,
            "/echo": _echo,
            "/headers": _headers,
            "/status": _status,
            "/stream": self._stream,
            "/events": self._events,
            "/v1/models": openai_server.models,
            "/v1/chat/completions": openai_server.chat,
        }

    def respond(self, request: PodRequest) -> PodResponse:
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

    def _hello(self, request: PodRequest) -> PodResponse:
        host = request.header("k-original-host") or request.header("host")
        via = request.header("k-proxy-request")
        # Only a pod with queue-proxy learns the name of a proxy.
        proxied = "through a proxy" if request.header("x-forwarded-for") else "directly"
        way = f"through the {via}" if via else proxied
        delay = _number(request, "ms", 0, MAX_DELAY_MS) / 1000
        return text(200, f"Hello from {self._pod_name}, reached {way} for {host}\n", delay)

    def _crowd(self, request: PodRequest) -> PodResponse:
        room = max(_number(request, "n", 50, MAX_LINES), 1)
        times = max(1.0, self._counters.in_flight / room) ** 2
        response = self._hello(request)
        return replace(response, delay=min(response.delay * times, MAX_DELAY_MS / 1000))

    def _stream(self, request: PodRequest) -> PodResponse:
        return PodResponse(pieces=self._lines(request), interval=_interval(request))

    def _events(self, request: PodRequest) -> PodResponse:
        return openai_server.events(self._lines(request), _interval(request))

    def _lines(self, request: PodRequest) -> tuple[bytes, ...]:
        count = _number(request, "n", 5, MAX_LINES)
        return tuple(f"{self._pod_name} line {i}\n".encode() for i in range(1, count + 1))


def _interval(request: PodRequest) -> float:
    return _number(request, "ms", 100, MAX_DELAY_MS) / 1000


def _bytes(request: PodRequest) -> PodResponse:
    body = bytes(_number(request, "n", 1024, MAX_BYTES))
    return PodResponse(body=body, content_type="application/octet-stream")


def _echo(request: PodRequest) -> PodResponse:
    kind = request.header("content-type") or "application/octet-stream"
    return PodResponse(body=request.body, content_type=kind)


def _headers(request: PodRequest) -> PodResponse:
    lines = [f"{name}: {value}" for name, value in request.headers]
    return as_json({"method": request.method, "target": request.target, "headers": lines})


def _status(request: PodRequest) -> PodResponse:
    code = _number(request, "code", 200, 599)
    if code < 200:
        raise ValueError(f"code={code}: expected a final status, 200 to 599")
    return PodResponse(code) if code in (204, 304) else text(code, f"status {code} as asked\n")


def _number(request: PodRequest, name: str, default: int, limit: int) -> int:
    given = request.query.get(name, str(default))
    if not given.isascii() or not given.isdigit() or int(given) > limit:
        raise ValueError(f"{name}={given}: expected a number from 0 to {limit}")
    return int(given)
