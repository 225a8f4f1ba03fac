"""What all HTTP applications of admin and metrics ports have: headers, host names, errors."""

from __future__ import annotations

import json

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.admin import assets
from activator.admin.application import create_app, create_metrics_app
from activator.admin.http_application import (
    DASHBOARD_HEADERS,
    SECURITY_HEADERS,
    SecurityHeaders,
    application,
    on_error,
    on_http_exception,
    problem,
)
from tests.activator.telemetry.world import World


async def known(request: Request) -> Response:
    return PlainTextResponse("known")


async def get(path: str, **headers: str) -> httpx.Response:
    routes = [
        *assets.page_routes(assets.dashboard(), "index.html", lambda: "paths"),
        Route("/a", known),
    ]
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


async def test_they_are_added_once():
    own = {"Cache-Control": "no-cache"}
    app = SecurityHeaders(PlainTextResponse("x", headers=own))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as session:
        answer = await session.get("http://admin/")
    for name, value in (SECURITY_HEADERS | own).items():
        assert answer.headers.get_list(name) == [value]
    assert answer.text == "x"


def test_the_dashboard_may_run_its_own_files_and_nothing_else():
    policy = dict(
        each.split(maxsplit=1) for each in DASHBOARD_HEADERS["Content-Security-Policy"].split("; ")
    )
    own = {name for name, sources in policy.items() if sources == "'self'"}
    assert own == {"script-src", "style-src", "connect-src", "font-src"}
    closed = {"default-src", "base-uri", "form-action", "frame-ancestors"}
    assert {policy.pop(name) for name in closed} == {"'none'"}
    assert policy.pop("img-src") == "'self' data:"
    assert set(policy) == own


async def test_a_lifespan_passes_through():
    seen = []

    async def app(scope, receive, send):
        await send({"type": "lifespan.startup.complete"})

    async def send(message):
        seen.append(message)

    async def receive():
        return {"type": "lifespan.startup"}

    await SecurityHeaders(app)({"type": "lifespan"}, receive, send)
    assert seen == [{"type": "lifespan.startup.complete"}]


async def ask(app, host):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport) as session:
        return await session.get("http://127.0.0.1/healthz", headers={"Host": host})


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "LocalHost.:8080",
        "127.0.0.1:8080",
        "127.0.0.2",
        "10.0.0.9:8080",
        "[::1]",
        "[::1]:8080",
        "my-laptop:8080",
        "My-Laptop",
    ],
)
async def test_addresses_localhost_and_the_given_names_are_accepted(host):
    assert (await ask(create_app(World(), ("my-laptop",)), host)).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example:8080",
        "127.0.0.1:8080.evil.example",
        "[::1].evil.example",
        "evil.example:127.0.0.1",
        "localhost@evil.example",
        "",
        ":8080",
        "[]",
    ],
)
async def test_a_page_whose_name_leads_here_learns_nothing_but_what_to_do(host):
    answer = await ask(create_app(World()), host)
    assert answer.status_code == 421
    assert "ACTIVATOR_ADMIN_HOSTS" in answer.json()["detail"]
    assert answer.headers["content-security-policy"]


async def test_the_metrics_port_is_asked_by_any_name():
    answer = await ask(create_metrics_app(World()), "activator-service.knative-serving")
    assert answer.status_code == 200


def request(path="/x"):
    return Request(
        {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    )


def test_a_problem_has_the_members_of_the_rfc():
    answer = problem(404, "Nothing.", {"X-A": "b"})
    assert json.loads(bytes(answer.body)) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "Nothing.",
    }
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-a"] == "b"


@pytest.mark.parametrize(
    ("status", "says"), [(404, "nothing at /x"), (405, "GET or HEAD"), (413, "too much")]
)
def test_each_status_says_what_to_do(status, says):
    answer = on_http_exception(request(), HTTPException(status, "too much"))
    assert answer.status_code == status
    assert says in json.loads(bytes(answer.body))["detail"]


def test_headers_of_the_refusal_are_kept():
    answer = on_http_exception(request(), HTTPException(405, headers={"Allow": "GET"}))
    assert answer.headers["allow"] == "GET"


def test_a_bug_says_where_to_look():
    detail = json.loads(bytes(on_error(request(), ValueError("secret")).body))["detail"]
    assert "log" in detail
    assert "secret" not in detail
