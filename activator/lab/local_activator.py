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


class _Program:
    """One process of this project's command line.

    Arguments:
        arguments: of the command line, after ``activator``.
        log: called with each line of its log; must return at once.
        settings: further environment variables.
    """

    def __init__(self, arguments: Sequence[str], log: Log, settings: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._log = log
        self._settings = settings
        self._process: Process | None = None
        self._reading: asyncio.Future[None] | None = None
        self._listens: asyncio.Future[dict[str, Any]] | None = None

    async def start(self) -> None:
        """Start the process."""
        self._listens = asyncio.get_running_loop().create_future()
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
        self._reading = asyncio.ensure_future(self._read(self._process))

    async def listening(self) -> dict[str, Any]:
        """Return the log line with its addresses, as soon as it comes.

        Raises:
            DidNotStart: it ended.
        """
        assert self._listens is not None
        return await self._listens

    async def _read(self, process: Process) -> None:
        assert process.stderr is not None
        assert self._listens is not None
        last: deque[str] = deque(maxlen=SHOWN_LINES)
        async for text in process.stderr:
            line = _parsed(text)
            last.append(str(line["message"]))
            if "admin" in line and not self._listens.done():
                self._listens.set_result(line)
            self._log(line)
        if not self._listens.done():
            name = "scaler" if self._arguments[0] == "scale" else "activator"
            self._listens.set_exception(DidNotStart(f"the {name} ended: {'; '.join(last)}"))

    async def end(self, number: signal.Signals) -> None:
        """Send a signal, and wait until the process has ended."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            await self._process.wait()
        if self._reading is not None:
            await self._reading


class LocalActivator:
    """The activator of a scenario.

    Attributes:
        traffic, admin: address and port for requests, and of the admin API; set by `start`.
        admission: the same of its admission port; without a port if it has none.
    """

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
            log: called with each line of its log; must return at once.
            event: called with each of its events; must return at once.
            settings: further environment variables.
        """
        command, *rest = arguments
        self._program = _Program([command, *OPTIONS, *rest], log, settings or {})
        self._events = ActivatorEvents(event)
        self.traffic: Where = ("", 0)
        self.admission: Where = ("", 0)
        self.admin: Where = ("", 0)

    async def start(self) -> None:
        """Start the activator, and return when it is ready.

        Raises:
            DidNotStart: it ended, or was not ready within `START_PATIENCE` seconds.
        """
        await self._program.start()
        try:
            async with asyncio.timeout(START_PATIENCE):
                listening = await self._program.listening()
                self.traffic = _address(listening["http"])
                self.admin = _address(listening["admin"])
                if "admit" in listening:
                    self.admission = _address(listening["admit"])
                await self._events.open(*self.admin)
        except TimeoutError:
            raise DidNotStart(f"the activator was not ready after {START_PATIENCE:g} s") from None

    async def get(self, path: str) -> Any:
        """Return the JSON document at a path of the admin API; None for a status other than 200.

        Raises:
            OSError: no complete response.
        """
        return await _document(self.admin, path)

    async def close(self) -> None:
        """Kill the activator, without a drain."""
        await self._events.close()
        await self._program.end(signal.SIGKILL)


class LocalScaler:
    """The scaler of a scenario: ``activator scale``.

    Attributes:
        reports: host and port for the reports of activators; set by `start`.
        admin: host and port of its API; set by `start`.
    """

    def __init__(self, arguments: Sequence[str], log: Log, settings: Mapping[str, str]) -> None:
        """
        Arguments:
            arguments: options after `SCALER_OPTIONS`, which they override.
            log: called with each line of its log; must return at once.
            settings: further environment variables.
        """
        self._program = _Program(["scale", *SCALER_OPTIONS, *arguments], log, settings)
        self.reports: Where = ("", 0)
        self.admin: Where = ("", 0)

    async def start(self) -> None:
        """Start the scaler, and return when it listens.

        Raises:
            DidNotStart: it ended, or did not listen within `START_PATIENCE` seconds.
        """
        await self._program.start()
        try:
            async with asyncio.timeout(START_PATIENCE):
                listening = await self._program.listening()
        except TimeoutError:
            raise DidNotStart(f"the scaler did not listen after {START_PATIENCE:g} s") from None
        self.reports = _address(listening["stat"])
        self.admin = _address(listening["admin"])

    async def get(self, path: str) -> Any:
        """Return the JSON document at a path of its API; None for a status other than 200.

        Raises:
            OSError: no complete response.
        """
        return await _document(self.admin, path)

    async def close(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the scaler by a signal."""
        await self._program.end(number)


async def _document(where: Where, path: str) -> Any:
    response = await fetch(*where, path)
    return json.loads(response.body) if response.status == 200 else None


def _parsed(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict) and "message" in found:
            return found
    return {"message": line.decode(errors="replace").rstrip()}


def _address(text: str) -> Where:
    host, _, port = text.rpartition(":")
    return host, int(port)
