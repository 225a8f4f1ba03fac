"""The whole table of parts, in real time: gRPC has threads of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.activator.scale.keda.test_part import until_leader
from tests.activator.scale.world import cluster, scaler
from tests.conftest import on_uvloop


@pytest.mark.untraced
@on_uvloop
async def test_a_scaler_with_all_parts_starts_leads_and_ends(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add()
        async with scaler(kube, parts=None) as running:
            await until_leader(running)
            assert set(running.scaler.addresses) >= {"admin", "grpc", "metrics", "stat"}
