"""Which Host fields the admin listener accepts."""

from __future__ import annotations

import httpx
import pytest

from activator.admin.application import create_app, create_metrics_app
from tests.activator.telemetry.world import World


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
