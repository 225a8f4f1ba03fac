"""KEDA's calls, made by a real gRPC client over a loopback socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from activator.scale.keda import externalscaler_pb2 as wire
from activator.scale.keda.server import ExternalScaler, Workload, handlers
from activator.scale.load import Name

HELLO = Name("shop", "hello")
REF = wire.ScaledObjectRef(
    name="hello", namespace="shop", scalerMetadata={"service": "hello", "scalerAddress": "x:6000"}
)


class Known:
    """The Services that a test knows."""

    def __init__(self) -> None:
        self.workloads = {HELLO: Workload(False, 0, 100)}
        self.change = asyncio.Event()
        self.leads = True

    def workload(self, service: Name) -> Workload | None:
        return self.workloads.get(service)

    async def changed(self, service: Name) -> None:
        await self.change.wait()

    def set(self, workload: Workload | None) -> None:
        """Change or remove hello, and notify the streams."""
        if workload is None:
            del self.workloads[HELLO]
        else:
            self.workloads[HELLO] = workload
        self.change.set()
        self.change = asyncio.Event()


class Keda:
    """KEDA's side of one connection."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        path = "/externalscaler.ExternalScaler/"
        encode = lambda message: message.SerializeToString()  # noqa: E731  # used four times
        unary, stream = channel.unary_unary, channel.unary_stream
        self.is_active = unary(f"{path}IsActive", encode, wire.IsActiveResponse.FromString)
        self.stream = stream(f"{path}StreamIsActive", encode, wire.IsActiveResponse.FromString)
        self.spec = unary(f"{path}GetMetricSpec", encode, wire.GetMetricSpecResponse.FromString)
        self.metrics = unary(f"{path}GetMetrics", encode, wire.GetMetricsResponse.FromString)
        self.unreleased = unary(f"{path}StreamMetricSpec", encode, bytes)

    async def metric(self) -> Any:
        request = wire.GetMetricsRequest(scaledObjectRef=REF, metricName="s0-activator-shop-hello")
        return (await self.metrics(request)).metricValues[0]


def play(scene: Callable[[Keda, Known, ExternalScaler], Awaitable[None]]) -> None:
    """Run a scene against a server on a loopback port."""

    async def run() -> None:
        known = Known()
        scaler = ExternalScaler(known, lambda: known.leads)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((handlers(scaler),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await asyncio.wait_for(scene(Keda(channel), known, scaler), 30)
        finally:
            await server.stop(None)

    asyncio.run(run())


def test_a_sleeping_service() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        assert not (await keda.is_active(REF)).result
        [spec] = (await keda.spec(REF)).metricSpecs
        assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == (
            *("activator-shop-hello", 100, 100.0),
        )
        value = await keda.metric()
        assert (value.metricName, value.metricValue) == ("activator-shop-hello", 0)

    play(scene)


@pytest.mark.parametrize(("load", "shown"), [(0, 1), (0.4, 1), (7.4, 7)])
def test_an_active_service_has_at_least_one_request(load: float, shown: int) -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        known.set(Workload(True, load, 0.5))
        assert (await keda.is_active(REF)).result
        assert (await keda.metric()).metricValue == shown
        assert (await keda.spec(REF)).metricSpecs[0].targetSize == 1

    play(scene)


def test_a_stream_gives_the_state_at_once_and_each_change() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        stream = keda.stream(REF)
        assert not (await stream.read()).result
        known.set(Workload(True, 1, 100))
        assert (await stream.read()).result
        # KEDA drops the first ones of a new ScaledObject: they are repeated.
        assert (await stream.read()).result
        known.set(Workload(False, 0, 100))
        while (await stream.read()).result:
            pass
        stream.cancel()

    play(scene)


def test_a_stream_that_ends_leaves_nothing() -> None:
    async def scene(keda: Keda, known: Known, scaler: ExternalScaler) -> None:
        streams = [keda.stream(REF) for _ in range(20)]
        for stream in streams:
            await stream.read()
        assert scaler.streams == 20
        for stream in streams:
            stream.cancel()
        while scaler.streams:  # noqa: ASYNC110  # the server offers no event
            await asyncio.sleep(0)

    play(scene)


def test_a_deleted_service_ends_its_streams() -> None:
    async def scene(keda: Keda, known: Known, _: ExternalScaler) -> None:
        stream = keda.stream(REF)
        await stream.read()
        known.set(None)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stream.read()
        assert error.value.code() is grpc.StatusCode.NOT_FOUND

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
