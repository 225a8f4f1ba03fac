from __future__ import annotations

import asyncio

from activator.lab.client import ClientResponse, SteadyTraffic
from tests.process import PATIENCE


async def test_load_goes_on_until_it_is_stopped_and_waits_for_what_it_sent():
    gate, held = asyncio.Event(), asyncio.Event()
    gate.set()
    sent = []

    async def ask(method: str, request_id: str) -> ClientResponse:
        sent.append((method, request_id))
        if not gate.is_set():
            held.set()
        await gate.wait()
        return ClientResponse(200 if method == "GET" else 502, {}, "", 0.002)

    load = SteadyTraffic(ask, rate=1000, posts=3)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        load.start(tasks)
        await load.more(6)
        gate.clear()
        await held.wait()
        stopping = tasks.create_task(load.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        gate.set()
    count = len(sent)
    assert count == len({request_id for _, request_id in sent})
    assert load.statuses("GET") == {200: count - count // 3}
    assert load.statuses("POST") == {502: count // 3}
    assert load.posts == {request_id for method, request_id in sent if method == "POST"}
    assert "times 200; median 2 ms, maximum 2 ms; POST /: " in load.summary()


async def test_pace_does_not_wait_for_responses():
    gate = asyncio.Event()
    sent = []

    async def ask(method: str, request_id: str) -> ClientResponse:
        sent.append(request_id)
        if len(sent) == 5:
            gate.set()
        await gate.wait()
        return ClientResponse(200, {}, "")

    load = SteadyTraffic(ask, rate=1000)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        load.start(tasks)
        await load.more(5)
        await load.stop()
