"""Writes the takeover slices: one request at a time for each slice, a few at a time for all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from activator.scale.cluster.api import Api, ApiResponse, ApiUnreachable
from activator.scale.reports.load import Name
from activator.scale.takeover.takeovers import Takeovers
from activator.scale.takeover.writes import Write

logger = logging.getLogger(__name__)

#: Requests at a time: a change of the activators changes the slices of all sleeping Services.
MOST_REQUESTS: Final = 16


class SliceWriter:
    """Carries out the writes of ``Takeovers``.

    Arguments:
        api: sends the requests.
        takeovers: decides them.
        start: starts a coroutine as a task.
        clock: seconds, monotonic.
        is_leader: returns whether this process decides; others write nothing.
        changed: called with a Service after each response for one of its slices.
    """

    def __init__(
        self,
        api: Api,
        takeovers: Takeovers,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        clock: Callable[[], float],
        is_leader: Callable[[], bool],
        changed: Callable[[Name], None],
    ) -> None:
        self._api = api
        self._takeovers = takeovers
        self._start = start
        self._clock = clock
        self._is_leader = is_leader
        self._changed = changed
        self._in_flight = 0
        self._timer: asyncio.TimerHandle | None = None

    def poke(self) -> None:
        """Send the requests that are due. Call it after each event that ``Takeovers`` gets."""
        self._cancel_timer()
        if not self._is_leader():
            return
        while self._in_flight < MOST_REQUESTS:
            write = self._takeovers.due(self._clock())
            if write is None:
                self._set_timer()
                return
            self._in_flight += 1
            self._start(self._carry_out(write))

    def close(self) -> None:
        """Send no further request by itself."""
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        at = self._takeovers.next()
        if at < float("inf"):
            wait = max(at - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(wait, self.poke)

    async def _carry_out(self, write: Write) -> None:
        response, message = ApiResponse(0, b""), ""
        try:
            response = await self._api.send(*write.request)
            message = "" if response.is_ok else response.message()
        except ApiUnreachable as error:
            message = str(error)
        finally:
            # Also when the task is cancelled: the slice must not count as being written.
            self._in_flight -= 1
            name = self._takeovers.done(
                write, response.status, response.decoded(), message, self._clock()
            )
        self._note(write, response, message)
        self._changed(name)
        self.poke()

    def _note(self, write: Write, response: ApiResponse, message: str) -> None:
        method, key = write.request.method, write.key
        if response.is_ok:
            logger.info("EndpointSlice %s/%s: %s", key.namespace, key.name, method)
        else:
            level = logging.DEBUG if response.status == 409 else logging.WARNING
            logger.log(
                level, "EndpointSlice %s/%s: %s failed: %s", *key, method, message or "no text"
            )
