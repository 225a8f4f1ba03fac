"""A control plane in memory: requests in, responses and watches out; its socket, over HTTP/1.1.

:mod:`.writes` creates and changes objects. This module decides what a request is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from activator.lab.control_plane import api, store
from activator.lab.control_plane.writes import MERGE_PATCH, WriteRequest, Writes, decoded, scale_of
from activator.lab.http1 import (
    JSON,
    READ_BYTES,
    Connection,
    HttpRequest,
    HttpResponse,
    HttpServer,
    render_chunk,
    render_head,
    text,
)

Object = dict[str, Any]

#: The verb of RBAC for each method on one object.
_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_HEALTH = ("/healthz", "/livez", "/readyz")


class PlaneCall(NamedTuple):
    """A request as RBAC judges it; empty fields mean all namespaces, a list, no subresource."""

    verb: str = ""
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def right(self) -> api.Right:
        """The right that the call needs."""
        rest = f"/{self.subresource}" if self.subresource else ""
        return api.Right(self.verb, self.group, self.resource + rest)


def utc_now() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


class ControlPlane:
    """The API server and its garbage collector. It needs a running loop.

    Attributes:
        store, writes, resources: its objects, what changes them, and its kinds.
        calls: all requests for objects so far.
        is_away: whether connections break and new ones are refused.
    """

    def __init__(
        self,
        resources: Iterable[api.ApiKind] = api.BUILT_IN,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """
        Arguments:
            clock: the time of day, for times in objects.
        """
        self.store = store.PlaneStore()
        self.resources = api.ApiKinds(resources)
        self.calls: list[PlaneCall] = []
        self.is_away = False
        self.writes = Writes(self.store, clock)
        self._garbage = store.GarbageCollector(self.store, partial(self.act, "delete"))
        self._watches: set[store.PlaneWatch] = set()
        self._on_away: list[Callable[[], object]] = []

    def close(self) -> None:
        """End all watches and timers."""
        self._garbage.close()
        for watch in list(self._watches):
            watch.close()

    def on_away(self, action: Callable[[], object]) -> None:
        """Call a function each time that connections break."""
        self._on_away.append(action)

    def go_away(self) -> None:
        """Break all connections, and refuse new ones until `come_back`."""
        self.is_away = True
        self.hang_up()

    def come_back(self) -> None:
        """End the effect of `go_away`."""
        self.is_away = False

    def hang_up(self) -> None:
        """Break all connections."""
        for watch in list(self._watches):
            watch.break_off()
        self._watches.clear()
        for action in self._on_away:
            action()

    def fall_silent(self) -> None:
        """Send nothing more on the present watches, and do not end them; new ones work."""
        for watch in self._watches:
            watch.fall_silent()

    def act(
        self,
        verb: str,
        resource: api.ApiKind,
        namespace: str,
        name: str = "",
        body: Object | None = None,
        subresource: str = "",
    ) -> Object:
        """Carry out a request of Kubernetes' own components; faults have no effect on it.

        Arguments:
            verb: get, create, update, patch or delete.

        Raises:
            ApiError: the server refuses it.
        """
        kind = MERGE_PATCH if verb == "patch" else JSON
        context = WriteRequest(
            api.ApiPath(resource, namespace, name, subresource), {}, kind, "kube"
        )
        response = self._answered(verb, context, json.dumps(body or {}).encode())
        found: Object = json.loads(response.body)
        return found

    async def send(self, request: HttpRequest) -> HttpResponse | store.PlaneWatch:
        """Return the response to a request, or a watch, which the caller must `close`.

        Raises:
            ConnectionError: the server is away.
        """
        if self.is_away:
            raise ConnectionRefusedError("the API server is away")
        return self.handle(request)

    def handle(self, request: HttpRequest) -> HttpResponse | store.PlaneWatch:
        """Return the response to a request, or a watch, at once."""
        try:
            return self._handled(request)
        except api.ApiError as error:
            return error.response()

    def released(self, watch: store.PlaneWatch) -> None:
        """Close a watch whose client has left."""
        watch.close()
        self._watches.discard(watch)

    @property
    def watches(self) -> int:
        """The number of open watches."""
        return len(self._watches)

    def _handled(self, request: HttpRequest) -> HttpResponse | store.PlaneWatch:
        path, query, kind = request.path, request.query, request.header("content-type")
        if path in _HEALTH:
            return text(200, "ok")
        if request.method == "GET" and (found := api.document(self.resources, path)):
            return _json(found)
        place = self.resources.find(path)
        if place is None or request.method not in _VERBS:
            raise api.PageNotFound
        call = _call(request.method, place, query)
        self.calls.append(call)
        if kind.startswith(_PROTOBUF):
            raise api.unknown_format(JSON)
        if place.resource == api.ACCESS_REVIEWS:
            return self._reviewed(decoded(request.body))
        context = WriteRequest(place, query, kind, request.header("user-agent"))
        return self.respond(call, context, request.body)

    def may(self, right: api.Right) -> bool:
        """Return whether the user has a right: each one here."""
        return True

    def respond(
        self, call: PlaneCall, context: WriteRequest, body: bytes
    ) -> HttpResponse | store.PlaneWatch:
        """Return the response to a request for objects.

        Raises:
            ApiError: the server refuses it.
        """
        if call.verb == "watch":
            return self._watch(context.place, context.query)
        return self._answered(call.verb, context, body)

    def _answered(self, verb: str, context: WriteRequest, body: bytes) -> HttpResponse:
        place, writes = context.place, self.writes
        if (verb, place.resource, place.subresource) == ("patch", api.PODS, "resize"):
            return _json(writes.resize(context, body))
        if place.subresource and not (place.subresource == "scale" and place.resource.scalable):
            raise api.no_resource()
        match verb:
            case "list":
                return _json(store.listed(self.store, place, context.query))
            case "get":
                found = writes.existing(place)
                return _json(scale_of(place.resource, found) if place.subresource else found)
            case "create":
                return _json(writes.create(context, body), 201)
            case "update":
                return _json(*writes.update(context, body))
            case "patch":
                return _json(writes.patch(context, body))
            case "delete":
                return _json(writes.delete(context, body))
        raise api.ApiError(405, "MethodNotAllowed", "the server does not allow this method")

    def _reviewed(self, review: Object) -> HttpResponse:
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        asked = {name: value for name, value in asked.items() if value}
        call = PlaneCall(**{name: asked[name] for name in PlaneCall._fields if name in asked})
        status = {"allowed": self.may(call.right)}
        kind = {"kind": api.ACCESS_REVIEWS.kind, "apiVersion": api.ACCESS_REVIEWS.api_version}
        spec = {"resourceAttributes": asked}
        return _json({**kind, "metadata": {}, "spec": spec, "status": status}, 201)

    def _watch(self, place: api.ApiPath, query: Mapping[str, str]) -> store.PlaneWatch:
        if place.name:
            query = {**query, "fieldSelector": f"metadata.name={place.name}"}
        version = query.get("resourceVersion", "")
        if version and not version.isdigit():
            raise api.internal(store.unparsed(version))
        watch = store.PlaneWatch(self.store, place, query)
        self._watches.add(watch)
        return watch


def _call(method: str, place: api.ApiPath, query: dict[str, str]) -> PlaneCall:
    verb, resource, name = _VERBS[method], place.resource, place.name
    if method == "GET" and query.get("watch") in ("true", "1"):
        verb = "watch"
    elif not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    field, _, selected = query.get("fieldSelector", "").partition("=")
    if verb in ("list", "watch") and field == "metadata.name":
        name = name or selected
    return PlaneCall(
        verb, resource.group, resource.plural, place.namespace, name, place.subresource
    )


def _json(found: Object, status: int = 200) -> HttpResponse:
    return HttpResponse(status, json.dumps(found, separators=(",", ":")).encode(), JSON)


#: The file's name in the folder of `PlaneServer.write_kubeconfig`.
KUBECONFIG: Final = "kubeconfig"


class PlaneServer:
    """The sockets of one control plane.

    Attributes:
        host, port: where it listens; the port is set by `start`.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.host, self.port = "127.0.0.1", 0
        self._plane = plane
        self._server = HttpServer(self._respond)
        plane.on_away(self._server.break_off)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the kernel has no free port.
        """
        await self._server.start(self.host, 0)
        self.port = self._server.port

    async def close(self) -> None:
        """Stop listening, and break all connections."""
        self._server.break_off()
        self._server.close()
        await self._server.wait_closed()

    def write_kubeconfig(self, folder: Path) -> Path:
        """Write a kubeconfig for this server into a folder, and return its path.

        It is JSON, which is YAML too.

        Raises:
            OSError: the folder cannot be written to.
        """
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": {"server": f"http://{self.host}:{self.port}"}}],
            "users": [{"name": "lab", "user": {"token": "lab"}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "current-context": "lab",
        }
        path = folder / KUBECONFIG
        path.write_text(json.dumps(config))
        return path

    async def _respond(self, request: HttpRequest, connection: Connection) -> None:
        response = await self._plane.send(request)
        if isinstance(response, store.PlaneWatch):
            await self._stream(response, connection)
        else:
            await connection.send(request, response)

    async def _stream(self, watch: store.PlaneWatch, connection: Connection) -> None:
        """Send a watch until it ends or the client closes the connection."""
        writer = connection.writer
        head = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
        writer.write(render_head(200, [*head, ("Connection", "close")]))
        leaving = asyncio.ensure_future(_closed(connection.reader, watch))
        try:
            async for line in watch.lines():
                if writer.is_closing():
                    return
                writer.write(render_chunk(line))
                await writer.drain()
            if not writer.is_closing():
                writer.write(render_chunk(b""))
        finally:
            self._plane.released(watch)
            leaving.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await leaving
            writer.close()


async def _closed(reader: asyncio.StreamReader, watch: store.PlaneWatch) -> None:
    """End a watch when its client closes the connection."""
    try:
        while await reader.read(READ_BYTES):
            pass
    finally:
        watch.close()
