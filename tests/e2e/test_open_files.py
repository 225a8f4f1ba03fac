"""An activator with few open files and many more clients: no client is reset.

The pod responds when the test allows it, so the test knows which requests are in flight.
"""

from __future__ import annotations

import asyncio
import json
import socket
from asyncio import StreamReader, StreamWriter, Task
from collections import Counter
from pathlib import Path

import pytest

from activator.lab.objects import revision, write_object
from activator.proxy.transport.files import share_out
from benchmarks.process import raise_file_limit
from tests.activator.test_app import Pod, local, write_app
from tests.process import PATIENCE, Activator, until

pytestmark = pytest.mark.e2e

LIMIT = 256
SHARES = share_out(LIMIT)
TO_APP = {"Host": "app.default.svc.cluster.local"}
REQUEST = b"GET / HTTP/1.1\r\nHost: app.default.svc.cluster.local\r\nConnection: close\r\n\r\n"
KUBELET = {"K-Kubelet-Probe": "activator"}
#: Requests that must succeed at all times: path, listener, header fields.
ASKED = [
    ("/healthz", "admin", {}),
    ("/readyz", "admin", {}),
    ("/api/v1/revisions", "admin", {}),
    ("/metrics", "metrics", {}),
    ("/", "http", KUBELET),
]


@pytest.fixture(autouse=True)
def files() -> None:
    raise_file_limit()


class SlowPod(Pod):
    """Counts the requests that it has received and not yet responded to."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = 0

    async def answer(self, head: bytes, reader: StreamReader, writer: StreamWriter) -> None:
        self.busy += 1
        try:
            await super().answer(head, reader, writer)
        finally:
            self.busy -= 1


async def ask(address: tuple[str, int]) -> str:
    """Send one request on a new connection; return its outcome.

    The request follows the connection at once. If it came a second later, the activator could have
    evicted the connection as idle.
    """
    try:
        client = socket.create_connection(address)
        client.sendall(REQUEST)
        reader, writer = await asyncio.open_connection(sock=client)
        answer = await reader.read()
        writer.close()
    except OSError as error:
        return repr(error)
    head, _, body = answer.partition(b"\r\n\r\n")
    status = answer[9:12].decode()
    if status == "503":
        assert b"\r\nRetry-After: " in head, head
        assert b"\r\nActivator-Reason: queue-full; too many connections" in head, head
    return status if body else f"incomplete response: {answer!r}"


async def everything_else_works(running: Activator, folder: Path, name: str) -> None:
    for target, listener, headers in ASKED:
        status, _ = await running.get(target, headers, listener)
        assert status == 200, (target, listener)
    write_object(folder, revision(name))
    await running.queued(name, 0)  # the API shows the revision


def value(metrics: str, name: str) -> float:
    (line,) = [line for line in metrics.splitlines() if line.startswith(name + " ")]
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize("clients", [400, 1000])
async def test_clients_beyond_the_files_get_503_and_all_else_works(
    tmp_path: Path, clients: int
) -> None:
    async with SlowPod() as pod, local(tmp_path, open_files=LIMIT) as running:
        write_app(tmp_path, "app", pod)
        budget = await running.logged("open files: ")
        assert (budget["limit"], budget["traffic"]) == (LIMIT, SHARES.traffic)
        address = await running.address("http")
        pod.open.set()
        assert await ask(address) == "200"
        for number in range(3):
            pod.open.clear()
            tasks = [asyncio.ensure_future(ask(address)) for _ in range(clients)]
            await _all_are_answered_or_held(tasks, pod)
            await everything_else_works(running, tmp_path, f"round-{number}")
            pod.open.set()
            async with asyncio.timeout(2 * PATIENCE):
                seen = Counter(await asyncio.gather(*tasks))
            assert set(seen) == {"200", "503"}, seen
            assert SHARES.traffic // 4 <= seen["200"] <= SHARES.traffic, seen
        assert await asyncio.gather(*(ask(address) for _ in range(20))) == ["200"] * 20
        await _recovers(running)


async def _all_are_answered_or_held(tasks: list[Task[str]], pod: SlowPod) -> None:
    async def look() -> bool:
        held = sum(not task.done() for task in tasks)
        return held <= SHARES.clients and pod.busy >= SHARES.traffic // 4

    await until(look, "the pod has what it can get, and the others are turned away")


async def _recovers(running: Activator) -> None:
    """Wait until no request is queued, no client is open, and connections to the pod are idle."""

    async def look() -> bool:
        _, metrics = await running.get("/metrics", listener="metrics")
        idle = value(metrics, "activator_upstream_idle_connections")
        return (
            value(metrics, "activator_traffic_files_waiting") == 0
            and value(metrics, 'activator_traffic_files{use="clients"}') == 0
            and value(metrics, 'activator_traffic_files{use="pods"}') == idle
        )

    await until(look, "all is as before")
    _, body = await running.get("/api/v1/revisions/default/app", listener="admin")
    assert json.loads(body)["inFlight"] == json.loads(body)["queued"] == 0
