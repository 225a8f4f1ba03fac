"""KEDA's port of the whole program: decisions get there at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from activator.scale.keda import externalscaler_pb2 as wire
from activator.scale.keda.part import KedaPart
from activator.scale.listeners.http_server import ListenError
from tests.activator.scale.world import Running, cluster, scaler
from tests.conftest import on_uvloop

REF = wire.ScaledObjectRef(name="x", namespace="shop", scalerMetadata={"service": "hello"})


async def until_leader(running: Running) -> None:
    """Wait in real time until a scaler leads."""
    await until(lambda: running.leads)


async def until(condition: Callable[[], object]) -> None:
    """Wait in real time: the server of gRPC has threads of its own."""
    while not condition():
        ended = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, ended.set)
        await ended.wait()


@on_uvloop
async def test_keda_gets_the_state_of_a_cold_start(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="keda", target_concurrency="7")
        async with scaler(kube, parts=[KedaPart]) as running:
            await until_leader(running)
            address = running.scaler.addresses["grpc"]
            async with grpc.aio.insecure_channel(address) as channel, running.activator() as act:
                stream = channel.unary_stream(
                    "/externalscaler.ExternalScaler/StreamIsActive",
                    lambda message: message.SerializeToString(),
                    wire.IsActiveResponse.FromString,
                )(REF)
                assert (await stream.read()).result is False
                await act.report(3)
                assert (await stream.read()).result is True
                spec = await channel.unary_unary(
                    "/externalscaler.ExternalScaler/GetMetricSpec",
                    lambda message: message.SerializeToString(),
                    wire.GetMetricSpecResponse.FromString,
                )(REF)
                assert spec.metricSpecs[0].targetSize == 7
                stream.cancel()
            await until(lambda: kube.replicas() == 1)  # KEDA gets the state before


@on_uvloop
async def test_a_port_in_use_names_the_setting(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        port = kube.server.port
        with pytest.raises(ListenError, match="--grpc-port"):
            async with scaler(kube, parts=[KedaPart], grpc_port=str(port)):
                pass
