"""The time from a pod's listening to the response of a request that waits for it."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from activator.lab.objects import PodAddress
from benchmarks import activator
from benchmarks.helpers import Helper, helper
from benchmarks.process import CannotMeasure, pause, wait_until
from benchmarks.report import Row, middle, percentile

POD_PORT = 8012
#: The last number of the first address; each turn has a new address, like pods in a cluster.
FIRST_ADDRESS = 30
GOAL_MEDIAN, GOAL_P90 = 0.008, 0.015
#: Seconds that the request waits before the pod listens. They are random, so that no probe period
#: can match them.
SHORTEST_WAIT, LONGEST_WAIT = 0.2, 1.2
#: The same waits in each run, so that runs can be compared.
SEED = 20


def measure(folder: Path, repeats: int) -> Iterator[Row]:
    """Yield one row; in each repeat, a pod starts to listen while one request waits.

    Raises:
        CannotMeasure: a process did not start, or a response was not 200.
    """
    chance = random.Random(SEED)
    manifests = folder / "manifests"
    activator.write_revision(manifests, [], container_concurrency=10)
    times: list[float] = []
    direct: list[float] = []
    with activator.running(manifests) as found, helper("pod") as pod:
        for number in range(repeats):
            ip = f"127.0.0.{FIRST_ADDRESS + number}"
            wait = chance.uniform(SHORTEST_WAIT, LONGEST_WAIT)
            times.append(_turn(found, pod, ip, wait))
            direct.append(_direct(ip))
            pod.send(f"-{ip} {POD_PORT}")
    yield _row(times, direct)


def _row(times: list[float], direct: list[float]) -> Row:
    median, p90 = middle(times), percentile(times, 90)
    beside = middle(direct)
    return Row(
        "pod listens -> response to the queued request",
        f"median {median * 1e3:.1f} ms, p90 {p90 * 1e3:.1f} ms",
        f"GET straight to it {beside * 1e3:.2f} ms",
        median / beside,
        f"<= {GOAL_MEDIAN * 1e3:.0f}, {GOAL_P90 * 1e3:.0f} ms",
        median <= GOAL_MEDIAN and p90 <= GOAL_P90,
        {"seconds": times, "directSeconds": direct},
    )


def _turn(found: activator.Activator, pod: Helper, ip: str, wait: float) -> float:
    found.list_pods([PodAddress(ip, POD_PORT, uid=f"uid-{ip}", name=f"pod-{ip}")])
    with socket.create_connection(("127.0.0.1", found.port), timeout=30) as client:
        client.sendall(_request(activator.HOST))
        wait_until(lambda: found.queued() == 1, "the request waits")
        pause(wait)
        pod.send(f"{ip} {POD_PORT}")
        answered = _wait_for_answer(client)
        listened = float(pod.receive())
    found.list_pods([])
    wait_until(
        lambda: not found.pods(), "the pod is gone"
    )  # otherwise it gets the next request, too
    return answered - listened


def _direct(ip: str) -> float:
    """Return the seconds of a request on a new connection without an activator."""
    began = monotonic()
    with socket.create_connection((ip, POD_PORT), timeout=30) as client:
        client.sendall(_request(activator.HOST))
        return _wait_for_answer(client) - began


def _request(host: str) -> bytes:
    return f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def _wait_for_answer(client: socket.socket) -> float:
    try:
        head = client.recv(65536)
    except TimeoutError:
        raise CannotMeasure(f"no response within {client.gettimeout():g} s") from None
    at = monotonic()
    if not head.startswith(b"HTTP/1.1 200"):
        raise CannotMeasure(f"expected a response of 200, got {head[:80]!r}")
    return at
