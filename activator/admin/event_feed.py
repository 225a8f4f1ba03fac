"""Keep the last events in a ring, and serve them by ``GET /api/v1/events``, without end.

To record an event is one append, also with slow readers. A reader has no queue, only the number of
its next event. A reader that falls behind the ring gets the number of events that it lost. The
first reader of an event makes its text. The text has the form of server-sent events
(https://html.spec.whatwg.org/multipage/server-sent-events.html), for ``curl -N``, and for
``EventSource`` in a browser. Must not know the sources of events.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from activator.admin.http_application import encode, iso, problem
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
    """One event.

    Attributes:
        made: its text, once a reader has needed it.
    """

    __slots__ = ("_at", "_what", "kind", "made", "revision")

    def __init__(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any], at: float):
        self.kind = kind
        self.revision = str(revision)
        of_knative = revision.kind is RevisionKind.REVISION
        self._what = what if of_knative else {"revisionKind": revision.kind.value, **what}
        self._at = at
        self.made = b""

    def text(self, event_id: str) -> bytes:
        if not self.made:
            data = {"time": iso(self._at), "revision": self.revision, **self._what}
            self.made = _text(self.kind.value, event_id, data)
        return self.made


class EventFeed:
    """The last events since a reader came.

    Arguments:
        events: source of events. The feed listens to it while it has readers, and for ``LINGER``
            after that.
        wall_clock: seconds since 1970, UTC.
        kept, most_readers: limits on events and readers.

    Attributes:
        last: the number of the last event.
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
        self.last = 0
        self._session = ""
        self._readers: set[EventReader] = set()
        self._end: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self._closed = asyncio.Event()
        self._turn = asyncio.Lock()

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
        start = self.last if number is None else number
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
        self._news.set()

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
        found = int(number) if len(number) < 16 else self.last + 1
        return found if found <= self.last else None

    # -- events ---------------------------------------------------------------------------------

    def _take(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        """Record an event, see records.narration.Listener."""
        self.last += 1
        self._ring.append(_Event(kind, revision, what, self._wall_clock()))
        self._news.set()

    # -- waiting for them -----------------------------------------------------------------------

    async def news(self, seconds: float) -> None:
        """Return on a new event, when the feed closes, or after this many seconds."""
        self._news.clear()
        await _set_within(seconds, self._news)

    async def pause(self, seconds: float) -> None:
        """Return after this many seconds, or when the feed closes."""
        await _set_within(seconds, self._closed)

    async def turn(self) -> None:
        """Return at this reader's turn. Each turn of the loop has one, so that requests pass."""
        async with self._turn:
            await asyncio.sleep(0)

    @property
    def closed(self) -> bool:
        """Return whether all streams must end."""
        return self._closed.is_set()

    # -- for readers ----------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """Return the number of the first event in the ring."""
        return self.last - len(self._ring) + 1

    def since(self, number: int) -> islice[_Event]:
        """Return the events in the ring from this number on."""
        return islice(self._ring, number - self.oldest, None)

    def id_of(self, number: int) -> str:
        """Return the id of an event, for clients."""
        return f"{self._session}-{number}"


async def _set_within(seconds: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


@dataclass(slots=True, eq=False)
class EventReader:
    """The position of one reader in the feed; see ``EventFeed.join``.

    Attributes:
        first: the text of its first events, until it is read.
        next: the number of its next event.
        revisions, kinds: filters; empty for all.
    """

    feed: EventFeed
    first: bytes
    next: int
    revisions: frozenset[str]
    kinds: frozenset[EventKind]

    @property
    def behind(self) -> bool:
        """Return whether the feed has an event that it has not processed."""
        return self.next <= self.feed.last

    def piece(self) -> bytes:
        """Return its next events, as many as fit into one piece; often none."""
        feed, parts = self.feed, [self.first]
        self.first = b""
        if self.next < feed.oldest:
            lost = feed.oldest - self.next
            self.next = feed.oldest
            parts.append(_text("lost", feed.id_of(self.next - 1), {"events": lost}))
        size = 0
        for event in feed.since(self.next):
            if self._wants(event):
                parts.append(text := event.text(feed.id_of(self.next)))
                size += len(text)
            self.next += 1
            if size >= PIECE:
                break
        return b"".join(parts)

    def _wants(self, event: _Event) -> bool:
        if self.kinds and event.kind not in self.kinds:
            return False
        return not self.revisions or event.revision in self.revisions


def _text(kind: str, event_id: str, data: Mapping[str, Any]) -> bytes:
    # Encoded JSON has no line ends: strings escape theirs.
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event_id.encode(), kind.encode(), encode(data))


# -- the response of each reader

MEDIA_TYPE: Final = "text/event-stream"

#: Seconds of silence after which a comment keeps the stream alive (advice of the standard).
KEEP_ALIVE: Final = 15.0
#: Seconds between two pieces for one reader: 100 readers take at most 1,000 pieces a second.
PACE: Final = 0.1

_KINDS: Final = {kind.value: kind for kind in EventKind}
_MOST_FILTERS: Final = 100

#: Error for a revision in another form.
NAMED_AS: Final = "Name a revision as in ?revision=NAMESPACE/NAME."


def names_revision(text: str) -> bool:
    """Return whether a text has the form NAMESPACE/NAME."""
    namespace, _, name = text.partition("/")
    return bool(namespace and name and "/" not in name)


def stream_events(request: Request, feed: EventFeed, hello: Mapping[str, Any]) -> Response:
    """Return the stream of events from now on, or an error response.

    Arguments:
        hello: data of the first event, which identifies the activator.
    """
    query = request.query_params
    revisions, kinds = query.getlist("revision"), query.getlist("kind")
    if wrong := _wrong(revisions, kinds):
        return problem(400, wrong)
    if request.method == "HEAD":
        return Response(media_type=MEDIA_TYPE)
    after = request.headers.get("last-event-id", "")
    try:
        reader = feed.join(hello, after, revisions, [_KINDS[kind] for kind in kinds])
    except TooManyReaders:
        detail = "The limit of event streams is reached. Close one, or try again later."
        return problem(503, detail, {"Retry-After": "10"})
    return _EventStream(feed, reader)


def _wrong(revisions: list[str], kinds: list[str]) -> str:
    if len(revisions) + len(kinds) > _MOST_FILTERS:
        return f"Use at most {_MOST_FILTERS} filters."
    if not all(map(names_revision, revisions)):
        return NAMED_AS
    if any(kind not in _KINDS for kind in kinds):
        return f"kind must be one of {', '.join(_KINDS)}."
    return ""


class _EventStream(StreamingResponse):
    """The response to one reader; its end removes the reader from the feed."""

    def __init__(self, feed: EventFeed, reader: EventReader) -> None:
        super().__init__(_pieces(feed, reader), media_type=MEDIA_TYPE)
        self._feed = feed
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.leave(self._reader)


async def _pieces(feed: EventFeed, reader: EventReader) -> AsyncIterator[bytes]:
    """Yield the pieces of one reader; the sender waits while the client does not read."""
    now = asyncio.get_running_loop().time
    silent_until = 0.0
    while not feed.closed:
        piece = reader.piece()
        if not piece and now() >= silent_until:
            piece = b": keep-alive\n\n"
        if piece:
            yield piece
            silent_until = now() + KEEP_ALIVE
        await feed.pause(PACE)
        if not (reader.behind or feed.closed):
            await feed.news(silent_until - now())
        await feed.turn()
