"""The last events, and who reads them: a ring, and a place in it for each reader.

Taking an event is an append, whoever reads and however slowly: a reader has no queue of its own,
only the number of the event that it reads next. One that falls behind the ring is told how many
events it lost. Text is made when the first reader comes to an event. Knows no HTTP but the form
of the text: server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from activator.admin.streaming import encode
from activator.records.events import EventKind, Events
from throttler.model import RevisionID

#: Events that are kept: for those who read slowly, and for those who come back.
KEPT: Final = 1000
#: Who may read at a time. Each costs a file, and a share of the loop while much happens.
MOST_READERS: Final = 100
#: Seconds for which events are kept when nobody reads any more: a reader whose connection broke
#: comes back within this (browsers: after RETRY).
LINGER: Final = 60.0
#: Milliseconds after which a client whose stream ended is to come back.
RETRY: Final = 2000
#: Bytes after which a piece is sent: what a reader that takes nothing holds in memory at most,
#: besides the transport's own 64 KiB.
PIECE: Final = 32 << 10


class TooManyReaders(Exception):
    """``MOST_READERS`` read already."""


class _Told:
    """One event, and its text once somebody has asked for it."""

    __slots__ = ("_at", "_text", "_what", "kind", "revision")

    def __init__(self, kind: EventKind, revision: str, what: Mapping[str, Any], at: float):
        self.kind = kind
        self.revision = revision
        self._what = what
        self._at = at
        self._text = b""

    def text(self, event_id: str) -> bytes:
        if not self._text:
            data = {"time": _iso(self._at), "revision": self.revision, **self._what}
            self._text = _text(self.kind.value, event_id, data)
        return self._text


class EventFeed:
    """All events since somebody began to read, as far as they are kept.

    Arguments:
        events: where they come from. It is listened to while somebody reads, and ``LINGER`` longer.
        wall_clock: seconds since 1970, UTC.
        kept, most_readers: bounds.
    """

    def __init__(
        self,
        events: Events,
        wall_clock: Callable[[], float] = time.time,
        kept: int = KEPT,
        most_readers: int = MOST_READERS,
    ) -> None:
        self._events = events
        self._wall_clock = wall_clock
        self._ring: deque[_Told] = deque(maxlen=kept)
        self._most_readers = most_readers
        self._last = 0
        self._session = ""
        self._readers: set[EventReader] = set()
        self._sleepers: list[asyncio.Future[None]] = []
        self._waking: deque[asyncio.Future[None]] = deque()
        self._end: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()

    @property
    def readers(self) -> int:
        """How many read."""
        return len(self._readers)

    # -- readers --------------------------------------------------------------------------------

    def join(
        self,
        hello: Mapping[str, Any],
        after: str = "",
        revisions: Collection[str] = (),
        kinds: Collection[EventKind] = (),
    ) -> EventReader:
        """Return a new reader; the caller says ``leave`` for it. Call it in the event loop.

        Arguments:
            hello: data of the first event that it gets, which says who we are.
            after: the id of the last event that the client knows; empty for a new client.
            revisions, kinds: what it wants to hear of; empty for all.

        Raises:
            TooManyReaders: there are as many as may be.
        """
        if len(self._readers) >= self._most_readers:
            raise TooManyReaders
        self._listen()
        number = self._number_of(after)
        start = self._last if number is None else number
        first = f"retry: {RETRY}\n".encode() + _text("hello", self.id_of(start), hello)
        if after and number is None:
            first += _text("lost", self.id_of(start), {"events": None})
        reader = EventReader(self, first, start + 1, frozenset(revisions), frozenset(kinds))
        self._readers.add(reader)
        return reader

    def leave(self, reader: EventReader) -> None:
        """Forget a reader."""
        self._readers.discard(reader)
        if not self._readers and self._session and self._end is None:
            self._end = asyncio.get_running_loop().call_later(LINGER, self._stop_listening)

    def close(self) -> None:
        """End all streams, at once."""
        if self._end is not None:
            self._end.cancel()
        self._stop_listening()
        self._closed.set()
        self._wake_all()

    def _listen(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if not self._session:
            # An id of another activator, or of a time between which something was missed, must
            # not pass for one of ours.
            self._session = secrets.token_hex(4)
            self._events.listen(self._take)

    def _stop_listening(self) -> None:
        self._end = None
        if self._session:
            self._session = ""
            self._ring.clear()
            self._events.leave(self._take)

    def _number_of(self, event_id: str) -> int | None:
        """Return which event of ours an id names; None if none."""
        session, _, number = event_id.partition("-")
        if session != self._session or not (number.isascii() and number.isdigit()):
            return None
        found = int(number) if len(number) < 16 else self._last + 1
        return found if found <= self._last else None

    # -- events ---------------------------------------------------------------------------------

    def _take(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        """See events.Listener."""
        self._last += 1
        self._ring.append(_Told(kind, str(revision), what, self._wall_clock()))
        if self._sleepers:
            self._wake_all()

    # -- waiting for them -----------------------------------------------------------------------

    async def news(self, seconds: float) -> None:
        """Return when there is a new event, or the feed is closed, or after so many seconds."""
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        try:
            async with asyncio.timeout(seconds):
                await sleeper
        except TimeoutError:
            pass
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    async def pause(self, seconds: float) -> None:
        """Return after so many seconds, or when the feed is closed."""
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            pass

    async def turn(self) -> None:
        """Return when it is this reader's turn: one a turn of the loop, so that requests pass."""
        sleeper = asyncio.get_running_loop().create_future()
        self._wake((sleeper,))
        await sleeper

    @property
    def closed(self) -> bool:
        """Whether all streams are to end."""
        return self._closed.is_set()

    def _wake_all(self) -> None:
        self._wake(self._sleepers)
        self._sleepers.clear()

    def _wake(self, sleepers: Iterable[asyncio.Future[None]]) -> None:
        idle = not self._waking
        self._waking.extend(sleepers)
        if idle and self._waking:
            asyncio.get_running_loop().call_soon(self._wake_next)

    def _wake_next(self) -> None:
        sleeper = self._waking.popleft()
        if not sleeper.done():  # its client has left
            sleeper.set_result(None)
        if self._waking:
            asyncio.get_running_loop().call_soon(self._wake_next)

    # -- for readers ----------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """The number of the first event that is kept."""
        return self._last - len(self._ring) + 1

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self._last

    def since(self, number: int) -> islice[_Told]:
        """Return the kept events from that number on."""
        return islice(self._ring, number - self.oldest, None)

    def id_of(self, number: int) -> str:
        """Return what clients know an event by."""
        return f"{self._session}-{number}"


