"""The small stand-ins of single tests respond as the real API server, as far as they respond."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx

from activator.scale.takeover.slices import collection
from tests.activator.discovery.fake_api_server import FakeApiServer
from tests.activator.scale.fake_api import FakeApi, path_of
from tests.activator.scale.takeover.slice_api import SliceApi
from tests.recorded.recording import Object, load, name_of

Send = Callable[[Object], Awaitable[tuple[int, Any]]]

#: What the sketches leave to the lab: reasons for statuses that they do not send.
NOT_SKETCHED = (400, 403, 415, 422, 500, 504)


def paired(wanted: Any, found: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each version, uid and token of the recording with the one in a sketch's response."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in wanted.keys() & found.keys():
            yield from paired(wanted[name], found[name], name)
    elif isinstance(wanted, list) and isinstance(found, list):
        for want, have in zip(wanted, found, strict=True):
            yield from paired(want, have)
    elif key in ("resourceVersion", "uid", "continue", "name") and wanted != "ANY":
        yield wanted, found


async def replay(exchanges: list[Object], send: Send) -> None:
    """Send recorded requests; statuses, and which versions and uids are equal, must be the same."""
    known: dict[str, str] = {}
    for each in exchanges:
        text = json.dumps(each)
        for symbol, value in known.items():
            text = text.replace(f'"{symbol}"', f'"{value}"')
        status, found = await send(json.loads(text))
        assert status == each["status"], (name_of(each), found)
        for symbol, value in paired(each.get("response"), found):
            if symbol == "PAGE":
                known[symbol] = value
            assert known.setdefault(symbol, value) == value, (name_of(each), symbol)
    versions = {key: int(value) for key, value in known.items() if key.startswith("version-")}
    in_order = sorted(versions, key=lambda key: int(key.removeprefix("version-")))
    assert in_order == sorted(versions, key=versions.__getitem__)


def encoded(each: Object) -> bytes:
    return json.dumps(each["body"]).encode() if "body" in each else b""


async def test_scale_subresources() -> None:
    path, api = path_of("web"), FakeApi(web=0)
    exchanges = []
    for each in load():
        if each["path"] in (path, path_of("missing")) and each["speaker"] == "scaler":
            exchanges.append(each)
        elif each["path"] == path and each["method"] != "GET":
            break  # another writer

    async def send(each: Object) -> tuple[int, Any]:
        body, kind = encoded(each), each.get("content_type", "")
        response = await api.send(each["method"], each["path"], body, kind)
        return response.status, response.decoded()

    kept = [each for each in exchanges if each["status"] not in NOT_SKETCHED]
    assert {each["status"] for each in kept} == {200, 404, 409}
    await replay(kept, send)


async def test_slices() -> None:
    api = SliceApi()

    async def send(each: Object) -> tuple[int, Any]:
        response = await api.send(each["method"], each["path"], encoded(each), each["content_type"])
        return response.status, response.decoded()

    exchanges = [
        each
        for each in load()
        if each["path"].startswith(collection("shop")) and each["speaker"] == "scaler"
    ]
    kept = [each for each in exchanges if each["status"] not in NOT_SKETCHED]
    assert {each["status"] for each in kept} == {200, 201, 404, 409}
    await replay(kept, send)


async def test_lists() -> None:
    """Writes go past the socket of the scripted server."""
    async with FakeApiServer() as server, httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{server.port}"

        async def send(each: Object) -> tuple[int, Any]:
            if each["method"] == "GET":
                server.page_size = int(each["query"].get("limit", 500))
                response = await client.get(url + each["path"], params=each["query"])
                return response.status_code, response.json()
            if each["method"] == "DELETE":
                server.delete("Service", each["path"].rpartition("/")[2])
                return each["status"], None
            made = each["response"]
            server.put(made)
            return each["status"], made

        await replay([each for each in load() if is_list(each)], send)


def is_list(each: Object) -> bool:
    """Return whether an exchange reads Services as discovery does, or is a write that counts."""
    if each["status"] not in (200, 201) or "services" not in each["path"]:
        return False
    if each["speaker"] == "admin" and each["method"] != "GET":
        return True
    query = each["query"]
    if each["path"] != "/api/v1/services" or "watch" in query:
        return False
    # The sketch has equality of labels only, and no Service of the server itself.
    return "labelSelector" in query and " in " not in query["labelSelector"]
