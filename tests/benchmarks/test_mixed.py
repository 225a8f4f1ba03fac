"""The verdict of the mixed traffic: which failures count, and the growth of memory."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from grpc.aio import ServicerContext
from websockets.exceptions import InvalidStatus

from activator.telemetry.families import FAMILIES
from benchmarks.activator import Activator
from benchmarks.agenda import Agenda
from benchmarks.endurance import Endurance
from benchmarks.interrupt import stop_on_interrupt
from benchmarks.mixed.http1_client import Http1, NotComplete
from benchmarks.mixed.kinds import KINDS, SOAK_KINDS
from benchmarks.mixed.other_clients import Grpc, websocket
from benchmarks.mixed.pod import Pod
from benchmarks.mixed.record import Record, Sight, Wrong
from benchmarks.mixed.samples import GAUGES, Sample, slope, value
from benchmarks.mixed.traffic import MixedTraffic
from benchmarks.mixed.verdict import Failure, Kill, excused, lost
from tests.rows import in_one_test

KILL = Kill("web-2.1", 10.0, 10.02)


def failure(
    kind: str, pod: str, sent: float = 9.0, ended: float = 10.1, wrong: bool = False
) -> Failure:
    return Failure(kind, pod, sent, ended, "502", wrong)


@pytest.mark.parametrize(
    "saved",
    [
        failure("GET", "web-2.1"),
        failure("POST", "web-2.1"),
        failure("POST", ""),
        failure("POST", "", sent=10.1),
        failure("WebSocket", "web-2.1", ended=10.0),
    ],
)
def test_a_request_may_fail_with_its_pod(saved: Failure) -> None:
    assert excused(saved, [KILL])
    assert not excused(saved, [])


@in_one_test(
    "missing",
    [
        failure("GET", ""),  # no response had begun: the activator must send it again
        failure("POST", "web-1.1"),  # another pod
        failure("POST", "web-2.2"),  # the next process of the pod
        failure("gRPC unary", ""),  # another service
        failure("POST", "", sent=10.2, ended=10.3),
        failure("POST", "", ended=9.9),
        failure("POST", "web-2.1", wrong=True),
        failure("cold GET", ""),
    ],
)
def test_any_other_failure_is_lost(missing: Failure) -> None:
    assert lost([missing], [KILL]) == [missing]


def test_slope_is_the_growth_per_second() -> None:
    assert slope([(0.0, 10.0), (1.0, 12.0), (2.0, 14.0)]) == pytest.approx(2.0)
    assert slope([(0.0, 10.0)]) == slope([]) == 0.0


def test_the_growth_of_memory_leaves_out_the_warm_up() -> None:
    sizes = [10, 30, *(50,) * 6]
    samples = [Sample(float(at), size << 20, 0, {}) for at, size in enumerate(sizes)]
    assert Endurance(seconds=8.0, samples=samples).growth == 0.0
    assert Endurance().growth == 0.0


def test_a_value_of_the_metrics_page_is_found_by_its_name_and_labels() -> None:
    page = '# HELP a b\na_b 3\na 2\nt{use="clients"} 4.5\nt{use="pods"} 1\nu{} 7\n'
    assert value(page, "a") == 2
    assert value(page, 't{use="clients"}') == 4.5
    assert value(page, "u") == 7
    assert value(page, "absent") == 0


async def _serve(pod: Pod, *pieces: bytes) -> bytes:
    """Return what a pod responds to these bytes and the client's FIN."""
    reader, writer = asyncio.StreamReader(), Sink()
    for piece in pieces:
        reader.feed_data(piece)
    reader.feed_eof()
    await pod.serve(reader, writer)  # type: ignore[arg-type]
    return bytes(writer.data)


