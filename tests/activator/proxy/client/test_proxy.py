"""State that all client connections share: the date, places, the end, and the log of responses."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

import pytest

from activator.proxy.message.own_responses import refused
from tests.activator.proxy.world import request, until
from tests.conftest import both_loops
from throttler.model import RevisionID


async def test_the_date_is_now_and_made_once_a_second(world):
    date = world.proxy.services.date.value()
    assert world.proxy.services.date.value() is date or world.proxy.services.date.value() != date
    now = parsedate_to_datetime(date.decode()).timestamp()
    assert abs(time.time() - now) < 3


@both_loops
async def test_each_response_of_a_process_that_ends_is_the_last_on_its_connection(world):
    """Otherwise the client's next request meets a connection that closes."""
    await world.serving()
    client = await world.client()
    client.send(request())
    assert (await client.answer()).get(b"connection") is None
    world.proxy.services.draining = True
    client.send(request())
    answer = await client.answer()
    assert (answer.status, answer.get(b"connection")) == (200, b"close")
    await until(lambda: client.eof)
    ours = await world.ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (ours.status, ours.get(b"connection")) == (404, b"close")


@both_loops
async def test_connections_beyond_the_bound_are_refused_and_leave_files_for_pods(world):
    await world.serving()
    world.proxy.max_connections = 1
    first = await world.client()
    first.send(request())
    assert (await first.answer()).status == 200
    second = await world.client()
    second.send(request())
    refused = await second.answer()
    assert (refused.status, refused.get(b"connection")) == (503, b"close")
    assert refused.get(b"activator-reason") == b"queue-full; too many connections"
    assert refused.get(b"retry-after") == b"4"
    await until(lambda: second.eof)
    first.send(request())
    assert (await first.answer()).status == 200


async def test_failures_are_logged_now_and_then_with_how_many_there_were(world, caplog):
    world.revise()
    world.driver.throttler.total.max_depth = 0
    assert [(await world.ask()).status for _ in range(3)] == [503] * 3
    told = [r.getMessage() for r in caplog.records if "queue-full" in r.getMessage()]
    assert told == ["responded 503: queue-full; total-depth"]


@pytest.mark.parametrize(("hidden", "also"), [(1, "1 other"), (2, "2 others")])
async def test_a_line_says_how_many_it_stands_for(world, caplog, hidden, also):
    revision, reply = RevisionID("default", "app"), refused(503, "later")
    now = world.proxy.clock()
    world.driver.clock = lambda: now
    for _ in range(1 + hidden):
        world.proxy.services.log_own_response(revision, reply)
    now += 60.0
    world.proxy.services.log_own_response(revision, reply)
    assert caplog.messages[-1].endswith(f" (and {also} since the last such line)")
