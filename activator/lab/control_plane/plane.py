"""A control plane in memory: requests in, responses and watches out.

:mod:`.writes` creates and changes objects. This module decides what a request is, and whether the
user may send it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from activator.lab.control_plane.faults import Faults, Right
from activator.lab.control_plane.reads import PlaneWatch, listed, unparsed
from activator.lab.control_plane.resources import (
    ACCESS_REVIEWS,
    BUILT_IN,
    ApiKind,
    ApiKinds,
    ApiPath,
    document,
)
from activator.lab.control_plane.status import (
    JSON,
    ApiError,
    PageNotFound,
    PlaneResponse,
    forbidden,
    internal,
    no_resource,
    unknown_format,
)
from activator.lab.control_plane.store import GarbageCollector, PlaneStore
from activator.lab.control_plane.validation import ValidationRules
from activator.lab.control_plane.writes import MERGE_PATCH, WriteRequest, Writes, decoded, scale_of

Object = dict[str, Any]

#: The verb of RBAC for each method on one object.
_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_HEALTH = ("/healthz", "/livez", "/readyz")


class PlaneRequest(NamedTuple):
    """One request.

    Attributes:
        target: path and query.
        agent: the client's user agent.
    """

    method: str
    target: str
    body: bytes = b""
    content_type: str = JSON
    agent: str = ""


class PlaneCall(NamedTuple):
    """A request as RBAC judges it; empty fields mean all namespaces, a list, no subresource."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def right(self) -> Right:
        """The right that the call needs."""
        rest = f"/{self.subresource}" if self.subresource else ""
        return Right(self.verb, self.group, self.resource + rest)


def utc_now() -> datetime:
    """Return the time of day."""
    return datetime.now(UTC)


class ControlPlane:
    """The API server and its garbage collector. It needs a running loop.

    Attributes:
        store, faults, resources: its objects, its faults and its kinds.
        calls: all requests for objects so far.
    """

    def __init__(
        self,
        resources: Iterable[ApiKind] = BUILT_IN,
        rules: ValidationRules = ValidationRules(),  # noqa: B008  never changed
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """
        Arguments:
            clock: the time of day, for times in objects.
        """
        self.store = PlaneStore()
        self.faults = Faults()
        self.resources = ApiKinds(resources)
        self.calls: list[PlaneCall] = []
        self._writes = Writes(self.store, self.faults, rules, clock)
        self._garbage = GarbageCollector(self.store, partial(self.act, "delete"))
        self._watches: set[PlaneWatch] = set()
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
        self.faults.is_away = True
        self.hang_up()

    def come_back(self) -> None:
        """End the effect of `go_away`."""
        self.faults.is_away = False

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
        resource: ApiKind,
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
        context = WriteRequest(ApiPath(resource, namespace, name, subresource), {}, kind, "kube")
        response = self._answered(verb, context, json.dumps(body or {}).encode())
        found: Object = json.loads(response.body)
        return found

    async def send(
        self, method: str, target: str, body: bytes = b"", content_type: str = JSON, agent: str = ""
    ) -> PlaneResponse | PlaneWatch:
        """Return the response to a request, or a watch, which the caller must `close`.

        Raises:
            ConnectionError: the server is away.
        """
        if self.faults.delay:
            await asyncio.sleep(self.faults.delay)
        if self.faults.is_away:
            raise ConnectionRefusedError("the API server is away")
        return self.handle(PlaneRequest(method, target, body, content_type, agent))

    def handle(self, request: PlaneRequest) -> PlaneResponse | PlaneWatch:
        """Return the response to a request, or a watch, at once."""
        try:
            return self._handled(request)
        except ApiError as error:
            return error.response()

    def released(self, watch: PlaneWatch) -> None:
        """Close a watch whose client has left."""
        watch.close()
        self._watches.discard(watch)

    @property
    def watches(self) -> int:
        """The number of open watches."""
        return len(self._watches)

    def _handled(self, request: PlaneRequest) -> PlaneResponse | PlaneWatch:
        path, _, query_text = request.target.partition("?")
        path, query = unquote(path), dict(parse_qsl(query_text, keep_blank_values=True))
        if path in _HEALTH:
            return PlaneResponse(200, b"ok", "text/plain; charset=utf-8")
        if request.method == "GET" and (found := document(self.resources, path)):
            return _json(found)
        place = self.resources.find(path)
        if place is None or request.method not in _VERBS:
            raise PageNotFound
        call = _call(request.method, place, query)
        self.calls.append(call)
        if request.content_type.startswith(_PROTOBUF):
            raise unknown_format(JSON)
        if place.resource == ACCESS_REVIEWS:
            return self._reviewed(decoded(request.body))
        self._authorize(call, place)
        scripted = self.faults.scripted(call.verb, call.right.resource)
        if scripted is not None:
            return scripted
        if call.verb == "watch":
            return self._watch(place, query)
        context = WriteRequest(place, query, request.content_type, request.agent)
        return self._answered(call.verb, context, request.body)

    def _answered(self, verb: str, context: WriteRequest, body: bytes) -> PlaneResponse:
        place, writes = context.place, self._writes
        if place.subresource and not (place.subresource == "scale" and place.resource.scalable):
            raise no_resource()
        match verb:
            case "list":
                return _json(listed(self.store, place, context.query))
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
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method")

    def _authorize(self, call: PlaneCall, place: ApiPath) -> None:
        if not self.faults.may(call.right):
            raise forbidden(
                place.resource,
                call.name,
                self.faults.user,
                call.verb,
                call.subresource,
                call.namespace,
            )

    def _reviewed(self, review: Object) -> PlaneResponse:
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        asked = {name: value for name, value in asked.items() if value}
        words = [asked.get(name, "") for name in ("verb", "group", "resource")]
        part = asked.get("subresource", "")
        right = Right(words[0], words[1], f"{words[2]}/{part}" if part else words[2])
        status = {"allowed": self.faults.may(right)}
        kind = {"kind": ACCESS_REVIEWS.kind, "apiVersion": ACCESS_REVIEWS.api_version}
        spec = {"resourceAttributes": asked}
        return _json({**kind, "metadata": {}, "spec": spec, "status": status}, 201)

    def _watch(self, place: ApiPath, query: dict[str, str]) -> PlaneWatch:
        if place.name:
            query = {**query, "fieldSelector": f"metadata.name={place.name}"}
        version = query.get("resourceVersion", "")
        if version and not version.isdigit():
            raise internal(unparsed(version))
        watch = PlaneWatch(self.store, place, query, self.faults.bookmark_period)
        self._watches.add(watch)
        return watch


def _call(method: str, place: ApiPath, query: dict[str, str]) -> PlaneCall:
    verb = _VERBS[method]
    watches = query.get("watch") in ("true", "1")
    if method == "GET" and (watches or not place.name):
        verb = "watch" if watches else "list"
    if method == "DELETE" and not place.name:
        verb = "deletecollection"
    resource = place.resource
    name = place.name
    if not name and verb in ("list", "watch"):
        field = query.get("fieldSelector", "")
        name = field.removeprefix("metadata.name=") if field.startswith("metadata.name=") else ""
    return PlaneCall(
        verb, resource.group, resource.plural, place.namespace, name, place.subresource
    )


def _json(found: Object, status: int = 200) -> PlaneResponse:
    return PlaneResponse(status, json.dumps(found, separators=(",", ":")).encode())