class EventReader:
    """One reader's place in the feed; see ``EventFeed.join``."""

    __slots__ = ("_feed", "_first", "_kinds", "_next", "_revisions")

    def __init__(
        self,
        feed: EventFeed,
        first: bytes,
        number: int,
        revisions: frozenset[str],
        kinds: frozenset[EventKind],
    ) -> None:
        self._feed = feed
        self._first = first
        self._next = number
        self._revisions = revisions
        self._kinds = kinds

    @property
    def behind(self) -> bool:
        """Whether there is an event that it has not looked at."""
        return self._next <= self._feed.last

    def piece(self) -> bytes:
        """Return what it has not read yet, as far as it fits into one piece; often nothing."""
        feed, parts = self._feed, [self._first]
        self._first = b""
        if self._next < feed.oldest:
            lost = feed.oldest - self._next
            self._next = feed.oldest
            parts.append(_text("lost", feed.id_of(self._next - 1), {"events": lost}))
        size = 0
        for told in feed.since(self._next):
            if self._wants(told):
                parts.append(text := told.text(feed.id_of(self._next)))
                size += len(text)
            self._next += 1
            if size >= PIECE:
                break
        return b"".join(parts)

    def _wants(self, told: _Told) -> bool:
        if self._kinds and told.kind not in self._kinds:
            return False
        return not self._revisions or told.revision in self._revisions


def _text(kind: str, event_id: str, data: Mapping[str, Any]) -> bytes:
    # JSON has no line end outside of strings, and escapes those inside.
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id.encode(), kind.encode(), encode(data))


def _iso(seconds: float) -> str:
    """Return a time as RFC 3339 has it, in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
