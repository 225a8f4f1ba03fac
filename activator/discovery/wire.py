"""What travels between an API server and us: requests, answers, pages of lists, lines of events.

Decides whether bytes are what was asked for. It must not know what is done about it.
Counterpart: client-go's rest and watch packages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

HTTP_OK = 200
HTTP_GONE = 410

_STATUS_TEXT_BYTES = 4096


class ConnectionLostError(Exception):
    """No connection, or it broke, or nothing came for too long."""


class ServerAnswerError(Exception):
    """The server answered something else than what was asked for.

    Attributes:
        status: the HTTP status, or the code of a Status object inside a stream.
        retry_after: seconds that the server asks to wait; 0 if it does not.
    """

    def __init__(self, status: int, reason: str, retry_after: float = 0.0) -> None:
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(f"{status}: {reason}" if reason else str(status))


class GarbledError(Exception):
    """What came is no list and no event. Nothing of it may be used."""


class Response(Protocol):
    """An answer whose head has arrived."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def retry_after(self) -> float:
        """Seconds that the server asks to wait; 0 if it does not."""

    async def read(self, limit: int) -> bytes:
        """The body, or its first ``limit`` bytes. Raises ``ConnectionLostError``."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises ``ConnectionLostError``."""


class Cluster(Protocol):
    """Sends requests to an API server, with credentials."""

    def get(
        self, path: str, params: Mapping[str, str], silence: float
    ) -> AbstractAsyncContextManager[Response]:
        """Sends a GET. ``silence``: seconds without a byte after which the connection is lost.

        Raises ``ConnectionLostError`` on entering.
        """

    def distrust_credentials(self) -> None:
        """The server refused the credentials: read them again before the next request."""


class ListMetadata(msgspec.Struct):
    """What is said of a list: its version, and where its next page begins."""

    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """A page of a list. ``items`` may be null, as Go writes an empty one, but not be missing.

    The items stay undecoded: a page of 500 at once would stall the loop.
    """

    kind: str
    metadata: ListMetadata
    items: list[msgspec.Raw] | None


class ListedMetadata(msgspec.Struct):
    """What says which object it is, and which state of it; null where it is not said."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None


class Listed(msgspec.Struct):
    """An object of a list, of which only that much is read."""

    metadata: ListedMetadata


class Event(msgspec.Struct):
    """One line of a watch; the object stays undecoded until its kind is known to matter."""

    type: str
    object: msgspec.Raw


_PAGE = msgspec.json.Decoder(Page)
_EVENT = msgspec.json.Decoder(Event)
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LISTED = msgspec.json.Decoder(Listed)
_OBJECT = msgspec.json.Decoder(dict[str, object])


def decode_page(body: bytes, kind: str) -> Page:
    """Reads a page of a list.

    Arguments:
        body: what the server sent.
        kind: the kind of the items; the list must be of exactly this kind, and have a version.

    Raises:
        GarbledError: it is anything else; it must not be taken for an empty list.
    """
    try:
        page = _PAGE.decode(body)
    except _UNDECODABLE as error:
        raise GarbledError(f"what came is no list: {error}") from None
    if page.kind != f"{kind}List" or not page.metadata.resourceVersion:
        raise GarbledError(f"what came is no {kind}List, or has no resourceVersion")
    return page


def decode_event(line: bytes) -> tuple[str, dict[str, object]]:
    """Reads a line of a watch: the type of the event and its object. Raises ``GarbledError``."""
    try:
        event = _EVENT.decode(line)
    except _UNDECODABLE as error:
        raise GarbledError(f"what came is no event: {error}") from None
    return event.type, decode_object(event.object)


def decode_object(raw: msgspec.Raw | bytes) -> dict[str, object]:
    """Reads one object. Raises ``GarbledError``."""
    try:
        return _OBJECT.decode(raw)
    except _UNDECODABLE as error:
        raise GarbledError(f"what came is no object: {error}") from None


def decode_listed(raw: msgspec.Raw | bytes) -> ListedMetadata:
    """Reads which object it is, and no more of it. Raises ``GarbledError``."""
    try:
        return _LISTED.decode(raw).metadata
    except _UNDECODABLE as error:
        raise GarbledError(f"what came is no object: {error}") from None


class Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Takes in bytes; yields each line that is complete by them, without its end.

        Empty lines are left out. ``held`` is how many bytes wait for the end of their line.
        """
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*self._parts, end)) if self._parts else end
            self._parts.clear()
            self.held = 0
            if line.strip():
                yield line
        if rest:
            self._parts.append(rest)
            self.held += len(rest)


async def check(response: Response) -> None:
    """Raises ``ServerAnswerError`` unless the answer is a good one; reads why it is not."""
    if response.status == HTTP_OK:
        return
    body = await response.read(_STATUS_TEXT_BYTES)
    try:
        message = _OBJECT.decode(body).get("message")
    except _UNDECODABLE:
        message = body[:200].decode("utf-8", "replace")
    reason = ascii(message)[1:-1][:200] if isinstance(message, str) else ""
    raise ServerAnswerError(response.status, reason, response.retry_after)


def status_error(status: Mapping[str, object]) -> ServerAnswerError:
    """What a Status object inside a stream says, as an error to raise."""
    code, reason, message = (status.get(key) for key in ("code", "reason", "message"))
    if reason in ("Expired", "Gone"):
        code = HTTP_GONE
    text = message if isinstance(message, str) else ""
    return ServerAnswerError(code if type(code) is int else 0, ascii(text)[1:-1][:200])
