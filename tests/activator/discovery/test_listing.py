"""A list page by page; test_reflector.py tests broken lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from activator.discovery.api_server import ApiServer
from activator.discovery.backoff import Timings
from activator.discovery.wire import ServerResponseError, WatchedResource, pages
from tests.activator.discovery.fake_api_server import Answer, FakeApiServer
from tests.activator.discovery.recording import private

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
