"""Holds a conversation with an API server, and writes down what was said, with symbols.

Symbols replace what differs each time: uids, versions, times, tokens of pages. Versions of objects
keep their order. A list's version counts as that of the newest object which it can contain.
"""

from __future__ import annotations

import json
import re
import ssl
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

import httpx

from activator.discovery.api_server import MERGE_PATCH

Object = dict[str, Any]
JSON: Final = "application/json"
_MOST_ITEMS: Final = 100
_SHORTEST_TOKEN: Final = 4
_TIME: Final = re.compile(r"202\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
#: Parts of error texts that vary, or that quote Go's parser of JSON.
_VARYING: Final = {
    re.compile(r"json parse error: .*"): "json parse error: WHY",
    re.compile(r"error decoding patch: .*"): "error decoding patch: WHY",
    re.compile(r"continue key is not valid: .*"): "continue key is not valid: WHY",
    re.compile(r"a consistent list result\. .*"): "a consistent list result. ADVICE",
    re.compile(r"too old resource version: \d+ \(\d+\)"): "too old resource version: OLD (NEW)",
    re.compile(r"current: \d+"): "current: NEW",
    re.compile(r'Invalid value: "\{.*\}"'): 'Invalid value: "{...}"',
}


class Exchange(NamedTuple):
    """One request and its response, both decoded; the lines of a watch are a list."""

    speaker: str
    method: str
    path: str
    query: Object
    content_type: str
    body: Any
    status: int
    headers: Object
    response: Any


class _Response:
    """A response (as discovery.api_server.AiohttpResponse)."""

    retry_after = 0.0

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    async def read(self, limit: int) -> bytes:
        return self._body[:limit]

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body


class Speaker:
    """Sends requests with one token (as discovery.api_server.ApiServer), and writes them down."""

    def __init__(
        self,
        name: str,
        client: httpx.AsyncClient,
        said: list[Exchange],
        begins: Callable[[str], object],
    ) -> None:
        self._name = name
        self._client = client
        self._said = said
        self._begins = begins

    async def send(
        self, method: str, target: str, body: bytes = b"", content_type: str = JSON
    ) -> Any:
        """Send a request, and return the decoded response."""
        headers = {"Content-Type": content_type} if body else {}
        self._begins(self._name)
        response = await self._client.request(method, target, content=body, headers=headers)
        path, _, query = target.partition("?")
        kept = {"content-type", "retry-after"}
        self._said.append(
            Exchange(
                self._name,
                method,
                path,
                dict(parse_qsl(query, keep_blank_values=True)),
                content_type if body else "",
                _decoded(body),
                response.status_code,
                {key: value for key, value in response.headers.items() if key in kept},
                _decoded(response.content, lines="watch=1" in query),
            )
        )
        return self._said[-1].response

    async def read(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return await self.send("GET", f"{path}?{urlencode(query)}" if query else path)

    @asynccontextmanager
    async def get(
        self, path: str, params: Mapping[str, str], silence: float
    ) -> AsyncIterator[_Response]:
        """See ApiServer."""
        found = await self.read(path, params)
        yield _Response(self._said[-1].status, json.dumps(found).encode())

    def renew_credentials(self) -> None:
        """See ApiServer: the tokens stay the same."""

    async def post(self, path: str, body: object) -> Any:
        return await self.send("POST", path, json.dumps(body).encode())

    async def put(self, path: str, body: object) -> Any:
        return await self.send("PUT", path, json.dumps(body).encode())

    async def merge(self, path: str, body: object) -> Any:
        return await self.send("PATCH", path, json.dumps(body).encode(), MERGE_PATCH)

    async def delete(self, path: str) -> Any:
        return await self.send("DELETE", path)

    async def watch(self, path: str, *, version: str, **query: str) -> Any:
        """Watch for a second of the server's clock."""
        known = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
        return await self.send(
            "GET", f"{path}?{urlencode({**known, 'resourceVersion': version, **query})}"
        )


class Talk:
    """A conversation with one API server.

    Attributes:
        admin, scaler, activator, stranger: the speakers; the last one has no valid token.
        compact: removes the old versions of all objects.
        said: all exchanges so far.
    """

    def __init__(
        self,
        url: str,
        tokens: Mapping[str, str],
        compact: Callable[[], Awaitable[None]],
        verify: ssl.SSLContext | bool = False,
        begins: Callable[[str], object] = lambda _: None,
    ) -> None:
        """
        Arguments:
            begins: called before each request, with the name of the speaker.
            tokens: of the administrator, the scaler and the activator, by these names.
        """
        self.said: list[Exchange] = []
        self.compact = compact
        self._clients: list[httpx.AsyncClient] = []

        def speaker(name: str) -> Speaker:
            token = tokens.get(name, "wrong")
            headers = {"Authorization": f"Bearer {token}", "User-Agent": f"{name}/1"}
            client = httpx.AsyncClient(
                base_url=url, headers=headers, verify=verify, timeout=60.0, trust_env=False
            )
            self._clients.append(client)
            return Speaker(name, client, self.said, begins)

        self.admin, self.scaler = speaker("admin"), speaker("scaler")
        self.activator, self.stranger = speaker("activator"), speaker("stranger")

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            await client.aclose()


def _decoded(body: bytes, *, lines: bool = False) -> Any:
    """Return a body decoded from JSON, or each of its lines; as text if it is no JSON."""
    try:
        found = [json.loads(line) for line in body.splitlines()] if lines else json.loads(body)
    except ValueError:
        return body.decode()
    return found[0] if lines and found and "type" not in found[0] else found


def normalised(said: list[Exchange]) -> list[Object]:
    """Return the exchanges with symbols."""
    return _Symbols(said).exchanges()


class _Symbols:
    def __init__(self, said: list[Exchange]) -> None:
        self._said = said
        self._uids: dict[str, str] = {}
        versions: set[int] = set()
        for each in said:
            for metadata in _metadata(each.response):
                if uid := metadata.get("uid"):
                    self._uids.setdefault(uid, f"uid-{len(self._uids) + 1}")
                    if metadata.get("resourceVersion"):
                        versions.add(int(metadata["resourceVersion"]))
        self._versions = sorted(versions)

    def exchanges(self) -> list[Object]:
        return [
            {
                key: self._of(value)
                for key, value in _asked(each)._asdict().items()
                if _is_said(value)
            }
            for each in self._said
        ]

    def _of(self, found: Any, key: str = "") -> Any:
        if isinstance(found, list):
            many = len(found) > _MOST_ITEMS
            return [f"{len(found)} items"] if many else [self._of(each) for each in found]
        if isinstance(found, dict):
            return {name: self._of(value, name) for name, value in _reduced(found).items()}
        if not isinstance(found, str):
            return found
        if key == "resourceVersion" and found.isdigit():
            return self._version(int(found))
        if key == "continue":
            return "PAGE" if len(found) > _SHORTEST_TOKEN else found
        for uid, symbol in self._uids.items():
            found = found.replace(uid, symbol)
        for pattern, text in _VARYING.items():
            found = pattern.sub(text, found)
        return _TIME.sub(lambda match: "TIME.MICRO" if match[1] else "TIME", found)

    def _version(self, version: int) -> str:
        if version < 2 or version > 10**8:
            return str(version)
        return f"version-{bisect_right(self._versions, version)}"


def _metadata(found: Any) -> Iterator[Object]:
    """Yield each ``metadata`` in a body."""
    if isinstance(found, list):
        for each in found:
            yield from _metadata(each)
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "metadata" and isinstance(value, dict):
                yield value
            elif isinstance(value, dict | list):
                yield from _metadata(value)


def _is_said(value: object) -> bool:
    return value is not None and value != ""


def _asked(each: Exchange) -> Exchange:
    """Remove the version of a list that may have any."""
    if each.query.get("resourceVersion") != "0" or "items" not in each.response:
        return each
    metadata = {**each.response["metadata"], "resourceVersion": "ANY"}
    return each._replace(response={**each.response, "metadata": metadata})


def _reduced(found: Object) -> Object:
    """Keep only what a program reads: of ``managedFields`` who set the number of replicas."""
    if found.get("kind") == "APIResourceList":
        names = {each["name"] for each in found["resources"]}
        scalable = {name.removesuffix("/scale") for name in names if name.endswith("/scale")}
        kept = [
            {key: each[key] for key in ("name", "kind", "namespaced")}
            for each in found["resources"]
            if each["name"].removesuffix("/scale") in scalable
        ]
        return {**found, "resources": sorted(kept, key=str)}
    if found.get("type") == "BOOKMARK":
        mark = {key: found["object"][key] for key in ("kind", "apiVersion", "metadata")}
        return {**found, "object": mark}
    if "causes" in found:
        return {**found, "causes": list({str(each): each for each in found["causes"]}.values())}
    if "managedFields" not in found:
        return found
    owners = [
        {part: each[part] for part in ("manager", "operation", "subresource") if part in each}
        for each in found["managedFields"]
        if "f:replicas" in each.get("fieldsV1", {}).get("f:spec", {})
    ]
    rest = {key: value for key, value in found.items() if key != "managedFields"}
    return {**rest, "managedFields": owners} if owners else rest
