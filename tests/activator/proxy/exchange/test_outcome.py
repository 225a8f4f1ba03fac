"""Requests that end early: what their clients and their revision get."""

from __future__ import annotations

from activator.proxy.exchange.end import of_pod
from tests.activator.proxy.world import PodConnection, request, until
from tests.conftest import in_virtual_time
from throttler.reason import Reason
from throttler.ticket import FAILED, NEUTRAL, SERVED


async def test_why_a_request_failed_is_remembered_of_its_revision(world):
    pod = await world.serving()
    client = await world.client()
    pod.on_data = lambda connection: connection.close()
    client.send(request(b"/", b"POST", body=b"x"))
    assert (await client.answer()).status == 502
    last = world.failures().last
    assert (last.status, last.reason) == (502, Reason.UPSTREAM_FAILED)
    assert last.detail.startswith(f"{pod.endpoint.address}: ")

    def begin(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        world.loop.call_later(0.001, connection.close)

    pod.on_data = begin
    client = await world.client()
    client.send(request())
    await client.ended()
    last = world.failures().last
    assert (last.status, last.reason) == (200, Reason.UPSTREAM_FAILED)
    assert last.detail.endswith("; the response had begun")
    assert world.failures().by_reason == {Reason.UPSTREAM_FAILED: 2}


@in_virtual_time
async def test_after_the_response_has_begun_the_deadline_breaks_it_off(world):
    pod = await world.serving(timeout=0.25)

    def begin(connection: PodConnection) -> None:
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")

    pod.on_data = begin
    client = await world.client()
    client.send(request())
    await client.ended()
    assert b"half" in client.received
    assert b"timeout" not in client.received
    assert b"0\r\n\r\n" not in client.received
    await until(lambda: not pod.open)


def test_the_end_of_a_tunnel_says_nothing_about_its_pod() -> None:
    assert [of_pod("served", status) for status in (101, 200, 503)] == [NEUTRAL, SERVED, FAILED]
