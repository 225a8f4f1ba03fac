"""A list page by page; test_reflector.py tests broken lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.discovery import wire
from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.wire import (
    GarbledError,
    LineSplitter,
    ServerResponseError,
    WatchedResource,
    pages,
)
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer, event, expired
from tests.activator.discovery.recording import private
from tests.activator.objects.test_fields import json_values
from tests.rows import in_one_test


def page(**changes: Any) -> bytes:
    whole = {"kind": "EndpointsList", "metadata": {"resourceVersion": "1"}, "items": []}
    return json.dumps({**whole, **changes}).encode()


def test_a_page_is_read_and_its_items_stay_undecoded() -> None:
    read = wire.decode_page(page(items=[{"a": 1}], metadata={"resourceVersion": "7"}), "Endpoints")
    assert read.metadata.resourceVersion == "7"
    assert read.items is not None
    assert [wire.decode_object(item) for item in read.items] == [{"a": 1}]


def test_go_writes_an_empty_list_as_null() -> None:
    assert wire.decode_page(page(items=None), "Endpoints").items is None


@in_one_test(
    "body",
    [
        b"",
        b"upstream connect error",
        b"<html></html>",
        b"{}",
        b"[]",
        b'{"kind": "EndpointsList"}',
        page(kind="Status"),
        page(kind="PodList"),
        page(items={}),
        page(metadata={}),
        page()[:-1],
        page(items=["\xff"]).replace(b"\\u00ff", b"\xff") + b"x",
    ],
)
def test_what_is_no_list_is_never_an_empty_one(body: bytes) -> None:
    with pytest.raises(GarbledError):
        wire.decode_page(body, "Endpoints")


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_line_is_an_event_or_the_typed_error(line: bytes) -> None:
    for bytes_ in (line, b'{"type": "ADDED", "object": ' + line + b"}"):
        try:
            assert isinstance(wire.decode_event(bytes_)[1], dict)
        except GarbledError:
            pass


def test_deep_nesting_is_the_typed_error() -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    with pytest.raises(GarbledError):
        wire.decode_event(b'{"type": "ADDED", "object": ' + deep + b"}")


@given(st.lists(st.binary(max_size=8).map(lambda b: b.replace(b"\n", b"."))), st.integers(1, 5))
def test_lines_come_out_whole_however_the_stream_is_cut(parts: list[bytes], size: int) -> None:
    stream = b"".join(part + b"\n" for part in parts) + b"rest"
    lines = LineSplitter()
    found: list[bytes] = []
    for start in range(0, len(stream), size):
        found += lines.feed(stream[start : start + size])
    assert found == [part for part in parts if part.strip()]
    assert lines.held == len(b"rest")


def test_a_status_in_a_stream_is_gone_by_its_reason_too() -> None:
    _, status = wire.decode_event(event("ERROR", {**expired(), "code": 500}))
    assert wire.status_error(status).status == 410
    assert wire.status_error({"code": True, "message": 5}).status == 0


def test_of_a_listed_object_only_its_identity_is_read() -> None:
    raw = json.dumps(private_with(name="a", uid=None, labels={"x": 1})).encode()
    read = wire.decode_listed(raw)
    assert (read.name, read.namespace, read.uid, read.resourceVersion) == ("a", None, None, None)


@pytest.mark.parametrize("raw", [b"", b"5", b"{}", b'{"metadata": {"name": 5}}', b'{"metadata":'])
def test_what_is_no_listed_object_is_garbled(raw: bytes) -> None:
    with pytest.raises(GarbledError):
        wire.decode_listed(raw)


def private_with(**metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "subsets": [{"addresses": []}]}


def test_packed_objects_come_back_one_by_one() -> None:
    """A list of 5,000 decoded objects takes 10 MiB, and its memory stays with the process."""
    objects = [
        {"metadata": {"name": name}, "spec": {"n": 2**63, "f": 1.5, "no": None, "list": [{}, True]}}
        for name in ("a", "ä€", "")
    ]
    packed: list[object] = [wire.pack(each) for each in objects]
    assert all(isinstance(each, bytes) for each in packed)
    found, left = [], []
    for obj in wire.unpacked(packed):
        found.append(obj)
        left.append(len(packed))
    assert found == objects
    assert left == [2, 1, 0]


ENDPOINTS = WatchedResource("Endpoints", "/api/v1/endpoints", {"labelSelector": "x"})


NEWER = {"resourceVersion": "101", "resourceVersionMatch": "NotOlderThan"}


@pytest.mark.parametrize(
    ("version", "asked"), [("", {}), ("0", {"resourceVersion": "0"}), ("101", NEWER)]
)
async def test_each_page_asks_for_the_next(
    server: FakeApiServer, tmp_path: Path, version: str, asked: dict[str, str]
) -> None:
    for name in "abc":
        server.put(private("10.0.0.1", of=name) | {"kind": "Endpoints"})
        server.objects["Endpoints"][f"{name}-private"]["metadata"]["labels"]["x"] = ""
    server.page_size = 2
    api = ApiServer(server.kubeconfig(tmp_path), Timings(), {})
    await api.connect()
    found = [page async for page in pages(api, ENDPOINTS, Timings(), version)]
    await api.close()
    assert [len(page.items or ()) for page in found] == [2, 1]
    first, second = server.of("Endpoints", "list")
    assert first.params == {"limit": "500", "labelSelector": "x", **asked}
    assert second.params == {"limit": "500", "labelSelector": "x", "continue": "2"}


async def test_a_refusal_is_raised(server: FakeApiServer, tmp_path: Path) -> None:
    server.script["Endpoints", "list"].append(Answer(403))
    api = ApiServer(server.kubeconfig(tmp_path), Timings(), {})
    await api.connect()
    with pytest.raises(ServerResponseError, match="403"):
        _ = [page async for page in pages(api, ENDPOINTS, Timings())]
    await api.close()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, "reads the credentials again"),
        (403, "allow list and watch of services?"),
        (404, "(needs Kubernetes 1.33)"),
        (500, ""),
    ],
)
def test_a_refused_request_has_a_hint(status: int, text: str) -> None:
    resource = WatchedResource("Service", "/api/v1/services", if_missing="needs Kubernetes 1.33")
    assert text in resource.advice(status)
    assert bool(resource.advice(status)) is bool(text)
