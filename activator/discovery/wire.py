"""Requests lists of an API server, and decodes its responses: pages of lists, lines of watches.

Decides whether bytes are a valid list or event. It must not know the consequences. Counterpart:
client-go's rest, watch and tools/pager packages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from activator.discovery.backoff import Timings
from activator.keda.objects import GROUP, ROUTE, SCALED_OBJECT

if TYPE_CHECKING:
    from activator.discovery.api_server import AiohttpResponse, ApiServer

T = TypeVar("T")


_STATUS_TEXT_BYTES = 4096


class ConnectionLostError(Exception):
    """There is no connection, or it is lost, or the server was silent for too long."""


class ServerResponseError(Exception):
    """The server sent an error response, or a Status object in a stream.

    Attributes:
        status: the HTTP status, or the code of the Status object.
        retry_after: seconds to wait, as the server requests; 0 without such a request.
    """

    def __init__(self, status: int, reason: str, retry_after: float = 0.0) -> None:
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(f"{status}: {reason}" if reason else str(status))


class GarbledError(Exception):
    """The bytes are no list and no event. The caller must use no part of them."""


class ListMetadata(msgspec.Struct):
    """The metadata of a list: its version, and the token for its next page."""

    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """A page of a list.

    ``items`` may be null, as Go writes an empty list, but must not be missing. The items stay
    undecoded: a page of 500 would block the loop.
    """

    kind: str
    metadata: ListMetadata
    items: list[msgspec.Raw] | None


class ListedMetadata(msgspec.Struct):
    """The identity and the version of an object; null for a missing field."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None


class Listed(msgspec.Struct):
    """An object of a list; only its metadata is decoded."""

    metadata: ListedMetadata


class WatchEvent(msgspec.Struct):
    """One line of a watch; the object stays undecoded."""

    type: str
    object: msgspec.Raw


_PAGE = msgspec.json.Decoder(Page)
_EVENT = msgspec.json.Decoder(WatchEvent)
UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LISTED = msgspec.json.Decoder(Listed)
_OBJECT = msgspec.json.Decoder(dict[str, object])


def _decoded(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw | bytes, what: str) -> T:
    try:
        return decoder.decode(raw)
    except UNDECODABLE as error:
        raise GarbledError(f"{what}: {error}") from None


def decode_page(body: bytes, kind: str) -> Page:
    """Return a page of a list.

    Arguments:
        body: of the response.
        kind: the kind of the items; the list must be of exactly this kind, and have a version.

    Raises:
        GarbledError: the body is anything else. The caller must not treat it as an empty list.
    """
    page = _decoded(_PAGE, body, "the body is no list")
    if page.kind != f"{kind}List" or not page.metadata.resourceVersion:
        raise GarbledError(f"the body is no {kind}List, or has no resourceVersion")
    return page


def decode_event(line: bytes) -> tuple[str, dict[str, object]]:
    """Return the type of the event on a line, and its object. Raises ``GarbledError``."""
    event = _decoded(_EVENT, line, "the line is no event")
    return event.type, decode_object(event.object)


def decode_object(raw: msgspec.Raw | bytes) -> dict[str, object]:
    """Return one object. Raises ``GarbledError``."""
    return _decoded(_OBJECT, raw, "the value is no object")


def pack(obj: object) -> bytes:
    """Return a decoded object as text: a tenth of the memory, in one piece."""
    return msgspec.json.encode(obj)


def unpacked(packed: list[object]) -> Iterator[dict[str, object]]:
    """Yield the objects of ``pack`` in their order, and remove each from the list before that."""
    packed.reverse()
    while packed:
        text = packed.pop()
        assert isinstance(text, bytes)
        yield decode_object(text)


def decode_listed(raw: msgspec.Raw | bytes) -> ListedMetadata:
    """Return only the metadata of an object. Raises ``GarbledError``."""
    return _decoded(_LISTED, raw, "the value is no object").metadata


# client-go's page size; a smaller page is not noticeably faster.
PAGE_SIZE = 500


class WatchedResource(NamedTuple):
    """One kind of objects, and the requests for it.

    Attributes:
        kind: the kind of the objects.
        path: of the list at the server.
        selector: query parameters of lists and watches that select objects.
        optional: whether the activator starts without this resource if it cannot be read.
        may_lack: whether it starts without this resource if the server does not have the kind, or
            if no role allows to read it. It waits out every other failure.
        if_missing: a hint for people if the server does not have the kind.
        quiet: whether the log omits that it cannot be read: a dialect says what that costs.
        dialect: the name of the only dialect that gets these objects; empty if each does that reads
            their kind.
    """

    kind: str
    path: str
    selector: Mapping[str, str] = MappingProxyType({})
    optional: bool = False
    may_lack: bool = False
    if_missing: str = ""
    quiet: bool = False
    dialect: str = ""

    def advice(self, status: int) -> str:
        """Return a hint about a refused request, in parentheses; empty without one."""
        name = self.path.rpartition("/")[2]
        if status == HTTPStatus.UNAUTHORIZED:
            return " (the activator reads the credentials again)"
        if status == HTTPStatus.FORBIDDEN:
            return f" (does a role of its service account allow list and watch of {name}?)"
        if status == HTTPStatus.NOT_FOUND:
            return f" ({self.if_missing})" if self.if_missing else ""
        return ""


