"""Policies with real processes: fair queuing, sticky requests, and adaptive concurrency.

Each figure is a ratio of turns beside each other, or a share. So the speed of the machine matters
little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import uvloop

from activator.lab.objects import PodAddress
from benchmarks import activator
from benchmarks.activator import Activator
from benchmarks.helpers import helper
from benchmarks.policy_client import Client, Response
from benchmarks.policy_http2 import Http2Client
from benchmarks.process import wait_until
from benchmarks.report import Row, middle, percentile, table

POD_PORT = 8012
PREFIX = "activator.dev/"
#: Seconds of a response, and slots of each of two pods.
SERVICE, SLOTS = 0.05, 4
#: Requests that the greedy tenant always has, and requests a second of the modest one.
GREEDY, MODEST_RATE = 200, 20.0
GOAL_TENANT = 2.0
#: The clients of tenants, by protocol. In HTTP/2 and gRPC both tenants share one connection.
CLIENTS: dict[str, Callable[[int, str], Client]] = {
    "HTTP/1.1": Client,
    "HTTP/2": partial(Http2Client, is_grpc=False),
    "gRPC": partial(Http2Client, is_grpc=True),
}
#: Sessions, and pods after a change of one.
SESSIONS, PODS = 2000, 8
GOAL_MOVED = 1 / PODS + 0.02
#: A pod that collapses: seconds of a response, and requests beyond which it becomes slower.
COLLAPSE, BEYOND = 0.5, 200
#: Requests a second, and further ones in the second second.
RATE, BURST = 300.0, 500.0
TIMEOUT = 20
GOAL_COLLAPSE = 0.5


def measure(folder: Path, rounds: int, seconds: float) -> Iterator[Row]:
    """Yield a row for each policy.

    Arguments:
        rounds: of turns beside each other; seconds: of one turn.

    Raises:
        CannotMeasure: a process did not start, or a request failed that must not.
    """
    for protocol in CLIENTS:
        yield _tenants(folder / f"tenants-{len(protocol)}", protocol, rounds, seconds)
    yield _sessions(folder / "sessions")
    yield _collapse(folder / "collapse")


def _tenants(folder: Path, protocol: str, rounds: int, seconds: float) -> Row:
    variants = {"fair": {"fair-by": "header:X-Tenant"}, "fifo": {}}
    h2c, connect = protocol != "HTTP/1.1", CLIENTS[protocol]
    with _world(folder, variants, pods=2, slots=SLOTS, seconds=SERVICE, h2c=h2c) as found:
        turns = uvloop.run(_modest(partial(connect, found.port), list(variants), rounds, seconds))
    ratios = {name: middle([beside / alone for alone, beside in turns[name]]) for name in turns}
    times = {name: [middle(column) for column in zip(*turns[name], strict=True)] for name in turns}
    return Row(
        f"policies: p99 of a tenant beside {GREEDY} requests of another, {protocol}: fair-by",
        f"{times['fair'][1] * 1e3:.0f} ms",
        f"alone {times['fair'][0] * 1e3:.0f} ms; first in, first out {times['fifo'][1] * 1e3:.0f}",
        ratios["fair"],
        f"<= {GOAL_TENANT:g} x alone",
        ratios["fair"] <= GOAL_TENANT,
        {"aloneAndBeside": turns, "ratios": ratios},
    )


async def _modest(
    connect: Callable[[str], Client], names: list[str], rounds: int, seconds: float
) -> dict[str, list[tuple[float, float]]]:
    """Return the p99 of the modest tenant, alone and beside the greedy one, for each revision."""
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            client = connect(_host(name))
            greedy = client.beside()
            alone = await client.arrive(MODEST_RATE, seconds, "X-Tenant: modest")
            loop = asyncio.get_running_loop()
            flood = [loop.create_task(_repeat(greedy)) for _ in range(GREEDY)]
            await greedy.get("X-Tenant: greedy")  # the queue is full of the others by then
            beside = await client.arrive(MODEST_RATE, seconds, "X-Tenant: modest")
            for each in flood:
                each.cancel()
            await asyncio.wait(flood)
            client.close()
            greedy.close()
            turns[name].append((_p99(alone), _p99(beside)))
    return turns


async def _repeat(client: Client) -> None:
    while True:
        await client.good("X-Tenant: greedy")


def _sessions(folder: Path) -> Row:
    with _world(folder, {"sticky": {"sticky": "header:X-Session"}}, pods=PODS) as found:
        moved = uvloop.run(_moves(found))
    most = max(moved.values())
    return Row(
        f"policies: sessions of {SESSIONS:,} that move when one pod of {PODS} comes or goes",
        f"{most:.1%}",
        f"share of the pod {1 / PODS:.1%}",
        most * PODS,
        f"<= {GOAL_MOVED:.1%}",
        most <= GOAL_MOVED,
        {"moved": moved},
    )


async def _moves(found: Activator) -> dict[str, float]:
    """Return the shares of the sessions that each change of the pods moves."""
    client, every = Client(found.port, _host("sticky")), _addresses(0, PODS)
    before = await _pods_of_sessions(client)
    moved = {}
    for what, pods in (("goes", every[1:]), ("comes", every)):
        found.list_pods(_listed(pods), "sticky")
        _wait_usable(found, "sticky", len(pods))
        after = await _pods_of_sessions(client)
        moved[what] = sum(a != b for a, b in zip(before, after, strict=True)) / SESSIONS
        before = after
    client.close()
    return moved


async def _pods_of_sessions(client: Client) -> list[str]:
    pods: list[str] = []
    for first in range(0, SESSIONS, 50):
        sent = (client.good(f"X-Session: {n}") for n in range(first, first + 50))
        pods += [response.pod for response in await asyncio.gather(*sent)]
    return pods


def _collapse(folder: Path) -> Row:
    variants = {mode: {"adaptive-concurrency": mode} for mode in ("off", "observe", "on")}
    with _world(folder, variants, pods=1, seconds=COLLAPSE, beyond=BEYOND) as found:
        times = {mode: uvloop.run(_burst(found.port, mode)) for mode in variants}
    p99 = {mode: _p99(responses) for mode, responses in times.items()}
    good = {mode: sum(r.status == activator.OK for r in times[mode]) for mode in times}
    ratio = p99["on"] / p99["off"]
    return Row(
        f"policies: p99 of a pod that collapses beyond {BEYOND} in flight: adaptive-concurrency",
        f"{p99['on']:.1f} s, {good['on']:,} of {len(times['on']):,} served",
        f"off {p99['off']:.1f} s, {good['off']:,} of {len(times['off']):,}; "
        f"observe {p99['observe']:.1f} s",
        ratio,
        f"<= {GOAL_COLLAPSE:g}",
        ratio <= GOAL_COLLAPSE,
        {"p99": p99, "served": good},
    )


async def _burst(port: int, mode: str) -> list[Response]:
    client = Client(port, _host(mode))
    steady = asyncio.get_running_loop().create_task(client.arrive(RATE, 4.0))
    await asyncio.sleep(1.0)
    responses = await client.arrive(BURST, 1.0) + await steady
    client.close()
    return responses


def _p99(responses: list[Response]) -> float:
    return percentile([response.seconds for response in responses], 99)


@contextmanager
def _world(
    folder: Path,
    variants: Mapping[str, Mapping[str, str]],
    *,
    pods: int,
    slots: int = 0,
    seconds: float = 0.0,
    beyond: int = 0,
    h2c: bool = False,
) -> Iterator[Activator]:
    """Provide an activator with a revision, and pods of its own, for each set of policies.

    Arguments:
        variants: the names of the revisions, with their annotations.
        pods: of each revision; slots: of each pod.
        seconds, beyond: see `benchmarks.policy_pod`.
        h2c: whether the pods get HTTP/2.
    """
    every: list[str] = []
    for n, (name, words) in enumerate(variants.items()):
        addresses = _addresses(n, pods)
        every += addresses
        annotations = {PREFIX + word: value for word, value in words.items()}
        activator.write_revision(
            folder,
            _listed(addresses),
            name=name,
            annotations=annotations,
            container_concurrency=slots,
            h2c=h2c,
            timeout=TIMEOUT,
        )
    listening = [f"{ip}:{POD_PORT}" for ip in every]
    with helper("policy_pod", f"{seconds}", f"{beyond}", *listening) as served:
        served.receive()
        with activator.running(folder) as found:
            for name in variants:
                _wait_usable(found, name, pods)
            yield found


def _wait_usable(found: Activator, name: str, pods: int) -> None:
    wait_until(lambda: found.usable(name) == pods, f"{pods} pods of {name} are usable")


def _addresses(revision: int, count: int) -> list[str]:
    return [f"127.0.{40 + revision}.{n + 1}" for n in range(count)]


def _listed(pods: list[str]) -> list[PodAddress]:
    return [PodAddress(ip, POD_PORT, uid=f"uid-{ip}", name=f"pod-{ip}", ready=True) for ip in pods]


def _host(name: str) -> str:
    return f"{name}.default.svc.cluster.local"


if __name__ == "__main__":
    with TemporaryDirectory() as found:
        print(table(list(measure(Path(found), 3, 5.0))))
