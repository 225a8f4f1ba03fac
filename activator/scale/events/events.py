"""Writes Events about Services, as ``kubectl describe service`` shows them.

No failure harms anything else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, Final

from activator.scale.cluster.api import Api, ApiUnreachable
from activator.scale.events.event_book import EventBook, EventWrite, Notice, Subject

logger = logging.getLogger(__name__)

#: Events that wait to be written; more are dropped.
MOST_WAITING: Final = 1000
#: Requests at a time.
MOST_REQUESTS: Final = 4
#: Seconds between two looks for Events to repeat.
LOOK: Final = 60.0

_RULE: Final = '{apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"]}'


class Events:
    """Writes Events.

    Arguments:
        api: sends the requests.
        start: starts a coroutine as a task.
        instance: the name of this pod.
        clock: seconds, monotonic.
        wall: the time of day.

    Attributes:
        written, failed, dropped: counts of Events.
    """

    def __init__(
        self,
        api: Api,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        instance: str,
        clock: Callable[[], float],
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._start = start
        self._clock = clock
        self._wall = wall
        self._book = EventBook(instance)
        self._waiting: deque[EventWrite] = deque()
        self._in_flight = 0
        self._timer: asyncio.TimerHandle | None = None
        self.written = self.failed = self.dropped = 0

    def report(self, subject: Subject, notices: Iterable[Notice]) -> None:
        """Write what is new about a Service.

        Arguments:
            notices: all that are present; a reason that is missing has ended.
        """
        self._add(self._book.report(subject, notices, self._clock(), self._wall()))
        if self._timer is None:
            self._set_timer()

    def remove(self, subject: Subject) -> None:
        """Remove a deleted Service; Kubernetes deletes its Events with time."""
        self._book.remove(subject)

    def close(self) -> None:
        """Repeat nothing more, and write nothing that still waits."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK, self._repeat)

    def _repeat(self) -> None:
        self._set_timer()
        self._add(self._book.repeats(self._clock(), self._wall()))

    def _add(self, writes: list[EventWrite]) -> None:
        for write in writes:
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(write)
            else:
                self._book.lost(write, again=True)
                self.dropped += 1
        while self._waiting and self._in_flight < MOST_REQUESTS:
            self._in_flight += 1
            self._start(self._carry_out())

    async def _carry_out(self) -> None:
        try:
            while self._waiting:
                await self._send(self._waiting.popleft())
        finally:
            self._in_flight -= 1

    async def _send(self, write: EventWrite) -> None:
        try:
            response = await self._api.send(*write[:4])
        except ApiUnreachable as error:
            self._note_failure(write, str(error), again=True)
            return
        if response.is_ok:
            self.written += 1
            return
        text = f"{response.status}: {response.message()}"
        if response.status == 403:
            text = f"{text}; the scaler's ClusterRole must have {_RULE}"
        # An Event that has expired is gone (404); the next one is new.
        again = response.status in (404, 409, 429) or response.status >= 500
        self._note_failure(write, text, again=again)

    def _note_failure(self, write: EventWrite, text: str, *, again: bool) -> None:
        self._book.lost(write, again=again)
        self.failed += 1
        level = logging.WARNING if self.failed == 1 else logging.DEBUG
        logger.log(
            level,
            "Service %s/%s: the Event %s could not be written: %s",
            *(write.subject.namespace, write.subject.name, write.reason, text),
        )
