"""What clients make up makes no series: 10,000 hosts, and nothing more is stored."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import httpx
import pytest

from activator.lab.objects import revision, write_object
from tests.process import ANY_PORTS, PATIENCE, Activator, activator

pytestmark = pytest.mark.e2e

HOSTS = 10_000
BATCH = 500


async def scrape(running: Activator) -> dict[str, str]:
    """The value of each series."""
    host, port = await running.address("metrics")
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"http://{host}:{port}/metrics")).text
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: value for name, _, value in lines}


async def ask_for(running: Activator, fields: list[str]) -> None:
    """One request for each, one after another on one connection."""
    reader, writer = await asyncio.open_connection(*await running.address("http"))
    requests = "".join(f"GET /{n} HTTP/1.1\r\n{more}\r\n\r\n" for n, more in enumerate(fields))
    writer.write(requests.encode())
    async with asyncio.timeout(PATIENCE):
        for _ in fields:
            await reader.readuntil(b"HTTP/1.1 404 ")
    writer.close()
    await writer.wait_closed()


def made_up(number: int) -> str:
    name = f"{random.randrange(1 << 60):x}"
    if number % 2:
        return f"Host: {name}.default.svc.cluster.local"
    return f"Host: a\r\nKnative-Serving-Namespace: {name}\r\nKnative-Serving-Revision: {name}"


async def test_the_number_of_series_is_constant_under_random_hosts(tmp_path: Path) -> None:
    write_object(tmp_path, revision("hello"))
    async with activator("local", "--manifests", str(tmp_path), *ANY_PORTS) as running:
        await ask_for(running, [made_up(1)])
        before = await scrape(running)
        for _ in range(HOSTS // BATCH):
            await ask_for(running, [made_up(number) for number in range(BATCH)])
        after = await scrape(running)
    unknown = "activator_unknown_revision_requests_total"
    assert int(after[unknown]) - int(before[unknown]) == HOSTS
    assert set(after) == set(before)
