"""An API server that sends exactly the bytes that a test chooses.

``objects`` feeds lists and watches; responses in ``script`` come before that. The server uses raw
asyncio: HTTP libraries refuse to send many of the faults. As the real one, it sends a list of
exactly the requested version if the request has a limit and no ``resourceVersionMatch``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.ports import hold, port_of

KINDS = {
    "revisions": "Revision",
    "services": "Service",
    "endpoints": "Endpoints",
    "configmaps": "ConfigMap",
    "endpointslices": "EndpointSlice",
    "secrets": "Secret",
    "deployments": "Deployment",
    "statefulsets": "StatefulSet",
    "httpscaledobjects": "HTTPScaledObject",
    "interceptorroutes": "InterceptorRoute",
}


class Call(NamedTuple):
    """One request as RBAC judges it.

    ``namespace`` is empty for all namespaces, ``name`` for requests without a single object.
    """

    group: str
    resource: str
    namespace: str
    verb: str
    name: str = ""


@dataclass(frozen=True)
class Request:
    """A request of a client, and the loop's time at which it came."""

    kind: str
    is_watch: bool
    params: dict[str, str]
    headers: dict[str, str]
    at: float
    call: Call | None = None


@dataclass(frozen=True)
class Answer:
    """What to send: a status, headers, a body, and how it ends.

    ``end`` is ``close`` after a whole body, or ``hold`` to keep the stream open. ``cut`` closes in
    the middle of the body, ``reset`` breaks the connection, ``silence`` sends no head.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    end: str = "close"


def event(event_type: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": event_type, "object": obj}).encode() + b"\n"


def expired() -> dict[str, Any]:
    return {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


class FakeApiServer:
    """Listen on a loopback port while the server is entered."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in KINDS.values()}
        self.version = 100
        self.git_version = "v1.35.2+k3s1"
        self.script: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self.always: dict[tuple[str, str], Answer] = {}
        self.requests: list[Request] = []
        self.page_size = 500
        self.first_of_watches = 0  # the version of the server's cache after a restart
        # Version, kind, name, and the object before the change.
        self._changes: list[tuple[int, str, str, dict[str, Any] | None]] = []
        self._streams: dict[str, list[tuple[Request, asyncio.StreamWriter]]] = defaultdict(list)
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._held: socket.socket | None = None  # keeps the port after ``stop``
        self.port = 0

    async def __aenter__(self) -> Self:
        if self._held is None:
            self._held = hold()
            self.port = port_of(self._held)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()
        if self._held is not None:
            self._held.close()

    async def stop(self) -> None:
        """Stop listening, and break every connection."""
        self._server.close()
        await self.hang_up()

    async def hang_up(self) -> None:
        """Break every connection, and continue to listen."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def kubeconfig(self, folder: Path, token: str = "t1", certificate_authority: str = "") -> str:
        """Write a kubeconfig for this server; it uses TLS if there is an authority."""
        path = folder / "kubeconfig"
        cluster = {"server": f"http://127.0.0.1:{self.port}"}
        if certificate_authority:
            cluster = {
                "server": f"https://127.0.0.1:{self.port}",
                "certificate-authority": certificate_authority,
            }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(yaml.safe_dump(config))
        return str(path)

    def put(self, obj: dict[str, Any], event_type: str = "") -> bytes:
        """Store an object under the next version, and send the event to the open watches."""
        self.version += 1
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.version)
        known = self.objects[obj["kind"]]
        self._note(obj["kind"], metadata["name"])
        line = event(event_type or ("MODIFIED" if metadata["name"] in known else "ADDED"), obj)
        known[metadata["name"]] = obj
        self._tell(obj, line)
        return line

    def delete(self, kind: str, name: str, *, tell: bool = True) -> None:
        """Delete an object; send the event to the open watches unless ``tell`` is false."""
        self.version += 1
        self._note(kind, name)
        old = self.objects[kind].pop(name)
        obj = {**old, "metadata": {**old["metadata"], "resourceVersion": str(self.version)}}
        if tell:
            self._tell(obj, event("DELETED", obj))

    def _note(self, kind: str, name: str) -> None:
        self._changes.append((self.version, kind, name, self.objects[kind].get(name)))

    def _as_of(self, kind: str, version: int) -> dict[str, dict[str, Any]]:
        """Return the objects of a kind as they were at a version."""
        found = dict(self.objects[kind])
        for at, of, name, before in reversed(self._changes):
            if at > version and of == kind:
                found.pop(name, None)
                if before is not None:
                    found[name] = before
        return found

    def send(self, kind: str, line: bytes) -> None:
        """Write bytes into the open watches of a kind, whatever they select."""
        for _, writer in self._streams[kind]:
            if not writer.is_closing():
                writer.write(_chunk(line))

    def _tell(self, obj: dict[str, Any], line: bytes) -> None:
        for request, writer in self._streams[obj["kind"]]:
            if selects(request, obj) and not writer.is_closing():
                writer.write(_chunk(line))

    @property
    def calls(self) -> list[Call]:
        """Return the requests as RBAC judges them, in order; ``/version`` needs no permission."""
        return [request.call for request in self.requests if request.call]

    def count(self, kind: str, verb: str) -> int:
        """Return how often a kind was listed (``list``) or watched (``watch``)."""
        return len(self.of(kind, verb))

    def of(self, kind: str, verb: str) -> list[Request]:
        """Return the requests of that kind and verb."""
        return [r for r in self.requests if r.kind == kind and r.is_watch == (verb == "watch")]

    async def asked(self, kind: str, verb: str, times: int = 1) -> None:
        """Wait until a kind has been listed or watched that often."""
        while self.count(kind, verb) < times:
            self._changed.clear()
            await self._changed.wait()

    async def watched(self, kind: str) -> None:
        """Wait until a watch of a kind is open."""
        while not self._streams[kind]:
            self._changed.clear()
            await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for streams in self._streams.values():
                streams[:] = [(request, known) for request, known in streams if known is not writer]
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = _parse(await reader.readuntil(b"\r\n\r\n"))
        self.requests.append(request)
        self._changed.set()
        key = (request.kind, "watch" if request.is_watch else "list")
        scripted = self.script[key]
        answer = scripted.popleft() if scripted else self.always.get(key) or self._usual(request)
        if answer.end == "silence":
            await reader.read()
            return
        writer.write(_head(answer))
        if answer.body:
            writer.write(_chunk(answer.body))
        if answer.end == "hold":
            self._streams[request.kind].append((request, writer))
            self._changed.set()
            await reader.read()
        elif answer.end == "reset":
            await writer.drain()
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, linger)
            writer.transport.abort()
        elif answer.end == "close":
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    def _usual(self, request: Request) -> Answer:
        if request.kind == "version":
            return Answer(body=json.dumps({"gitVersion": self.git_version}).encode())
        if request.is_watch:
            if int(request.params.get("resourceVersion") or 0) < self.first_of_watches:
                return Answer(body=event("ERROR", expired()))
            return Answer(end="hold")
        start = int(request.params.get("continue", "0"))
        return Answer(body=self.page(request.kind, start, request))

    def page(self, kind: str, start: int = 0, request: Request | None = None) -> bytes:
        """Return a page of a list as the client gets it: the items have no kind."""
        exact = _exact_version(request)
        version = exact or self.version
        known = self._as_of(kind, exact) if exact else self.objects[kind]
        in_order = (known[name] for name in sorted(known))
        objects = [obj for obj in in_order if request is None or selects(request, obj)]
        end = start + self.page_size
        items = [
            {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
            for obj in objects[start:end]
        ]
        metadata = {"resourceVersion": str(version)}
        if end < len(objects):
            metadata["continue"] = str(end)
        return json.dumps({"kind": f"{kind}List", "metadata": metadata, "items": items}).encode()


def _exact_version(request: Request | None) -> int:
    """Return the version that a list must have exactly; 0 if a newer one will do."""
    params = {} if request is None else request.params
    if "limit" not in params or "resourceVersionMatch" in params or "continue" in params:
        return 0
    return int(params.get("resourceVersion") or 0)


def _parse(head: bytes) -> Request:
    first, *lines = head.decode().split("\r\n")
    target = urlsplit(first.split(" ")[1])
    params = {name: values[0] for name, values in parse_qs(target.query).items()}
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    call = _call(target.path, params)
    kind = KINDS[call.resource] if call else target.path.rpartition("/")[2]
    now = asyncio.get_running_loop().time()
    return Request(kind, "watch" in params, params, headers, now, call)


def _call(path: str, params: dict[str, str]) -> Call | None:
    """Parse ``/api/VERSION/...`` or ``/apis/GROUP/VERSION/...``, with an optional namespace."""
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return None
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 1:
        return Call(group, rest[0], namespace, "get", rest[1])
    name = params.get("fieldSelector", "").removeprefix("metadata.name=")
    return Call(group, rest[0], namespace, "watch" if "watch" in params else "list", name)


def selects(request: Request, obj: dict[str, Any]) -> bool:
    """Return whether a request selects an object."""
    metadata = obj["metadata"]
    labels = metadata.get("labels", {})
    for term in filter(None, request.params.get("labelSelector", "").split(",")):
        key, is_equal, value = term.partition("=")
        if key not in labels or (is_equal and labels[key] != value):
            return False
    assert request.call is not None
    namespace, name = request.call.namespace, request.call.name
    return namespace in ("", metadata["namespace"]) and name in ("", metadata["name"])


def _head(answer: Answer) -> bytes:
    headers = {"Content-Type": "application/json", **answer.headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"HTTP/1.1 {answer.status} X\r\n{lines}Connection: close\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    ).encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
