"""KEDA's side of a connection to an external scaler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc

from activator.scale.keda import externalscaler_pb2 as wire


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
        raw = lambda data: data  # noqa: E731  # used twice
        self.anything = [
            unary(f"{path}{name}", raw, raw) for name in ("IsActive", "GetMetricSpec", "GetMetrics")
        ]
        self.any_stream = stream(f"{path}StreamIsActive", raw, raw)
        self.unreleased = unary(f"{path}StreamMetricSpec", encode, bytes)


async def cancelled(stream: grpc.aio.UnaryStreamCall[object, object]) -> None:
    """Cancel a stream, and wait for its end.

    Its last event must not come after its loop: gRPC would raise an error in a later test.
    """
    stream.cancel()
    assert await stream.code() is grpc.StatusCode.CANCELLED


async def until(condition: Callable[[], object]) -> None:
    """Wait in real time: the server of gRPC has threads of its own."""
    while not condition():
        ended = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, ended.set)
        await ended.wait()
