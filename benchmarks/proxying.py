"""CPU time per proxied HTTP/1 request, compared with nginx and HAProxy before the same pods."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from activator.lab.objects import PodAddress
from benchmarks import activator, haproxy, nginx
from benchmarks.process import CannotMeasure, cpu_seconds, free_port
from benchmarks.report import Row, middle

CONNECTIONS = 64
#: Clients of one pod, more than the idle connections that the activator always keeps, and the most
#: that a request may cost then, as a multiple of its cost with CONNECTIONS clients.
CROWD, CROWD_GOAL = 512, 1.4
#: A limit that is never reached: the activator counts requests, but none waits.
CONTAINER_CONCURRENCY = 100

_GET_WITH_ID = """\
local n = 0
request = function()
  n = n + 1
  return "GET / HTTP/1.1\\r\\nHost: %s\\r\\nx-request-id: request-" .. n .. "\\r\\n\\r\\n"
end
"""
POST = 'wrk.method = "POST"\nwrk.body = string.rep("x", 10240)\n'
UPLOAD = f'wrk.method = "POST"\nwrk.path = "/upload"\nwrk.body = string.rep("x", {nginx.LARGE})\n'


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of request."""

    what: str
    script: str
    goal: float


LOADS = (
    Load("GET, keep-alive", "", 2.2),
    Load("GET, each with its own x-request-id", _GET_WITH_ID % activator.HOST, 2.2),
    Load("POST of 10 KB", POST, 2.4),
    Load("upload of 1 MiB", UPLOAD, 0.9),
    Load("download of 1 MiB", 'wrk.path = "/large"\n', 0.6),
)


@dataclass(frozen=True, slots=True)
class Proxy:
    """Something that forwards requests, by its port and the process that does it.

    Attributes:
        connections: clients in one turn, each with one request at a time.
        host: the header field of all requests.
    """

    port: int
    pid: int
    connections: int = CONNECTIONS
    ip: str = "127.0.0.1"
    host: str = activator.HOST


def measure(folder: Path, rounds: int, seconds: float, itself: bool) -> Iterator[Row]:
    """Yield a row for each kind of request and each proxy, and one for many clients of one pod.

    Arguments:
        rounds: how often each proxy has its turn.
        seconds: how long a turn is.
        itself: a second nginx stands in for the activator, which shows the noise of the machine.

    Raises:
        CannotMeasure: a program is missing, or requests failed.
    """
    wrk = nginx.need("wrk", "wrk")
    port = free_port()
    with (
        nginx.pods(folder),
        haproxy.proxy(folder, port) as haproxy_pid,
        _nginx(folder / "beside") as beside,
        _nginx(folder / "itself") if itself else candidate(folder) as ours,
    ):
        for load in LOADS:
            script = folder / "load.lua"
            script.write_text(load.script)

            def run(
                proxy: Proxy, seconds: float = seconds, script: Path = script
            ) -> tuple[float, float]:
                return turn(wrk, proxy, script, seconds)

            row = compare(load.what, load.goal, ours, beside, rounds, run)
            yield replace(row, what=f"{row.what} [nginx itself]", met=None) if itself else row
            if not itself:
                by_haproxy, what = Proxy(port, haproxy_pid), f"{load.what} [HAProxy]"
                yield compare(what, None, ours, by_haproxy, rounds, run, name="HAProxy")
        if not itself:
            yield _crowd(folder / "crowd", wrk, rounds, seconds)


def _crowd(folder: Path, wrk: str, rounds: int, seconds: float) -> Row:
    """Return the row of requests by many clients at a time to one pod, compared with few."""
    folder.mkdir()
    script = folder / "load.lua"
    script.touch()
    with candidate(folder, ips=nginx.POD_IPS[:1], container_concurrency=0) as few:
        return compare(
            f"GET, {CROWD} clients of one pod",
            CROWD_GOAL,
            replace(few, connections=CROWD),
            few,
            rounds,
            lambda proxy: turn(wrk, proxy, script, seconds),
            name=f"{CONNECTIONS} clients",
        )


#: One turn of a proxy: CPU seconds per request, and requests per second.
Run = Callable[[Proxy], tuple[float, float]]


def compare(
    what: str,
    goal: float | None,
    ours: Proxy,
    beside: Proxy,
    rounds: int,
    run: Run,
    *,
    name: str = "nginx",
    each: str = "request",
) -> Row:
    """Return the row of one kind of request, from turns of two proxies in pairs.

    Arguments:
        goal: at most so many times the cost of ``beside``; None for no goal.
        name: of ``beside``.
        each: the unit of the cost.
    """
    for proxy in (ours, beside):
        run(proxy)  # warms connections, pools, memos and branch predictors; not counted
    pairs = [(run(ours), run(beside)) for _ in range(rounds)]
    ratio = middle([mine[0] / other[0] for mine, other in pairs])
    cost, cost_beside = (middle([pair[i][0] for pair in pairs]) for i in (0, 1))
    rate, rate_beside = (middle([pair[i][1] for pair in pairs]) for i in (0, 1))
    return Row(
        what,
        f"{cost * 1e6:.1f} µs CPU/{each}",
        f"{name} {cost_beside * 1e6:.1f} µs",
        ratio,
        "" if goal is None else f"<= {goal} x",
        None if goal is None else ratio <= goal,
        {"pairs": pairs, "requestsPerSecond": rate, "requestsPerSecondBeside": rate_beside},
    )


def turn(wrk: str, proxy: Proxy, script: Path, seconds: float) -> tuple[float, float]:
    """Return the CPU seconds per request, and requests per second, of one turn."""
    command = [wrk, "-t1", f"-c{proxy.connections}", f"-d{seconds:g}s", "-s", str(script)]
    command += ["-H", f"Host: {proxy.host}", f"http://{proxy.ip}:{proxy.port}/"]
    before = cpu_seconds(proxy.pid)
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    spent = cpu_seconds(proxy.pid) - before
    found = re.search(r"(\d+) requests in ([\d.]+)s", told)
    if found is None or "Non-2xx" in told or "Socket errors" in told:
        raise CannotMeasure(f"requests failed: {' '.join(told.split())}")
    requests = int(found[1])
    return spent / requests, requests / float(found[2])


@contextmanager
def _nginx(folder: Path) -> Iterator[Proxy]:
    folder.mkdir()
    port = free_port()
    with nginx.proxy(folder, port) as pid:
        yield Proxy(port, pid)


@contextmanager
def candidate(
    folder: Path,
    *,
    h2c: bool = False,
    ips: tuple[str, ...] = nginx.POD_IPS,
    container_concurrency: int = CONTAINER_CONCURRENCY,
) -> Iterator[Proxy]:
    """Provide the activator in front of the pods of `benchmarks.nginx`.

    Arguments:
        h2c: the pods accept HTTP/2.
        ips: of the pods.
        container_concurrency: of their revision; 0 for no limit.
    """
    manifests = folder / "manifests"
    pods = [
        PodAddress(ip, nginx.POD_PORT, uid=f"uid-{ip}", name=f"pod-{ip}", ready=True) for ip in ips
    ]
    activator.write_revision(manifests, pods, container_concurrency=container_concurrency, h2c=h2c)
    with activator.running(manifests) as found:
        yield Proxy(found.port, found.pid)
