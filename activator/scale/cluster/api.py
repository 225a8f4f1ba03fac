"""Sends requests to an API server, and writes one object at a time.

The back-off is the caller's: a slice has its own pauses, a workload the next tick.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar, final

from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.wire import ConnectionLostError

#: The Content-Type of a PATCH: a JSON merge patch (RFC 7396).
MERGE_PATCH: Final = "application/merge-patch+json"
JSON: Final = "application/json"


K = TypeVar("K")
W = TypeVar("W")

#: Starts a coroutine as a task.
Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class ApiUnreachable(Exception):
    """No response: no connection, or it broke, or it took too long."""


class Meaning(Enum):
    """What the response to a request means for the object.

    DONE: the API server has what was sent. CONFLICT: another component has changed the object.
    ABSENT: it does not exist. UNAVAILABLE: try again later; with 401 the API server does not accept
    the token at the moment. FORBIDDEN, REFUSED: it stays so until a person changes something.
    """

    DONE = "done"
    CONFLICT = "conflict"
    ABSENT = "absent"
    UNAVAILABLE = "unavailable"
    FORBIDDEN = "forbidden"
    REFUSED = "refused"


def meaning_of(status: int) -> Meaning:
    """Return what the status of a response means; 0 if there was no response."""
    if 200 <= status < 300:
        return Meaning.DONE
    if status in (0, 401, 429) or status >= 500:
        return Meaning.UNAVAILABLE
    known = {403: Meaning.FORBIDDEN, 404: Meaning.ABSENT, 409: Meaning.CONFLICT}
    return known.get(status, Meaning.REFUSED)


class ApiRequest(NamedTuple):
    """A request: the arguments of ``Api.send``."""

    method: str
    path: str
    body: bytes
    content_type: str = JSON


class ApiResponse(NamedTuple):
    """A whole response."""

    status: int
    body: bytes

    @property
    def is_ok(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    @property
    def meaning(self) -> Meaning:
        """What it means for the object."""
        return meaning_of(self.status)

    def decoded(self) -> object:
        """Return the body as decoded from JSON; None if it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def message(self) -> str:
        """Return the text for people of a response that is not ok."""
        status = self.decoded()
        text = status.get("message") if isinstance(status, dict) else None
        if isinstance(text, str) and text:
            return text[:1000]
        return self.body[:200].decode("utf-8", "replace").strip()


class Api:
    """Sends requests to an API server, with credentials.

    Arguments:
        server: connected by the first request.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> ApiResponse:
        """Return the response to a request.

        Raises:
            ApiUnreachable: there is none. The request may have been carried out.
        """
        try:
            return ApiResponse(*await self._server.send(method, path, body, content_type))
        except (ConnectionLostError, ClusterConfigError) as error:
            raise ApiUnreachable(str(error)) from error


@final
class Writer(Generic[K, W]):
    """Carries out writes: one at a time for each object, and a few at a time for all.

    The newest wish for an object counts. One that comes during a write of the object follows it.

    Arguments:
        start: starts a coroutine as a task.
        carry_out: carries out a wish for an object.
        most: writes at a time.
        refill: called after each write; it may put further wishes.
    """

    def __init__(
        self,
        start: Start,
        carry_out: Callable[[K, W], Coroutine[Any, Any, None]],
        most: float = float("inf"),
        refill: Callable[[], object] = lambda: None,
    ) -> None:
        self._start = start
        self._carry_out = carry_out
        self._most = most
        self._refill = refill
        self._waiting: dict[K, W] = {}
        self._next: dict[K, W] = {}
        self._writing: set[K] = set()
        self._tasks = 0

    def put(self, key: K, wish: W) -> None:
        """Carry out a wish as soon as no write of the object is under way."""
        if key in self._writing:
            self._next[key] = wish
            return
        is_new = key not in self._waiting
        self._waiting[key] = wish
        if is_new and self._tasks < self._most:
            self._tasks += 1
            self._start(self._work())

    def cancel(self, key: K) -> None:
        """Remove the wish for an object that has not begun."""
        self._waiting.pop(key, None)
        self._next.pop(key, None)

    def clear(self) -> None:
        """Remove all wishes that have not begun."""
        self._waiting.clear()
        self._next.clear()

    def is_busy(self, key: K) -> bool:
        """Return whether a wish for an object waits or is carried out."""
        return key in self._writing or key in self._waiting

    @property
    def waiting(self) -> int:
        """The number of wishes that have not begun."""
        return len(self._waiting) + len(self._next)

    @property
    def has_room(self) -> bool:
        """Whether a further wish begins at once."""
        return len(self._waiting) + len(self._writing) < self._most

    async def _work(self) -> None:
        try:
            while self._waiting:
                key = next(iter(self._waiting))
                wish = self._waiting.pop(key)
                self._writing.add(key)
                try:
                    await self._carry_out(key, wish)
                finally:
                    self._writing.discard(key)
                    if key in self._next:
                        self._waiting[key] = self._next.pop(key)
                self._refill()
        finally:
            self._tasks -= 1


def micro_time(clock: datetime) -> str:
    """Return a time as MicroTime: RFC 3339 with exactly six decimals, which Lease requires."""
    return clock.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
