"""The process: its start, its signals and its exit statuses."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from activator.scale import app
from activator.scale.http_server import AddressError
from activator.scale.settings import ScaleSettings, load
from tests.activator.scale.world import NAMESPACE, Cluster, cluster, until

FREE = ("stat_port", "grpc_port", "metrics_port", "admin_port")


def settings(kube: Cluster, **flags: str) -> ScaleSettings:
    environ = {"SYSTEM_NAMESPACE": NAMESPACE, "KUBECONFIG": kube.kubeconfig, "POD_NAME": "scale-1"}
    return load({**dict.fromkeys(FREE, "0"), "bind": "127.0.0.1", **flags}, environ)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_releases_the_lease_and_ends_with_status_0(
    tmp_path: Path, number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with cluster(tmp_path) as kube:
        running = asyncio.ensure_future(app.run(settings(kube)))
        await until(lambda: kube.holder() == "scale-1", "a leader")
        os.kill(os.getpid(), number)
        ended = asyncio.get_running_loop().time()
        assert await running == 0
        assert asyncio.get_running_loop().time() - ended < 1
        assert kube.holder() == ""
    assert "listening: metrics 127.0.0.1:" in caplog.text
    assert f"{number.name}: ending" in caplog.text
    assert "lease activator-scale: released" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_port_in_use_is_one_clear_error(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        with pytest.raises(AddressError, match=f"port {kube.server.port} .--stat-port"):
            await app.run(settings(kube, stat_port=str(kube.server.port)))


def test_a_wrong_kubeconfig_ends_the_process_with_status_1(tmp_path: Path) -> None:
    async def run() -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "activator", "scale", "--kubeconfig", str(tmp_path / "no")),
            *("--system-namespace", NAMESPACE, "--log-format", "json"),
            *("--stat-port", "0", "--metrics-port", "0", "--admin-port", "0"),
            stderr=asyncio.subprocess.PIPE,
        )
        _, err = await process.communicate()
        return process.returncode, err.decode()

    status, err = asyncio.run(run())
    assert status == 1, err
    assert err.count("--kubeconfig names") == 1, err
    assert "Traceback" not in err
