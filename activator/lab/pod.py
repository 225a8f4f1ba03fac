"""One sample pod as a process: queue-proxy and application behind one port, or application alone.

The pod listens, sends responses, and drains on SIGTERM. It writes its events as JSON lines to its
standard output, which its parent process reads.
Knative's counterpart: pkg/queue/sharedmain/main.go, together with the user's container.

    python -m activator.lab.pod --address 127.0.0.11 --port 8012 --name hello-1 --start-after 1.5
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from activator.lab import application, http1

# The responses that queue-proxy makes itself: to probes, while it drains, and for a full queue.
#
# Knative's counterparts: pkg/queue/health/handler.go, pkg/network/handlers/drain.go, breaker.go.

#: User agents whose requests are probes on any path; all other requests are traffic.
PROBER_AGENTS = ("kube-probe/", "Knative-Activator-Probe", "Knative-Autoscaling-Probe")
#: Length of queue-proxy's queue for each request that the application may have at a time.
QUEUE_PER_SLOT = 10

#: The header that Go's http.Error adds.
ERROR_HEADERS = (("X-Content-Type-Options", "nosniff"),)


def _error(status: int, body: str) -> http1.HttpResponse:
    return http1.HttpResponse(status, body.encode(), headers=ERROR_HEADERS)


NOT_LISTENING = _error(502, "dial tcp 127.0.0.1:8080: connect: connection refused\n")
#: The application's process ended before it responded.
CUT_OFF = _error(502, "EOF\n")
QUEUE_FULL = _error(503, "pending request queue full\n")
DRAINING = _error(503, "shutting down\n")


def traffic_refusal(
    container_concurrency: int, in_flight: int, running: bool
) -> http1.HttpResponse | None:
    """Return queue-proxy's error response; None if the application gets the request.

    Arguments:
        container_concurrency: requests that the application may have at a time; 0 is no limit.
        in_flight: requests in the pod, including this one.
        running: whether the application's process exists.
    """
    if container_concurrency and in_flight > container_concurrency * (1 + QUEUE_PER_SLOT):
        return QUEUE_FULL
    return None if running else NOT_LISTENING


#: Seconds without a request before a draining pod stops listening. queue-proxy waits 30 s, because
#: routes spread slowly in a cluster.
QUIET_PERIOD = 0.5
#: Seconds for requests in flight to end after that; queue-proxy takes the revision's time-out.
DRAIN_TIMEOUT = 60.0

Emit = Callable[..., None]


def _option(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, slots=True)
class PodOptions:
    """The options of a pod's command line.

    Attributes:
        admin_port: port of the switches on the same address.
        start_after: seconds from process start to listening: image pull and application start.
        quiet_period: seconds without a request before a draining pod stops listening.
        blind: queue-proxy cannot run the application's probe (usually an exec probe), so it
            reports ready without a check.
        polls_sidecar: queue-proxy polls the sidecar's readiness probe, as since Knative 1.14.
        readiness_port: a separate port for the application's readiness probe; None for none.
        plain: the pod has no queue-proxy. The application has the health page ``/healthz``.
    """

    name: str = _option("pod", "of the pod, in its responses")
    address: str = _option("127.0.0.11", "to listen on")
    port: int = _option(8012, "for requests and probes")
    admin_port: int = _option(0, "0: none")
    start_after: float = _option(0.0, "seconds")
    container_concurrency: int = _option(0, "requests that the application may have; 0: no limit")
    quiet_period: float = _option(QUIET_PERIOD, "seconds")
    report_requests: bool = _option(False, "a line for each request")
    blind: bool = _option(False, "queue-proxy reports ready without a check of the application")
    polls_sidecar: bool = _option(False, "queue-proxy also polls the sidecar")
    plain: bool = _option(False, "without queue-proxy")
    readiness_port: int | None = _option(None, "0: any free one; default: none")

    @property
    def where(self) -> tuple[str, int]:
        """Address and port for requests and probes."""
        return self.address, self.port

    @property
    def switches(self) -> tuple[str, int]:
        """Address and port of the switches."""
        return self.address, self.admin_port


def probe_response(
    request: http1.HttpRequest, switches: application.Switches, options: PodOptions
) -> http1.HttpResponse | None:
    """Return queue-proxy's response to a probe; None for a request that is no probe.

    Without queue-proxy, requests to the application's health page are the probes.
    """
    if options.plain and request.path != "/healthz":
        return None
    if options.plain:
        return http1.text(200 if switches.ready and not switches.draining else 503, "")
    probe = request.header("k-network-probe")
    if probe != "probe" and not request.header("user-agent").startswith(PROBER_AGENTS):
        return None
    if switches.draining:
        return DRAINING
    if probe == "probe":  # of an ingress
        if hash_value := request.header("k-network-hash"):
            return http1.HttpResponse(200, headers=(("K-Network-Hash", hash_value),))
        return http1.text(400, 'a probe request must contain a non-empty "K-Network-Hash" header\n')
    if probe != "queue":
        return http1.text(400, f"unexpected probe header value: {probe}\n")
    is_ready = options.blind or (switches.ready and switches.running)
    if not is_ready or (options.polls_sidecar and not switches.sidecar_ready):
        return http1.HttpResponse(503)
    return http1.text(200, "queue")


class Pod:
    """Queue-proxy and application of one pod."""

    def __init__(self, options: PodOptions, emit: Emit) -> None:
        self.options = options
        self.switches = application.Switches()
        self._known = application.Switches()
        self.counters = application.PodCounters()
        self._emit = emit
        self._application = application.Application(options.name, self.switches, self.counters)
        slots = 0 if options.plain else options.container_concurrency
        self._slots = asyncio.Semaphore(slots) if slots else contextlib.nullcontext()
        self._probe_passed = False
        self._arrived = asyncio.Event()
        self._left = asyncio.Event()
        self._down = asyncio.Event()
        self.stop = asyncio.Event()

    async def run(self) -> None:
        """Serve until `stop` is set, then drain.

        Raises:
            OSError: the pod cannot listen on its address and port.
        """
        if await _is_set_within(self.stop, self.options.start_after):
            return
        admin, traffic, readiness = map(
            http1.HttpServer, (self._answer_admin, self._answer_traffic, self._answer_readiness)
        )
        options, details = self.options, {"pid": os.getpid()}
        if options.admin_port:  # first: a script may use it as soon as the pod serves
            await admin.start(options.address, options.admin_port)
        await traffic.start(options.address, options.port)
        if options.readiness_port is not None:
            await readiness.start(options.address, options.readiness_port)
            details["readiness_port"] = readiness.port
        self._emit("listening", port=traffic.port, **details)
        await self.stop.wait()
        await self._drain(traffic)
        for each in (admin, traffic, readiness):
            each.close()
        self._emit("stopped")

    async def _drain(self, server: http1.HttpServer) -> None:
        """Fail probes, wait for a quiet period, stop listening, wait for requests in flight."""
        self.switches.draining = True
        self._emit("draining", in_flight=self.counters.in_flight)
        self._arrived.clear()
        while await _is_set_within(self._arrived, self.options.quiet_period):
            self._arrived.clear()
        server.stop_listening()
        deadline = time.monotonic() + DRAIN_TIMEOUT
        while self.counters.in_flight and (left := deadline - time.monotonic()) > 0:
            self._left.clear()
            await _is_set_within(self._left, left)

    async def _answer_admin(self, request: http1.HttpRequest, connection: http1.Connection) -> None:
        if request.path == "/wait-for-drain":
            self.switches.draining = True
            await connection.send(request, http1.text(200, "", delay=self.options.quiet_period))
        else:
            answer = application.admin_response(request, self.switches, self.counters)
            self._note_switches()
            await connection.send(request, answer)

    async def _answer_readiness(
        self, request: http1.HttpRequest, connection: http1.Connection
    ) -> None:
        self.counters.at_readiness_port += 1
        ready = self.switches.ready and self.switches.running
        await connection.send(request, http1.text(200 if ready else 503, ""))

    async def _answer_traffic(
        self, request: http1.HttpRequest, connection: http1.Connection
    ) -> None:
        if application.asks_for_websocket(request):
            await _echo(request, connection)
            return
        probe = probe_response(request, self.switches, self.options)
        if probe is not None:
            self._note_probe(request, probe.status)
            await connection.send(request, probe)
            return
        started = time.monotonic()
        request_id = request.header("x-request-id")
        self._arrived.set()
        self.counters.enter(request.method, request_id)
        status = 0
        try:
            status = await self._serve(request, connection)
        finally:
            self.counters.leave()
            self._left.set()
            if self.options.report_requests:
                took = round(time.monotonic() - started, 4)
                details = {"path": request.path, "status": status, "took": took, "id": request_id}
                self._emit("responded", **details)

    async def _serve(self, request: http1.HttpRequest, connection: http1.Connection) -> int:
        limit, running = self.options.container_concurrency, self.switches.running
        refusal = traffic_refusal(limit, self.counters.in_flight, running)
        if refusal is not None and not self.options.plain:
            self.counters.refuse(request.method, request.header("x-request-id"))
            await connection.send(request, refusal)
            return refusal.status
        async with self._slots:
            answer = self._application.respond(request)
            self._note_switches()
            if answer.delay:
                cut = await _is_set_within(self._down, answer.delay)
                answer = CUT_OFF if cut else replace(answer, delay=0.0)
            await connection.send(request, answer)
        return answer.status

    def _note_switches(self) -> None:
        """Report changed switches; end the requests of an application that no longer runs."""
        if self._known == self.switches:
            return
        before, now = asdict(self._known), asdict(self.switches)
        self._known = replace(self.switches)
        if self.switches.running:
            self._down.clear()
        else:
            self._down.set()
        self._emit("switched", **{name: on for name, on in now.items() if on != before[name]})

    def _note_probe(self, request: http1.HttpRequest, status: int) -> None:
        self.counters.probes += 1
        agent = request.header("user-agent")
        if prober := next(filter(agent.startswith, PROBER_AGENTS), ""):
            head = [f"{request.method} {request.target}"]
            head += [f"{name}: {value}" for name, value in request.headers]
            self.counters.last_probes[prober.rstrip("/")] = head
        if prober == "Knative-Activator-Probe":
            passed = status == 200
            if passed != self._probe_passed:
                self._emit("probe passed" if passed else "probe failed", status=status)
            self._probe_passed = passed


async def _echo(request: http1.HttpRequest, connection: http1.Connection) -> None:
    echo, data = application.Echo(request), connection.parser.leftover()
    while True:
        pieces = echo.receive(data)
        connection.writer.write(b"".join(pieces))
        await connection.writer.drain()
        if b"" in pieces or not (data := await connection.reader.read(http1.READ_BYTES)):
            break
    connection.writer.close()


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def emit_json(event: str, **details: object) -> None:
    """Write an event to standard output as a line of JSON; ``at`` is CLOCK_MONOTONIC in seconds."""
    try:
        print(json.dumps({"event": event, "at": time.monotonic(), **details}), flush=True)
    except BrokenPipeError:
        pass  # the parent has closed the pipe; the pod goes on


async def _main(options: PodOptions) -> None:
    loop = asyncio.get_running_loop()
    pod = Pod(options, emit_json)
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, pod.stop.set)
    await pod.run()


def parse_options(arguments: Sequence[str]) -> PodOptions:
    """Return the options of the command line; wrong options end the process with status 2."""
    parser = argparse.ArgumentParser(prog="python -m activator.lab.pod", description="A sample pod")
    for each in fields(PodOptions):
        name, meaning = f"--{each.name.replace('_', '-')}", each.metadata["help"]
        if each.default is False:
            parser.add_argument(name, action="store_true", help=meaning)
        else:
            kind = int if each.default is None else type(each.default)
            parser.add_argument(name, type=kind, default=each.default, help=meaning)
    return PodOptions(**vars(parser.parse_args(arguments)))


def pod_arguments(options: PodOptions) -> list[str]:
    """Return the command line for these options."""
    found = []
    for name, value in asdict(options).items():
        if value is not None and value is not False:
            found.append(f"--{name.replace('_', '-')}")
            found += [] if value is True else [str(value)]
    return found


def main() -> int:
    """Run the pod of the command line; return 1 if it cannot listen, otherwise 0."""
    options = parse_options(sys.argv[1:])
    try:
        import uvloop
    except ImportError:  # it is only faster
        run = asyncio.run
    else:
        run = uvloop.run
    try:
        run(_main(options))
    except OSError as error:
        where = f"{options.address}:{options.port}"
        print(f"pod {options.name}: cannot listen on {where}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
