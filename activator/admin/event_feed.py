"""Keep the last events in a ring, and a position in it for each reader.

To record an event is one append, also with slow readers. A reader has no queue, only the number of
its next event. A reader that falls behind the ring gets the number of events that it lost. The
first reader of an event makes its text. The text has the form of server-sent events
(https://html.spec.whatwg.org/multipage/server-sent-events.html); the module knows no other HTTP.
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
from activator.records.narration import EventKind, Events
from throttler.model import RevisionID, RevisionKind

#: Events in the ring, for slow readers, and for readers that connect again.
KEPT: Final = 1000
#: Concurrent readers. Each costs a file, and a share of the loop while many events occur.
MOST_READERS: Final = 100
#: Seconds for which the feed keeps events without readers. A reader whose connection broke
#: connects again within this time (browsers: after RETRY).
LINGER: Final = 60.0
#: Milliseconds after which a client connects again when its stream ended.
RETRY: Final = 2000
#: Maximum bytes of a piece. A reader that reads nothing holds one piece in memory, and the
#: transport's 64 KiB.
PIECE: Final = 32 << 10


class TooManyReaders(Exception):
    """There are ``MOST_READERS`` readers."""


class _Event:
    """One event, with its text once a reader has needed it."""

    __slots__ = ("_at", "_text", "_what", "kind", "revision")

    def __init__(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any], at: float):
        self.kind = kind
        self.revision = str(revision)
        is_service = revision.kind is RevisionKind.SERVICE
        self._what = {"revisionKind": revision.kind.value, **what} if is_service else what
        self._at = at
        self._text = b""

    def text(self, event_id: str) -> bytes:
        if not self._text:
            data = {"time": _iso(self._at), "revision": self.revision, **self._what}
            self._text = _text(self.kind.value, event_id, data)
        return self._text


class EventFeed:
    """The last events since a reader came.

    Arguments:
        events: source of events. The feed listens to it while it has readers, and for ``LINGER``
            after that.
        wall_clock: seconds since 1970, UTC.
        kept, most_readers: limits on events and readers.
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
        self._ring: deque[_Event] = deque(maxlen=kept)
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
        """Return the number of readers."""
        return len(self._readers)

    # -- readers --------------------------------------------------------------------------------

    def join(
        self,
        hello: Mapping[str, Any],
        after: str = "",
        revisions: Collection[str] = (),
        kinds: Collection[EventKind] = (),
    ) -> EventReader:
        """Return a new reader; the caller must call ``leave``. Call it in the event loop.

        Arguments:
            hello: data of its first event, which identifies the activator.
            after: id of the last event that the client has; empty for a new client.
            revisions, kinds: filters; empty for all.

        Raises:
            TooManyReaders: the limit of readers is reached.
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
        """Remove a reader."""
        self._readers.discard(reader)
        if not self._readers and self._session and self._end is None:
            self._end = asyncio.get_running_loop().call_later(LINGER, self._stop_listening)

    def close(self) -> None:
        """End all streams at once."""
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
            # The feed must not accept ids of another activator, or from before a gap in events.
            self._session = secrets.token_hex(4)
            self._events.listen(self._take)

    def _stop_listening(self) -> None:
        self._end = None
        if self._session:
            self._session = ""
            self._ring.clear()
            self._events.leave(self._take)

    def _number_of(self, event_id: str) -> int | None:
        """Return the number of the event with this id; None if the feed has none."""
        session, _, number = event_id.partition("-")
        if session != self._session or not (number.isascii() and number.isdigit()):
            return None
        found = int(number) if len(number) < 16 else self._last + 1
        return found if found <= self._last else None

    # -- events ---------------------------------------------------------------------------------

    def _take(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        """Record an event, see events.Listener."""
        self._last += 1
        self._ring.append(_Event(kind, revision, what, self._wall_clock()))
        if self._sleepers:
            self._wake_all()

    # -- waiting for them -----------------------------------------------------------------------

    async def news(self, seconds: float) -> None:
        """Return on a new event, when the feed closes, or after this many seconds."""
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
        """Return after this many seconds, or when the feed closes."""
        try:
            async with asyncio.timeout(seconds):
                await self._closed.wait()
        except TimeoutError:
            pass

    async def turn(self) -> None:
        """Return at this reader's turn. Each turn of the loop has one, so that requests pass."""
        sleeper = asyncio.get_running_loop().create_future()
        self._wake((sleeper,))
        await sleeper

    @property
    def closed(self) -> bool:
        """Return whether all streams must end."""
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
        if not sleeper.done():  # its client is gone
            sleeper.set_result(None)
        if self._waking:
            asyncio.get_running_loop().call_soon(self._wake_next)

    # -- for readers ----------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """Return the number of the first event in the ring."""
        return self._last - len(self._ring) + 1

    @property
    def last(self) -> int:
        """Return the number of the last event."""
        return self._last

    def since(self, number: int) -> islice[_Event]:
        """Return the events in the ring from this number on."""
        return islice(self._ring, number - self.oldest, None)

    def id_of(self, number: int) -> str:
        """Return the id of an event, for clients."""
        return f"{self._session}-{number}"


class EventReader:
    """The position of one reader in the feed; see ``EventFeed.join``."""

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
        """Return whether the feed has an event that it has not processed."""
        return self._next <= self._feed.last

    def piece(self) -> bytes:
        """Return its next events, as many as fit into one piece; often none."""
        feed, parts = self._feed, [self._first]
        self._first = b""
        if self._next < feed.oldest:
            lost = feed.oldest - self._next
            self._next = feed.oldest
            parts.append(_text("lost", feed.id_of(self._next - 1), {"events": lost}))
        size = 0
        for event in feed.since(self._next):
            if self._wants(event):
                parts.append(text := event.text(feed.id_of(self._next)))
                size += len(text)
            self._next += 1
            if size >= PIECE:
                break
        return b"".join(parts)

    def _wants(self, event: _Event) -> bool:
        if self._kinds and event.kind not in self._kinds:
            return False
        return not self._revisions or event.revision in self._revisions


def _text(kind: str, event_id: str, data: Mapping[str, Any]) -> bytes:
    # Encoded JSON has no line ends: strings escape theirs.
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id.encode(), kind.encode(), encode(data))


def _iso(seconds: float) -> str:
    """Return a time in RFC 3339, UTC, with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")