#: The route objects of the KEDA HTTP add-on. Its version 0.12 lacks InterceptorRoutes.
ROUTE_OBJECTS: Final = tuple(
    WatchedResource(
        kind,
        f"/apis/{GROUP}/{version}/{kind.lower()}s",
        may_lack=True,
        if_missing="is it part of the installed version of the KEDA HTTP add-on?",
    )
    for kind, version in ((SCALED_OBJECT, "v1alpha1"), (ROUTE, "v1beta1"))
)


async def pages(
    cluster: ApiServer, resource: WatchedResource, timings: Timings, version: str = ""
) -> AsyncIterator[Page]:
    """Yield the pages of one list. The list is complete only after the last page.

    Arguments:
        cluster: sends the requests.
        timings: the time-out of a page.
        version: the oldest version of the list. ``0`` accepts the server's cache; empty reads
            etcd. Source: "Resource versions" in the Kubernetes API concepts, the table for lists.

    Raises:
        ConnectionLostError, ServerResponseError, GarbledError: the list is incomplete, and the
            caller must not use it.
    """
    params = {"limit": str(PAGE_SIZE), **resource.selector}
    if version:
        params["resourceVersion"] = version
    if version not in ("", "0"):
        # Without it, a list with a limit has exactly this version, from which no watch may begin.
        params["resourceVersionMatch"] = "NotOlderThan"
    while True:
        page = await _page(cluster, resource, timings, params)
        yield page
        if not page.metadata.continue_:
            return
        # The token contains the version of the first page; a request must not repeat both.
        params.pop("resourceVersion", None)
        params.pop("resourceVersionMatch", None)
        params["continue"] = page.metadata.continue_


async def _page(
    cluster: ApiServer, resource: WatchedResource, timings: Timings, params: Mapping[str, str]
) -> Page:
    try:
        async with asyncio.timeout(timings.list_page):
            async with cluster.get(resource.path, params, timings.inactivity) as response:
                await check(response)
                body = b"".join([chunk async for chunk in response.chunks()])
    except TimeoutError:
        raise ConnectionLostError("a page of the list took too long") from None
    return decode_page(body, resource.kind)


class LineSplitter:
    """Splits a stream of bytes into lines.

    Attributes:
        held: bytes of the incomplete last line.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each line that these bytes complete, without its end; omit empty lines."""
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


async def check(response: AiohttpResponse) -> None:
    """Raise ``ServerResponseError``, with the reason in the body, unless the status is 200."""
    if response.status == HTTPStatus.OK:
        return
    body = await response.read(_STATUS_TEXT_BYTES)
    try:
        message = _OBJECT.decode(body).get("message")
    except UNDECODABLE:
        message = body[:200].decode("utf-8", "replace").strip()
    reason = ascii(message)[1:-1][:200] if isinstance(message, str) else ""
    raise ServerResponseError(response.status, reason, response.retry_after)


def status_error(status: Mapping[str, object]) -> ServerResponseError:
    """Return the error that a Status object in a stream stands for."""
    code, reason, message = (status.get(key) for key in ("code", "reason", "message"))
    if reason in ("Expired", "Gone"):
        code = HTTPStatus.GONE.value
    text = message if isinstance(message, str) else ""
    return ServerResponseError(code if type(code) is int else 0, ascii(text)[1:-1][:200])


def not_newer(version: str, known: str) -> bool:
    """Return whether a version is equal to a known one, or older.

    The versions of one kind are decimal numbers that grow, unless etcd is restored. Kubernetes
    guarantees that since 1.35; before, they were opaque. A version of another form counts as newer.

    Args:
        version: a ``resourceVersion`` of an object or a list; empty for none.
        known: the known one of the same object, or of lists of the same kind.
    """
    if not version or not known:
        return False
    if version == known:
        return True
    return _is_number(version) and _is_number(known) and int(version) < int(known)


def _is_number(version: str) -> bool:
    # int() accepts other characters as well, and refuses more than 4,300 digits.
    return len(version) < 40 and version.isascii() and version.isdigit()
