"""``GET /api/v1/events``: the feed as an answer that does not end.

Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html): ``curl -N``
reads it, and ``EventSource`` in a browser. Must not know what happens, nor who tells it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from activator.admin.event_feed import EventFeed, EventReader, TooManyReaders
from activator.admin.problems import problem
from activator.records.events import EventKind

MEDIA_TYPE: Final = "text/event-stream"

#: Seconds of silence after which a comment says that the stream lives (the standard's advice).
KEEP_ALIVE: Final = 15.0
#: Seconds between two pieces for one reader: 100 of them make 1,000 pieces a second at most.
PACE: Final = 0.1

_KINDS: Final = {kind.value: kind for kind in EventKind}
_MOST_FILTERS: Final = 100


#: What is said where a revision is named otherwise.
NAMED_AS: Final = "A revision is named as in ?revision=NAMESPACE/NAME."


def names_revision(text: str) -> bool:
    """Return whether this is NAMESPACE/NAME."""
    namespace, _, name = text.partition("/")
    return bool(namespace and name and "/" not in name)


def answer(request: Request, feed: EventFeed, hello: Mapping[str, Any]) -> Response:
    """Return the stream of what happens from now on, or why there is none.

    Arguments:
        hello: what the first event says of us.
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
        detail = "As many streams of events are read as may be; close one, or ask another time."
        return problem(503, detail, {"Retry-After": "10"})
    return EventStream(feed, reader)


def _wrong(revisions: list[str], kinds: list[str]) -> str:
    if len(revisions) + len(kinds) > _MOST_FILTERS:
        return f"There are more than {_MOST_FILTERS} filters."
    if not all(map(names_revision, revisions)):
        return NAMED_AS
    if any(kind not in _KINDS for kind in kinds):
        return f"A kind is one of {', '.join(_KINDS)}."
    return ""


class EventStream(StreamingResponse):
    """The answer to one reader; whichever way it ends, the reader has left then."""

    def __init__(self, feed: EventFeed, reader: EventReader) -> None:
        super().__init__(_pieces(feed, reader), media_type=MEDIA_TYPE)
        self._feed = feed
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._feed.leave(self._reader)


async def _pieces(feed: EventFeed, reader: EventReader) -> AsyncIterator[bytes]:
    """Yield what there is to read; whoever sends waits for a client that does not take it."""
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
