"""Programs of this project as separate processes: an activator, and a scaler; and their clients.

They are the real programs: ``python -m activator local``, ``run`` and ``scale``. The lab uses only
their ports, logs and APIs. Clients send one request or steady traffic, or read the event stream of
an activator.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from asyncio import Task, TaskGroup
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from activator.lab import end_with_stdin
from activator.lab.http1 import render

# An HTTP client like curl: each request has its own connection, and the response is read whole.

#: Seconds for a request and its response; more than the time-out of any scenario's revision.
PATIENCE = 60.0


class ClientResponse(NamedTuple):
    """A response as the client received it.

    Attributes:
        headers: by lower-case name; the last value of a repeated header.
        took: seconds from the dial to the last byte.
    """

    status: int
    headers: dict[str, str]
    body: str
    took: float = 0.0


def served_by(responses: Sequence[ClientResponse]) -> list[str]:
    """Return the name of the pod that sent each greeting."""
    return [response.body.removeprefix("Hello from ").partition(",")[0] for response in responses]


async def fetch(
    ip: str,
    port: int,
    target: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    patience: float = PATIENCE,
) -> ClientResponse:
    """Send one request on a new connection, and return the response, which ends the connection.

    Arguments:
        headers: added to the headers that curl sends; the same name replaces one of them.
        patience: seconds for all of it.

    Raises:
        OSError: no connection, or no complete response within so many seconds.
    """
    given = {"Host": f"{ip}:{port}", "Accept": "*/*", "Connection": "close", **(headers or {})}
    if body or method == "POST":
        given["Content-Length"] = str(len(body))
    head = render(f"{method} {target} HTTP/1.1", given.items())
    began = time.monotonic()
    async with asyncio.timeout(patience):
        reader, writer = await asyncio.open_connection(ip, port)
        try:
            writer.write(head + body)
            answer = await reader.read()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
    return parse_response(answer)._replace(took=time.monotonic() - began)


def parse_response(data: bytes) -> ClientResponse:
    """Parse a complete response.

    Raises:
        ConnectionError: the head is incomplete, or the body does not match Content-Length.
    """
    head, end, body = data.partition(b"\r\n\r\n")
    if not end:
        raise ConnectionError(f"incomplete response: {data[:200]!r}")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    if len(body) != int(headers.get("content-length", len(body))):
        raise ConnectionError(f"body of {len(body)} bytes, announced {headers['content-length']}")
    return ClientResponse(int(first.split()[1]), headers, body.decode(errors="replace"))


async def open_and_close(ip: str, port: int, patience: float = PATIENCE) -> None:
    """Open a connection and close it without sending a byte, as a TCP probe does.

    Raises:
        OSError: no process listens there.
    """
    async with asyncio.timeout(patience):
        _, writer = await asyncio.open_connection(ip, port)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


# Steady traffic of one client, with all its responses.

#: Sends one request with this method and id.
Send = Callable[[str, str], Coroutine[Any, Any, ClientResponse]]


class SteadyTraffic:
    """Requests at a steady rate, each on a new connection, until `stop`.

    Attributes:
        responses: by method, in the order of their arrival.
        posts: the ids of all POSTs that were sent.
    """

    def __init__(self, send: Send, rate: float, posts: int = 0, target: str = "/") -> None:
        """
        Arguments:
            send: sends one request; must not raise.
            rate: requests per second.
            posts: one request in so many is a POST; 0 for none.
            target: of the requests, for the summary.
        """
        self._send = send
        self._rate = rate
        self._post_every = posts
        self._target = target
        self._sent = 0
        self._stop = asyncio.Event()
        self._responded = asyncio.Event()
        self._running: Task[None] | None = None
        self.posts: set[str] = set()
        self.responses: dict[str, list[ClientResponse]] = {"GET": [], "POST": []}

    def start(self, tasks: TaskGroup) -> None:
        """Begin to send; the caller must call `stop`."""
        self._running = tasks.create_task(self._run())

    async def stop(self) -> None:
        """Stop sending; return when every request has a response or has failed."""
        self._stop.set()
        if self._running is not None:
            await self._running

    async def more(self, count: int) -> None:
        """Return when so many further requests have a response or have failed."""
        wanted = self._count + count
        while self._count < wanted:
            self._responded.clear()
            await self._responded.wait()

    def statuses(self, method: str) -> dict[int, int]:
        """Return the number of responses by status; 0 stands for no response."""
        return dict(sorted(Counter(response.status for response in self.responses[method]).items()))

    def summary(self) -> str:
        """Return statuses and durations of all requests in one line."""
        lines = []
        for method, responses in self.responses.items():
            if took := [response.took * 1000 for response in responses]:
                found = ", ".join(
                    f"{n} times {status}" for status, n in self.statuses(method).items()
                )
                line = f"{method} {self._target}: {found}"
                lines.append(f"{line}; median {median(took):,.0f} ms, maximum {max(took):,.0f} ms")
        return "; ".join(lines)

    @property
    def _count(self) -> int:
        return sum(map(len, self.responses.values()))

    async def _run(self) -> None:
        began = time.monotonic()
        async with TaskGroup() as tasks:
            while not self._stop.is_set():
                self._sent += 1
                post = self._post_every and self._sent % self._post_every == 0
                tasks.create_task(self._one("POST" if post else "GET", f"load-{self._sent}"))
                left = began + self._sent / self._rate - time.monotonic()
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, left)):
                        await self._stop.wait()

    async def _one(self, method: str, request_id: str) -> None:
        if method == "POST":
            self.posts.add(request_id)
        self.responses[method].append(await self._send(method, request_id))
        self._responded.set()


# Read the server-sent events of an activator.
#
# https://html.spec.whatwg.org/multipage/server-sent-events.html, as far as the activator uses it.

PATH = "/api/v1/events"
#: The first event of each stream: the stream contains all later changes.
HELLO = "hello"

#: Takes an event's name and its data; must return at once.
Take = Callable[[str, dict[str, Any]], None]


class ActivatorEvents:
    """One stream of events, from `open` to `close`."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._reading: asyncio.Future[None] | None = None
        self._greeted = asyncio.Event()

    async def open(self, ip: str, port: int) -> None:
        """Open the stream; return when it will contain all further events.

        Raises:
            OSError: no response, or a response that is no stream.
        """
        reader, writer = await asyncio.open_connection(ip, port)
        headers = {"Host": f"{ip}:{port}", "Accept": "text/event-stream"}
        writer.write(render(f"GET {PATH} HTTP/1.1", headers.items()))
        if b" 200 " not in await reader.readline():
            writer.close()
            raise ConnectionError(f"{PATH} did not return a stream")
        self._reading = asyncio.ensure_future(self._read(reader, writer))
        await self._greeted.wait()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Ignore all other lines: head, chunk sizes, comments, ids. The server begins a new chunk
        # with each piece, and a piece has only complete events.
        kind = ""
        try:
            async for raw in reader:
                field, _, value = raw.decode().rstrip("\r\n").partition(": ")
                if field == "event":
                    kind = value
                elif field == "data" and kind == HELLO:
                    self._greeted.set()
                elif field == "data":
                    self._take(kind, json.loads(value))
        finally:
            self._greeted.set()
            writer.close()

    async def close(self) -> None:
        """Close the stream."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await self._reading


#: Seconds for the start, on a busy machine.
START_PATIENCE = 30.0
#: Last lines of the log that an error quotes, if the activator did not start.
SHOWN_LINES = 5
#: The only environment variables that the activator gets: others could change its settings.
ENVIRONMENT = ("PATH", "HOME", "PYTHONPATH", "TMPDIR")
_COMMON = (
    *("--bind", "127.0.0.1", "--metrics-port", "0", "--log-format", "json"),
    *("--admin-bind", "127.0.0.1", "--admin-port", "0"),
)
OPTIONS = (*_COMMON, "--http-port", "0", "--h2c-port", "0")

#: The namespace of activator and scaler, and the pod of the scaler.
SYSTEM, SCALER_POD = "activator", "scale-1"
#: The same for ``activator scale``.
SCALER_OPTIONS = (*_COMMON, "--stat-port", "0", "--grpc-port", "0")

Where = tuple[str, int]
Log = Callable[[dict[str, Any]], None]


def own_command() -> str:
    """Return the command that starts this program's command line in the current folder."""
    found = shutil.which("activator")
    installed = Path(sys.executable).with_name("activator")
    if found is not None and Path(found).resolve() == installed.resolve():
        return "activator"
    return os.path.relpath(installed) if installed.is_relative_to(Path.cwd()) else str(installed)


