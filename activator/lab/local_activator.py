"""An activator as a separate process: the real program, ``python -m activator local``.

The lab uses only its ports, its log and its API.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from activator.lab.client import fetch
from activator.lab.event_stream import EventStream, Take

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

Where = tuple[str, int]


class DidNotStart(Exception):
    """The activator ended, or was not ready in time; the text has the last lines of its log."""


class LocalActivator:
    """The activator of a scenario.

    Attributes:
        traffic, admin: address and port for requests, and of the admin API; set by `start`.
    """

    def __init__(
        self,
        manifests: Path,
        log: Callable[[dict[str, Any]], None],
        event: Take = lambda kind, data: None,
    ) -> None:
        """
        Arguments:
            log: called with each line of its log; must return at once.
            event: called with each of its events; must return at once.
        """
        self._manifests = manifests
        self._log = log
        self._events = EventStream(event)
        self._process: Process | None = None
        self._reading: asyncio.Future[None] | None = None
        self._listens: asyncio.Future[dict[str, Any]] | None = None
        self.traffic: Where = ("", 0)
        self.admin: Where = ("", 0)

    async def start(self) -> None:
        """Start the activator, and return when it is ready.

        Raises:
            DidNotStart: it ended, or was not ready within `START_PATIENCE` seconds.
        """
        self._listens = asyncio.get_running_loop().create_future()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "activator.lab.end_with_stdin", "activator", "local"),
            *("--manifests", str(self._manifests), *OPTIONS),
            stdin=PIPE,  # the activator ends with this pipe, even if this process is killed
            stdout=DEVNULL,
            stderr=PIPE,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            start_new_session=True,  # a Ctrl-C must not reach it: the lab ends it in order
        )
        self._reading = asyncio.ensure_future(self._read(self._process))
        try:
            async with asyncio.timeout(START_PATIENCE):
                listening = await self._listens
                self.traffic = _address(listening["http"])
                self.admin = _address(listening["admin"])
                await self._events.open(*self.admin)
        except TimeoutError:
            raise DidNotStart(f"the activator was not ready after {START_PATIENCE:g} s") from None

    async def _read(self, process: Process) -> None:
        assert process.stderr is not None
        assert self._listens is not None
        last: deque[str] = deque(maxlen=SHOWN_LINES)
        async for text in process.stderr:
            line = _parsed(text)
            last.append(str(line["message"]))
            if "http" in line and not self._listens.done():
                self._listens.set_result(line)
            self._log(line)
        if not self._listens.done():
            self._listens.set_exception(DidNotStart(f"the activator ended: {'; '.join(last)}"))

    async def get(self, path: str) -> Any:
        """Return the JSON document at a path of the admin API; None for a status other than 200.

        Raises:
            OSError: no complete response.
        """
        response = await fetch(*self.admin, path)
        return json.loads(response.body) if response.status == 200 else None

    async def close(self) -> None:
        """Kill the activator, without a drain."""
        await self._events.close()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        if self._reading is not None:
            await self._reading


def _parsed(line: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict) and "message" in found:
            return found
    return {"message": line.decode(errors="replace").rstrip()}


def _address(text: str) -> Where:
    host, _, port = text.rpartition(":")
    return host, int(port)
