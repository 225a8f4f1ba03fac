"""Serve ``GET /api/v1/events``: the feed of events as a response without end.

It has server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), for
``curl -N``, and for ``EventSource`` in a browser. Must not know the events nor their sources.
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
from activator.records.narration import EventKind

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


def answer(request: Request, feed: EventFeed, hello: Mapping[str, Any]) -> Response:
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
    return EventStream(feed, reader)


def _wrong(revisions: list[str], kinds: list[str]) -> str:
    if len(revisions) + len(kinds) > _MOST_FILTERS:
        return f"Use at most {_MOST_FILTERS} filters."
    if not all(map(names_revision, revisions)):
        return NAMED_AS
    if any(kind not in _KINDS for kind in kinds):
        return f"kind must be one of {', '.join(_KINDS)}."
    return ""


class EventStream(StreamingResponse):
    """The response to one reader; its end removes the reader from the feed."""

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
