"""Programs of this project as separate processes: an activator, and a scaler.

They are the real programs: ``python -m activator local``, ``run`` and ``scale``. The lab uses only
their ports, logs and APIs.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from activator.lab.client import ActivatorEvents, Take, fetch

#: Seconds for the start, on a busy machine.
START_PATIENCE = 30.0
#: Last lines of the log that an error quotes, if the activator did not start.
SHOWN_LINES = 5
#: The only environment variables that the activator gets: others could change its settings.
ENVIRONMENT = ("PATH", "HOME", "PYTHONPATH", "TMPDIR")
OPTIONS = (
    *("--bind", "127.0.0.1", "--http-port", "0", "--h2c-port", "0", "--metrics-port", "0"),
    *("--admin-bind", "127.0.0.1", "--admin-port", "0", "--log-format", "json"),
)

#: The same for ``activator scale``.
SCALER_OPTIONS = (
    *("--bind", "127.0.0.1", "--stat-port", "0", "--grpc-port", "0", "--metrics-port", "0"),
    *("--admin-bind", "127.0.0.1", "--admin-port", "0", "--log-format", "json"),
)

Where = tuple[str, int]
Log = Callable[[dict[str, Any]], None]


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
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "activator.lab.end_with_stdin", "activator"),
            *self._arguments,
            stdin=PIPE,  # the program ends with this pipe, even if this process is killed
            stdout=DEVNULL,
            stderr=PIPE,
            env={**known, **self._settings},
            start_new_session=True,  # a Ctrl-C must not reach it: the lab ends it in order
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

    def __init__(self, arguments: Sequence[str], log: Log, settings: Mapping[str, str]) -> None:
        """
        Arguments:
            arguments: options after `SCALER_OPTIONS`, which they override.
        """
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
