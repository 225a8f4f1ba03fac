"""CPU time per HTTP/2 request, compared with HAProxy, and with nginx with grpc_pass."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import activator, haproxy, nginx
from benchmarks.helpers import helper
from benchmarks.process import CannotMeasure, cpu_seconds, free_port
from benchmarks.proxying import Proxy, candidate, compare
from benchmarks.report import Row

CONNECTIONS, STREAMS = 16, 4
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of request.

    Attributes:
        kind: a key of `http2_requests.KINDS`, or ``down`` and ``up`` for a MiB each.
        goal: at most so many times nginx's cost; None for no goal.
        haproxy_goal: the same for HAProxy's cost.
    """

    what: str
    kind: str
    goal: float | None = None
    haproxy_goal: float | None = None


#: nginx takes 16 and 17 µs for repeating headers, 25 and 45 µs for new ones.
REPEATING, NEW = 1.6, 2.6
SMALL = (
    Load("h2c GET, the same again and again", "repeating", REPEATING),
    Load("h2c GET, as through an ingress", "ingress", NEW, 1.4),
    Load("gRPC unary, straight from its client", "unary", REPEATING),
    Load("gRPC unary, as through an ingress", "unary-by-ingress", NEW),
)
LARGE = (Load("h2c, 1 MiB to the client", "down"), Load("h2c, 1 MiB to the pod", "up"))


def measure(folder: Path, rounds: int, requests: int) -> Iterator[Row]:
    """Yield a row for each kind of request and each proxy beside the activator.

    Arguments:
        rounds: turns of each proxy.
        requests: requests of a turn; a hundredth of it for requests with a MiB.

    Raises:
        CannotMeasure: a program is missing, or requests failed.
    """
    h2load = nginx.need("h2load", "nghttp2-client")
    body = folder / "body"
    body.write_bytes(bytes(MIB))
    for name, loads, size in (("small", SMALL, 0), ("large", LARGE, MIB)):
        with _proxies(folder / name, size) as (ours, by_nginx, by_haproxy):
            for load in loads:

                def run(proxy: Proxy, load: Load = load) -> tuple[float, float]:
                    if load.kind in ("down", "up"):
                        upload = ["-d", str(body)] if load.kind == "up" else []
                        return _turn_of_h2load([h2load, *upload], proxy, requests // 100)
                    return _turn(proxy, load.kind, requests // CONNECTIONS)

                yield compare(load.what, load.goal, ours, by_nginx, rounds, run)
                what = f"{load.what} [HAProxy]"
                goal = load.haproxy_goal
                yield compare(what, goal, ours, by_haproxy, rounds, run, name="HAProxy")


def _turn(proxy: Proxy, kind: str, count: int) -> tuple[float, float]:
    """Run a turn with prepared requests; return CPU seconds and requests per second."""
    where = f"127.0.0.1:{proxy.port}"
    counts = map(str, (CONNECTIONS, STREAMS, count))
    with helper("http2_client", where, activator.HOST, kind, *counts) as client:
        client.receive()
        before = cpu_seconds(proxy.pid)
        client.send("")
        told = client.receive()
        spent = cpu_seconds(proxy.pid) - before
    asked = CONNECTIONS * count
    if told["answers"] != asked:
        raise CannotMeasure(f"{asked - told['answers']} of {asked} requests failed")
    return spent / asked, asked / told["seconds"]


def _turn_of_h2load(command: list[str], proxy: Proxy, count: int) -> tuple[float, float]:
    """Run a turn with few large requests; return CPU seconds and requests per second."""
    command = [*command, "-n", str(count), "-c4", "-m2", "-H", f":authority: {activator.HOST}"]
    before = cpu_seconds(proxy.pid)
    told = subprocess.run(
        [*command, f"http://127.0.0.1:{proxy.port}/"], capture_output=True, text=True, check=True
    ).stdout
    spent = cpu_seconds(proxy.pid) - before
    found = re.search(r"finished in ([\d.]+)(m?)s", told)
    if found is None or f"{count} 2xx" not in told:
        raise CannotMeasure(f"requests failed: {' '.join(told.split())}")
    seconds = float(found[1]) / (1000 if found[2] else 1)
    return spent / count, count / seconds


@contextmanager
def _proxies(folder: Path, size: int) -> Iterator[tuple[Proxy, Proxy, Proxy]]:
    """Provide the activator, nginx and HAProxy in front of pods whose responses have this size."""
    folder.mkdir()
    port, haproxy_port = free_port(), free_port()
    places = [f"{ip}:{nginx.POD_PORT}" for ip in nginx.POD_IPS]
    with helper("http2_pod", str(size), *places) as pods:
        pods.receive()
        with (
            nginx.proxy(folder, port, http2=True) as pid,
            haproxy.proxy(folder, haproxy_port, http2=True) as haproxy_pid,
            candidate(folder, h2c=True) as ours,
        ):
            yield ours, Proxy(port, pid), Proxy(haproxy_port, haproxy_pid)