class Sink:
    """Collects what is written."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_pod_records_a_request_whose_body_never_ends(tmp_path: Path) -> None:
    """An application would have begun to process it, so it must not arrive again."""
    arrivals = tmp_path / "arrivals"
    descriptor = os.open(arrivals, os.O_WRONLY | os.O_CREAT)
    head = b"POST / HTTP/1.1\r\nx-once: POST-1\r\nContent-Length: 9\r\n\r\n"
    assert asyncio.run(_serve(Pod("web-1.1", descriptor), head + b"begun")) == b""
    whole = asyncio.run(_serve(Pod("web-2.1", descriptor), head + b"123456789"))
    assert whole.endswith(b"\r\n\r\n123456789")
    os.close(descriptor)
    assert arrivals.read_text() == "POST-1\n" * 2


def test_an_error_response_to_a_call_has_a_reason() -> None:
    """It has only trailers, which are no initial metadata."""

    async def refuse(_: bytes, context: ServicerContext) -> None:
        await context.abort(
            grpc.StatusCode.UNAVAILABLE, trailing_metadata=(("activator-reason", "no-endpoints"),)
        )

    async def call() -> Sight:
        server, sight = grpc.aio.server(), Sight("1")
        method = grpc.unary_unary_rpc_method_handler(refuse)
        handler = grpc.method_handlers_generic_handler("soak.Echo", {"Unary": method})
        server.add_generic_rpc_handlers((handler,))
        to = "127.0.0.1", server.add_insecure_port("127.0.0.1:0")
        await server.start()
        client = Grpc(0)
        await client.use(to)
        with pytest.raises(grpc.aio.AioRpcError):
            await client.unary(to, KINDS["gRPC unary"], sight)
        await client.close()
        await server.stop(None)
        return sight

    assert asyncio.run(call()).reason == "no-endpoints"


def test_a_refused_websocket_has_a_reason() -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
        writer.write(head + b"X-Via: 127.0.1.1:8012\r\nActivator-Reason: no-endpoints\r\n\r\n")
        await writer.drain()
        writer.close()

    async def call() -> Sight:
        sight = Sight("1")
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            to = server.sockets[0].getsockname()
            with pytest.raises(InvalidStatus):
                await websocket(to, KINDS["WebSocket"], sight)
        return sight

    seen = asyncio.run(call())
    assert (seen.reason, seen.via) == ("no-endpoints", "127.0.1.1:8012")


async def _converse(change: Callable[[bytes], bytes], more: bytes = b"") -> None:
    """Play connections of TCP with a server that changes its responses, and ends with ``more``."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(int(head.split()[-1]))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                writer.write(changed := change(body))
                if len(changed) < len(body):
                    break
        except asyncio.IncompleteReadError:
            writer.write(more)
        finally:
            writer.close()

    sight, client = Sight("1"), Http1(1)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        to = server.sockets[0].getsockname()
        for _ in range(8):  # some have one request, some two; some find the first address closed
            await client.converse([("127.0.0.2", to[1]), to], SOAK_KINDS["TCP connection"], sight)
    assert sight.via == f"127.0.0.1:{to[1]}"


@pytest.mark.parametrize(
    ("change", "more", "error"),
    [
        (lambda body: body[:-1], b"", NotComplete),  # lost
        (lambda body: body[:-1] + bytes((body[-1] ^ 1,)), b"", Wrong),
        (lambda body: body, b"!", Wrong),
    ],
)
def test_a_lost_or_wrong_byte_of_a_connection_is_noticed(
    change: Callable[[bytes], bytes], more: bytes, error: type[Exception]
) -> None:
    asyncio.run(_converse(lambda body: body))
    with pytest.raises(error):
        asyncio.run(_converse(change, more))


def test_each_gauge_is_a_metric_of_the_activator() -> None:
    """An absent metric counts as 0, so a renamed one would hide what is left."""
    names = {family.name for family in FAMILIES}
    assert {key.partition("{")[0] for key in GAUGES} <= names


def test_the_agenda_runs_things_in_the_order_of_their_times() -> None:
    done: list[str] = []
    agenda = Agenda()
    agenda.after(0.2, lambda: done.append("later"))
    agenda.after(0.001, lambda: agenda.after(0.0, lambda: done.append("from the first")))
    agenda.after(60.0, lambda: done.append("not due"))
    agenda.run(0.3)
    assert done == ["from the first", "later"]


def test_the_agenda_ends_early_when_it_is_stopped() -> None:
    stop = threading.Event()
    agenda = Agenda(stop)
    turns: list[int] = []

    def turn() -> None:
        turns.append(1)
        if len(turns) == 3:
            stop.set()

    agenda.every(0.0, turn, first=0.0)
    agenda.run(3600)
    assert len(turns) == 3


def test_an_interrupt_asks_for_the_end_and_the_next_one_acts_as_ever(
    capfd: pytest.CaptureFixture[str],
) -> None:
    import signal

    # A shell starts background processes with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with stop_on_interrupt() as stop:
            assert not stop.is_set()
            signal.raise_signal(signal.SIGINT)
            assert stop.is_set()
            assert "ending early" in capfd.readouterr().err
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


async def test_the_record_reports_each_failure_once() -> None:
    record, kind = Record(), KINDS["GET"]

    async def good(sight: Sight) -> None:
        sight.pod = "web-1.1"

    async def cut(sight: Sight) -> None:
        sight.pod = "web-1.1"
        raise ConnectionResetError

    async def wrong(sight: Sight) -> None:
        raise Wrong("other bytes")

    assert await record.attempt(kind, good)
    assert not await record.attempt(kind, cut)
    assert not await record.attempt(kind, wrong)
    report = record.report()
    assert report["ended"] == {"GET": 3}
    first, second = (Failure(**each) for each in report["failures"])
    assert (first.pod, first.wrong) == ("web-1.1", False)
    assert (second.pod, second.wrong, second.what) == ("", True, "Wrong: other bytes")
    assert record.report()["failures"] == []


def test_what_arrives_twice_is_found(tmp_path: Path) -> None:
    traffic = MixedTraffic(tmp_path)
    (tmp_path / "arrivals").write_text("POST-1\nPOST-2\nPOST-1\n")
    assert traffic.repeated() == ["POST-1"]


def test_errors_of_the_log_are_found(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = ('{"severity": "INFO"}', '{"severity": "ERROR"}', "Traceback (most recent call last):")
    log.write_text("\n".join(lines))

    class Process:
        pid = 1

    found = Activator(Process(), 1, 2, tmp_path, log)  # type: ignore[arg-type] # only its log is read
    assert found.faults() == list(lines[1:])
