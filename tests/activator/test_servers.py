"""The listeners: opened together, and each taken port told of before anything is served."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from activator.config import load
from activator.proxy.server import ListenError
from activator.runtime import Runtime
from activator.servers import Servers


@pytest.fixture
def anyio_backend() -> Any:
    """uvicorn's servers tick in real time: production's loop only."""
    return "asyncio", {"loop_factory": uvloop.new_event_loop}


def runtime(folder: Path, **ports: str) -> Runtime:
    names = ("http_port", "h2c_port", "admin_port", "metrics_port", "profiling_port")
    free = dict.fromkeys(names, "0")
    flags = {"manifests": str(folder), "bind": "127.0.0.1", **free, **ports}
    return Runtime(load("local", flags, {}))


async def test_each_port_serves_what_is_its_own(tmp_path: Path) -> None:
    servers = Servers(runtime(tmp_path))
    await servers.start()
    at = servers.describe()
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"http://{at['admin']}/readyz")).status_code == 200
        assert (await client.get(f"http://{at['metrics']}/metrics")).status_code == 200
        assert (await client.get(f"http://{at['metrics']}/api/v1/revisions")).status_code == 404
        assert (await client.get(f"http://{at['profiling']}/debug/pprof/")).status_code == 404
        shown = {"runtime-profiling": "enabled"}
        servers._runtime.driver.set_config_map("config-observability", shown)
        assert (await client.get(f"http://{at['profiling']}/debug/pprof/")).status_code == 200
        for port in ("http", "h2c"):
            answer = await client.get(f"http://{at[port]}/")
            assert answer.headers["activator-reason"].startswith("unknown-revision")
    await servers.stop_data(1.0)
    await servers.stop()


@pytest.mark.parametrize("setting", ["http", "h2c", "admin", "metrics", "profiling"])
async def test_a_taken_port_is_told_with_its_setting(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(ListenError, match=rf":{port} \(--{setting}-port\): "):
            Servers(runtime(tmp_path, **{f"{setting}_port": port}))
