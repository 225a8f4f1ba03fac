"""What the applications of all admin and metrics ports share."""

from __future__ import annotations

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.admin import assets
from activator.admin.headers import SECURITY_HEADERS
from activator.admin.http_application import application, page_routes


async def known(request: Request) -> Response:
    return PlainTextResponse("known")


async def get(path: str, **headers: str) -> httpx.Response:
    routes = [*page_routes(assets.dashboard(), "index.html", lambda: "paths"), Route("/a", known)]
    transport = httpx.ASGITransport(application(routes))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as session:
        return await session.get(path, headers=headers)


@pytest.mark.parametrize(
    ("path", "status"), [("/a", 200), ("/a/", 404), ("/b", 404), ("/dashboard/none.js", 404)]
)
async def test_no_path_redirects_and_each_response_has_the_headers(path: str, status: int) -> None:
    response = await get(path)
    assert response.status_code == status
    assert all(response.headers[name] == value for name, value in SECURITY_HEADERS.items())
    wrong = status != 200
    assert (response.headers["content-type"] == "application/problem+json") is wrong


async def test_browsers_get_the_page_and_other_clients_the_text() -> None:
    assert (await get("/", Accept="text/html")).content == assets.dashboard()["index.html"].plain
    text = await get("/", Accept="*/*")
    assert (text.text, text.headers["vary"]) == ("paths", "Accept")
    assert (await get("/dashboard/main.js")).content == assets.dashboard()["main.js"].plain
