"""Security headers are in every response once, also where the response sets one itself."""

from __future__ import annotations

import httpx
from starlette.responses import PlainTextResponse

from activator.admin.headers import DASHBOARD_HEADERS, SECURITY_HEADERS, SecurityHeaders


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
