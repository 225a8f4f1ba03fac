"""``python -m tests.activator.discovery.at_rest``: what an activator in a cluster needs at rest.

Starts ``activator run`` against the scripted API server. Prints the seconds until it listens, and
the CPU and memory that it has used by then. Figures are for people: no test asserts them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

from tests.activator.discovery.fake_api_server import FakeApiServer
from tests.activator.discovery.recording import config_map, private, public, revision
from tests.process import ANY_PORTS, activator

ENVIRONMENT = {"POD_NAME": "a", "POD_IP": "10.0.0.9", "SYSTEM_NAMESPACE": "knative-serving"}


async def measure(revisions: int, autoscaler_url: str) -> str:
    """Return one line of figures.

    Arguments:
        revisions: how many the API server lists, each scaled to zero.
        autoscaler_url: where the activator looks for an autoscaler; empty for none.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with FakeApiServer() as api:
            api.put(config_map("config-network"))
            for name in (f"r{number}" for number in range(revisions)):
                for obj in (revision(name), private(of=name), public("10.0.0.9", of=name)):
                    api.put(obj)
            flags = ("--kubeconfig", api.kubeconfig(Path(folder)))
            autoscaler = ("--autoscaler-url", autoscaler_url)
            began = time.monotonic()
            async with activator(
                "run", *ANY_PORTS, *flags, *autoscaler, environment=ENVIRONMENT
            ) as running:
                await running.logged("listening: ")
                took = time.monotonic() - began
                cpu, resident = usage(running.process.pid)
    return (
        f"{revisions} revisions: listens after {took:.2f} s ({cpu:.2f} s of CPU), "
        f"{resident:.1f} MiB resident"
    )


def usage(pid: int) -> tuple[float, float]:
    """Return the seconds of CPU that a process has used, and its resident memory in MiB."""
    process = Path(f"/proc/{pid}")
    ticks = (process / "stat").read_text().rpartition(")")[2].split()[11:13]
    pages = int((process / "statm").read_text().split()[1])
    cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return cpu, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--revisions", type=int, default=0)
    parser.add_argument("--autoscaler-url", default="")
    options = parser.parse_args()
    print(asyncio.run(measure(options.revisions, options.autoscaler_url)))


if __name__ == "__main__":
    main()
