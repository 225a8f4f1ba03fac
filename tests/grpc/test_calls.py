"""gRPC calls to a revision with a pod: the client must not notice the activator in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import grpc
import pytest

from tests.grpc.conftest import Served
from tests.grpc.world import AUTHORITY, forget_peak, in_flight, peak_bytes

pytestmark = pytest.mark.e2e

MIB = 1 << 20
#: Number of messages, 40 MB in all; and the additional memory that the activator may use for them,
#: for flow-control windows and for bytes in transit.
PIECES, ROOM = 40, 8 * MIB


async def test_each_kind_of_call_gets_its_response(served: Served) -> None:
    async def three() -> AsyncIterator[bytes]:
        for each in (b"a", b"bb", b""):
            yield each

    client = served.client
    assert await client.echo(b"") == b""
    assert [len(each) async for each in client.count(b"3 7")] == [7, 7, 7]
    assert await client.measure(three()) == b"3 3"
    assert [each async for each in client.chat(three())] == [b"a", b"bb", b""]


async def test_thousands_of_messages_go_both_ways_in_order(served: Served) -> None:
    host, port = await served.activator.address("http")

    def chat() -> list[int]:
        options = [("grpc.default_authority", AUTHORITY)]
        with grpc.insecure_channel(f"{host}:{port}", options) as channel:
            call = channel.stream_stream("/t.T/Chat")
            return [int(each) for each in call(iter([b"%d" % each for each in range(3_000)]))]

    # grpcio's threads need half the time of its coroutines.
    assert await asyncio.to_thread(chat) == list(range(3_000))


async def test_each_message_is_passed_on_before_the_next_is_sent(served: Served) -> None:
    call = served.client.chat()
    for number in range(50):
        await call.write(b"%d" % number)
        assert await call.read() == b"%d" % number
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_40_mb_towards_the_client_stay_nowhere(served: Served) -> None:
    forget_peak(served.activator.process.pid)
    before = peak_bytes(served.activator.process.pid)
    size = 0
    async for each in served.client.count(b"%d %d" % (PIECES, MIB)):
        size += len(each)
    assert size == PIECES * MIB
    assert peak_bytes(served.activator.process.pid) - before < ROOM


async def test_40_mb_towards_the_pod_stay_nowhere(served: Served) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(PIECES):
            yield bytes(MIB)

    forget_peak(served.activator.process.pid)
    before = peak_bytes(served.activator.process.pid)
    assert await served.client.measure(pieces()) == b"%d %d" % (PIECES, PIECES * MIB)
    assert peak_bytes(served.activator.process.pid) - before < ROOM


async def test_a_large_message_passes_whole(served: Served) -> None:
    message = bytes(range(256)) * (16 * MIB // 256)
    assert await served.client.echo(message) == message


async def test_who_reads_nothing_stops_nobody_else(served: Served) -> None:
    pid = served.activator.process.pid
    forget_peak(pid)
    before = peak_bytes(pid)
    slow = [served.client.count(b"%d %d" % (PIECES, MIB)) for _ in range(5)]
    for call in slow:
        assert len(await call.read()) == MIB
    for _ in range(20):
        assert await served.client.echo(b"x" * 1000) == b"x" * 1000
    assert peak_bytes(pid) - before < ROOM
    for call in slow:
        call.cancel()
    await in_flight(served.activator, 0)


async def test_metadata_passes_both_ways_and_at_both_ends(served: Served) -> None:
    binary = bytes(range(256))
    given = (("m-text", "a b, c"), ("m-many", "1"), ("m-many", "2"), ("m-raw-bin", binary))
    call = served.client.echo(b"metadata", metadata=given)
    await call
    initial = [pair for pair in await call.initial_metadata() if pair[0][:2] == "m-"]
    trailing = [pair for pair in await call.trailing_metadata() if pair[0][:2] == "t-"]
    assert sorted(initial) == sorted(given)
    assert sorted(trailing) == sorted((f"t-{key}", value) for key, value in given)


async def test_metadata_that_are_too_large_end_no_other_call(served: Served) -> None:
    call = served.client.chat()
    await call.write(b"before")
    with pytest.raises(grpc.aio.AioRpcError):
        await served.client.echo(b"", metadata=(("m-large", "x" * 70_000),))
    assert await call.read() == b"before"
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


@pytest.mark.parametrize("code", [each for each in grpc.StatusCode if each.value[0]])
async def test_a_pods_status_is_the_clients(served: Served, code: grpc.StatusCode) -> None:
    number = code.value[0]
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await served.client.fail(b"%d" % number)
    assert failed.value.code() is code
    assert failed.value.details() == f"100% näh {number}"
    assert dict(failed.value.trailing_metadata())["grpc-status-details-bin"] == b"\0\xff" * 9


async def test_a_method_that_the_pod_has_not_is_the_pods_to_say(served: Served) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await served.client.channel.unary_unary("/t.T/None")(b"")
    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "Method not found" in str(failed.value.details())


async def test_a_pod_knows_the_deadline_and_sees_it_pass(served: Served) -> None:
    seen, begun = len(served.pod.of("cancelled")), len(served.pod.of("hangs"))
    call = served.client.hang(b"", timeout=5.0)
    hangs = await served.pod.told("hangs", begun + 1)
    assert 0 < hangs[-1]["left"] < 5.1  # grpcio rounds up the deadline that it sends
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await served.pod.told("cancelled", seen + 1)
    await in_flight(served.activator, 0)


async def test_a_call_that_is_cancelled_ends_at_its_pod(served: Served) -> None:
    seen, begun = len(served.pod.of("cancelled")), len(served.pod.of("hangs"))
    calls = [served.client.hang(b"") for _ in range(3)]
    await served.pod.told("hangs", begun + 3)
    await in_flight(served.activator, 3)
    for call in calls:
        call.cancel()
    for call in calls:
        with suppress(asyncio.CancelledError):
            await call
    await served.pod.told("cancelled", seen + 3)
    await in_flight(served.activator, 0)


async def test_calls_are_in_the_metrics_as_http2(served: Served) -> None:
    await served.client.echo(b"counted")
    _, metrics = await served.activator.get("/metrics", listener="admin")
    for side in ("server", "client"):
        (count,) = [
            float(line.rpartition(" ")[2])
            for line in metrics.splitlines()
            if line.startswith(f"http_{side}_request_duration_seconds_count{{")
            and 'network_protocol_version="2"' in line
            and 'http_response_status_code="200"' in line
        ]
        assert count >= 1
