"""KEDA's calls, made by a real gRPC client over a loopback socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from activator.scale.board import Board
from activator.scale.keda import externalscaler_pb2 as wire
from activator.scale.keda.server import ExternalScaler, KedaListener
from activator.scale.reports.load import Loads, Report, ServiceName
from tests.activator.scale.keda.client import Keda, cancelled

HELLO = ServiceName("shop", "hello")
REF = wire.ScaledObjectRef(
    name="hello", namespace="shop", scalerMetadata={"service": "hello", "scalerAddress": "x:6000"}
)


class Known:
    """The Services that a test knows: hello, which sleeps at first."""

    def __init__(self) -> None:
        self.loads = Loads()
        self.board = Board(self.loads, lambda: 100.0)
        self.leads = True
        self.set(False, 0, 100)

    def set(self, active: bool, load: float, target: float) -> None:
        """Change hello."""
        self.loads.remove(HELLO)
        if load:
            self.loads.connected(1)
            self.loads.record(1, "a", [Report(HELLO, load, 1)], 100.0)
        self.board.publish(HELLO, active=active, target=target)


async def metric(keda: Keda) -> Any:
    request = wire.GetMetricsRequest(scaledObjectRef=REF, metricName="s0-activator-shop-hello")
    return (await keda.metrics(request)).metricValues[0]


def play(scene: Callable[[Keda, Known, ExternalScaler], Awaitable[None]]) -> None:
    """Run a scene against a server on a loopback port."""

    async def run() -> None:
        known = Known()
        scaler = ExternalScaler(known.board, lambda: known.leads)
        listener = KedaListener(scaler)
        port = await listener.start("127.0.0.1", 0)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await asyncio.wait_for(scene(Keda(channel), known, scaler), 30)
        finally:
            await listener.close()

    asyncio.run(run())


def test_a_sleeping_service() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        assert not (await keda.is_active(REF)).result
        [spec] = (await keda.spec(REF)).metricSpecs
        assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == (
            *("activator-shop-hello", 100, 100.0),
        )
        value = await metric(keda)
        assert (value.metricName, value.metricValue) == ("activator-shop-hello", 0)

    play(scene)


@pytest.mark.parametrize(("load", "shown"), [(0, 1), (0.4, 1), (7.4, 7)])
def test_an_active_service_has_at_least_one_request(load: float, shown: int) -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        known.set(True, load, 0.5)
        assert (await keda.is_active(REF)).result
        assert (await metric(keda)).metricValue == shown
        assert (await keda.spec(REF)).metricSpecs[0].targetSize == 1

    play(scene)


def test_a_stream_gives_the_state_at_once_and_each_change() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        stream = keda.stream(REF)
        assert not (await stream.read()).result
        known.set(True, 1, 100)
        assert (await stream.read()).result
        # KEDA drops the first ones of a new ScaledObject: they are repeated.
        assert (await stream.read()).result
        known.set(False, 0, 100)
        while (await stream.read()).result:
            pass
        await cancelled(stream)

    play(scene)


def test_a_stream_lets_the_scaler_start_the_first_pods() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        stream = keda.stream(REF)
        assert not (await stream.read()).result
        known.set(True, 1, 100)
        pushed = asyncio.ensure_future(stream.read())
        # A poll has the state at once, so KEDA does not undo the start meanwhile.
        assert (await keda.is_active(REF)).result
        assert not pushed.done()
        assert (await pushed).result
        await cancelled(stream)

    play(scene)


def test_a_stream_that_ends_leaves_nothing() -> None:
    async def scene(keda: Keda, known: Known, scaler: ExternalScaler) -> None:
        streams = [keda.stream(REF) for _ in range(20)]
        for stream in streams:
            await stream.read()
        assert scaler.streams == 20
        for stream in streams:
            await cancelled(stream)
        while scaler.streams:  # noqa: ASYNC110  # the server offers no event
            await asyncio.sleep(0)

    play(scene)


def test_a_deleted_service_ends_its_streams() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        stream = keda.stream(REF)
        await stream.read()
        known.board.leave(HELLO, 0)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stream.read()
        assert error.value.code() is grpc.StatusCode.NOT_FOUND

    play(scene)


def test_a_stream_misses_no_change_that_comes_while_it_sends() -> None:
    """A change between two awaits of the server must not wait for the next one."""

    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        streams = [keda.stream(REF) for _ in range(50)]
        for stream in streams:  # the server sends the first state of some of them meanwhile
            await stream.read()
            known.set(True, 1, 100)
            known.set(False, 0, 100)
            known.set(True, 1, 100)
        for stream in streams:
            while not (await stream.read()).result:
                pass
            await cancelled(stream)

    play(scene)


def test_a_scaler_that_loses_the_lead_ends_its_streams() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        stream = keda.stream(REF)
        await stream.read()
        known.leads = False
        known.board.stop(0)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stream.read()
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE

    play(scene)


@pytest.mark.parametrize(
    ("ref", "code", "text"),
    [
        ({"scalerMetadata": {}}, grpc.StatusCode.INVALID_ARGUMENT, "lacks the metadata service"),
        (
            {"scalerMetadata": {"service": "other"}},
            *(grpc.StatusCode.NOT_FOUND, "Service shop/other does not exist, or lacks the annot"),
        ),
    ],
)
def test_a_wrong_trigger_is_an_error_that_says_what_to_do(
    ref: Any, code: grpc.StatusCode, text: str
) -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await keda.is_active(wire.ScaledObjectRef(name="hello", namespace="shop", **ref))
        assert error.value.code() is code
        assert text in (error.value.details() or "")

    play(scene)


def test_a_scaler_that_does_not_lead_refuses() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        known.leads = False
        for call in (keda.is_active(REF), keda.spec(REF), keda.stream(REF).read()):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE

    play(scene)


def test_an_unreleased_method_is_unimplemented() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await keda.unreleased(REF)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED

    play(scene)


@pytest.mark.parametrize("data", [b"\xff" * 9, b"\x0a\x03\xff\xfe\xfd", b"\x0a\x7f"])
def test_a_call_without_a_message_is_refused_and_no_error_of_the_scaler(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(keda: Keda, known: Known, scaler: ExternalScaler) -> None:
        for call in (*(call(data) for call in keda.anything), keda.any_stream(data).read()):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call
            assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (await keda.is_active(REF)).result is False
        assert scaler.streams == 0

    play(scene)
    assert not caplog.records