class DidNotStart(Exception):
    """A program ended, or was not ready in time; the text has the last lines of its log."""


class LocalProgram:
    """One process of this project's command line.

    Attributes:
        admin: address and port of its API; set by `start`.
    """

    #: The program's name in errors, and the state in which `start` returns.
    _name, _started = "", ""

    def __init__(self, arguments: Sequence[str], log: Log, settings: Mapping[str, str]) -> None:
        """
        Arguments:
            arguments: of the command line, after ``activator``.
            log: called with each line of its log; must return at once.
            settings: further environment variables.
        """
        self.admin: Where = ("", 0)
        self._arguments = arguments
        self._log = log
        self._settings = settings
        self._process: Process | None = None
        self._reading: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """Start the program, and return when it is ready.

        Raises:
            DidNotStart: it ended, or was not ready within `START_PATIENCE` seconds.
        """
        listens: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        known = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        environ = {**known, **self._settings}
        self._process = await end_with_stdin.start(
            "activator", *self._arguments, stdout=DEVNULL, stderr=PIPE, env=environ
        )
        self._reading = asyncio.ensure_future(self._read(self._process, listens))
        try:
            async with asyncio.timeout(START_PATIENCE):
                line = await listens
                self.admin = _address(line["admin"])
                await self._listens(line)
        except TimeoutError:
            why = f"the {self._name} {self._started} after {START_PATIENCE:g} s"
            raise DidNotStart(why) from None

    async def _listens(self, line: dict[str, Any]) -> None:
        """Take the log line with the program's addresses."""

    async def _read(self, process: Process, listens: asyncio.Future[dict[str, Any]]) -> None:
        assert process.stderr is not None
        last: deque[str] = deque(maxlen=SHOWN_LINES)
        async for text in process.stderr:
            line = _parsed(text)
            last.append(str(line["message"]))
            if "admin" in line and not listens.done():
                listens.set_result(line)
            self._log(line)
        if not listens.done():
            listens.set_exception(DidNotStart(f"the {self._name} ended: {'; '.join(last)}"))

    async def get(self, path: str) -> Any:
        """Return the JSON document at a path of its API; None for a status other than 200.

        Raises:
            OSError: no complete response.
        """
        response = await fetch(*self.admin, path)
        return json.loads(response.body) if response.status == 200 else None

    async def close(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the program by a signal; the default leaves no time to drain."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            await self._process.wait()
        if self._reading is not None:
            await self._reading


class LocalActivator(LocalProgram):
    """The activator of a scenario.

    Attributes:
        traffic: address and port for requests; set by `start`.
        admission: the same of its admission port; without a port if it has none.
    """

    _name, _started = "activator", "was not ready"

    def __init__(
        self,
        arguments: Sequence[str],
        log: Log,
        event: Take = lambda kind, data: None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """
        Arguments:
            arguments: command, and options after `OPTIONS`, which they override.
            event: called with each of its events; must return at once.
        """
        command, *rest = arguments
        super().__init__([command, *OPTIONS, *rest], log, settings or {})
        self._events = ActivatorEvents(event)
        self.traffic: Where = ("", 0)
        self.admission: Where = ("", 0)

    async def _listens(self, line: dict[str, Any]) -> None:
        self.traffic = _address(line["http"])
        if "admit" in line:
            self.admission = _address(line["admit"])
        await self._events.open(*self.admin)

    async def close(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the activator by a signal; the default leaves no time to drain."""
        await self._events.close()
        await super().close(number)


class LocalScaler(LocalProgram):
    """The scaler of a scenario: ``activator scale``.

    Attributes:
        reports: host and port for the reports of activators; set by `start`.
    """

    _name, _started = "scaler", "did not listen"

    def __init__(self, arguments: Sequence[str], log: Log = lambda line: None) -> None:
        """
        Arguments:
            arguments: options after `SCALER_OPTIONS`, which they override.
        """
        settings = {"SYSTEM_NAMESPACE": SYSTEM, "POD_NAME": SCALER_POD}
        super().__init__(["scale", *SCALER_OPTIONS, *arguments], log, settings)
        self.reports: Where = ("", 0)

    async def _listens(self, line: dict[str, Any]) -> None:
        self.reports = _address(line["stat"])


def _parsed(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict) and "message" in found:
            return found
    return {"message": line.decode(errors="replace").rstrip()}


def _address(text: str) -> Where:
    host, _, port = text.rpartition(":")
    return host, int(port)
