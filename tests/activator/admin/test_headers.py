"""Security headers are on every answer, and replace what an application said."""

from __future__ import annotations

import httpx
from starlette.responses import PlainTextResponse

from activator.admin.headers import SECURITY_HEADERS, SecurityHeaders


async def test_they_are_added_once():
    app = SecurityHeaders(PlainTextResponse("x", headers={"Cache-Control": "public"}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as session:
        answer = await session.get("http://admin/")
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers.get_list(name) == [value]
    assert answer.text == "x"


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
