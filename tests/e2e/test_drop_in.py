"""Two activators instead of Knative's: nginx in front, and an autoscaler that uses the stats.

Ingress and activators are processes; ``tests/e2e/knative.py`` plays the rest of Knative.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from websockets.asyncio.client import connect

from activator.lab.programs import ClientResponse
from tests.activator.discovery.fake_api_server import event, expired
from tests.activator.discovery.recording import config_map
from tests.e2e.ingress import HOST, REVISION, Ingress, need_nginx
from tests.e2e.knative import ApiServer, Autoscaler, Deployment, gather
from tests.e2e.world import at
from tests.process import ANY_PORTS, Activator, activator, until

pytestmark = pytest.mark.e2e

KUBELET = {"User-Agent": "kube-probe/1.35"}
TO_REVISION = {"Knative-Serving-Namespace": "default", "Knative-Serving-Revision": REVISION}
#: Both phases of a drain, short. nginx must have removed the activator within the first.
END = ("--lame-duck", "3s", "--drain-timeout", "20s")


class Installation:
    """All parts of one test; leaving the block ends them.

    Attributes:
        activators: the running activators, by their POD_IP.
    """

    def __init__(self, folder: Path, container_concurrency: int) -> None:
        self._folder = folder
        self._stack = AsyncExitStack()
        self.api = ApiServer()
        for name in ("config-network", "config-logging", "config-observability"):
            self.api.put(config_map(name))
        self.deployment = Deployment(self.api, REVISION, container_concurrency)
        self.ingress = Ingress(folder / "ingress")
        self.autoscaler = Autoscaler(self.deployment, 2.0, self._is_activator_in_path)
        self.activators: dict[str, Activator] = {}
        self.ended: list[Activator] = []

    async def __aenter__(self) -> Installation:
        for part in (self.api, self.deployment, self.ingress, self.autoscaler):
            await self._stack.enter_async_context(part)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()
        for running in (*self.activators.values(), *self.ended):
            assert "Traceback" not in running.log, running.log
        assert self.autoscaler.faults == []

    async def start_activator(self, ip: str, *flags: str) -> Activator:
        """Start an activator; Kubernetes and the ingress do not list it yet."""
        environment = {
            "POD_NAME": f"activator-{ip}",
            "POD_IP": ip,
            "SYSTEM_NAMESPACE": "knative-serving",
            "KUBECONFIG": self.api.kubeconfig(self._folder),
            "ACTIVATOR_AUTOSCALER_URL": self.autoscaler.url,
        }
        running = await self._stack.enter_async_context(
            activator("run", *ANY_PORTS, *END, *flags, environment=environment)
        )
        self.activators[ip] = running
        await running.address("http")
        return running

    async def route(self) -> None:
        """List the running activators in Kubernetes and in the ingress."""
        self.deployment.reached_by(list(self.activators))
        addresses = [await running.address("http") for running in self.activators.values()]
        await self.ingress.share_among(addresses)

    async def known(self, running: Activator) -> dict[str, Any]:
        """Return an activator's view of the revision, from its API."""
        path = f"/api/v1/revisions/default/{REVISION}"
        status, body = await running.get(path, listener="admin")
        found: dict[str, Any] = json.loads(body)
        assert status == 200, body
        return found

    async def until_known(
        self, running: Activator, condition: Callable[[dict[str, Any]], object]
    ) -> None:
        async def look() -> bool:
            return bool(condition(await self.known(running)))

        await until(look, "the activator knows what changed")

    async def _is_activator_in_path(self) -> bool:
        reply = await self.ingress.fetch("//healthz", k_network_probe="activator")
        return bool((reply.status, reply.body) == (200, "activator"))


@asynccontextmanager
async def installed(
    folder: Path, *flags: str, container_concurrency: int = 2
) -> AsyncIterator[Installation]:
    """Yield an installation with two activators behind the ingress."""
    need_nginx()
    async with Installation(folder, container_concurrency) as world:
        await gather(*(world.start_activator(ip, *flags) for ip in ("10.0.0.11", "10.0.0.12")))
        await world.route()
        yield world


# Probes.


async def test_probes_of_ingress_kubelet_and_autoscaler_pass_directly_and_through_nginx(
    tmp_path: Path,
) -> None:
    async with installed(tmp_path) as world:
        network = {"K-Network-Probe": "probe", "K-Network-Hash": "a1b2c3"}
        through = await world.ingress.fetch("/healthz", **network)
        assert (through.status, through.headers["k-network-hash"]) == (200, "a1b2c3")
        refused = await world.ingress.fetch("/healthz", k_network_probe="probe")
        assert (refused.status, refused.body) == (
            400,
            'a probe request must contain a non-empty "K-Network-Hash" header\n',
        )
        scaler = {"User-Agent": "Knative-Autoscaling-Probe", "K-Network-Probe": "activator"}
        to_zero = await world.ingress.fetch("//healthz", **scaler)
        assert (to_zero.status, to_zero.body) == (200, "activator")

        for running in world.activators.values():
            unknown = {"Host": "unknown.example.com"}
            for listener in ("http", "h2c"):
                assert await running.get("/any", {**network, **unknown}, listener) == (200, "")
                assert (await running.get("//healthz", scaler, listener))[1] == "activator"
            await until(lambda: is_healthy(running), "the autoscaler is connected")  # noqa: B023 # awaited here

        await world.autoscaler.stop()
        for running in world.activators.values():
            await until(lambda: is_lost(running), "the autoscaler is lost")  # noqa: B023 # awaited here
            assert (await running.get("/healthz", listener="metrics"))[0] == 200
        await world.autoscaler.start()
        for running in world.activators.values():
            await until(lambda: is_healthy(running), "the autoscaler is back")  # noqa: B023 # awaited here


async def is_healthy(running: Activator) -> bool:
    return await running.get("/", KUBELET) == (200, "")


async def is_lost(running: Activator) -> bool:
    answer = await running.get("/", KUBELET)
    assert answer in ((200, ""), (500, "connection has not yet been established\n"))
    return answer[0] == 500


# Shares of the pods.


async def five_closed_pods(world: Installation) -> list[Any]:
    """Start five pods that do not respond yet; return them in the order of the shares."""
    world.deployment.scale_up(5)
    await world.deployment.until(
        lambda: all("ready" in pod.events for pod in world.deployment.pods)
    )
    for running in world.activators.values():
        await world.until_known(running, _has_five_and_its_share)
    world.deployment.gate.clear()
    return sorted(world.deployment.pods, key=lambda pod: f"127.0.0.1:{pod.port}")


def _has_five_and_its_share(known: dict[str, Any]) -> bool:
    healthy = [pod for pod in known["pods"] if pod["state"] == "healthy"]
    return len(healthy) == 5 and known["activatorCount"] == 2


def ask(running: Activator, name: str, count: int) -> list[asyncio.Future[tuple[int, str]]]:
    """Send requests to one activator, past the ingress; ``name`` identifies them at the pods."""
    headers = {**TO_REVISION, "X-Asked": name}
    return [asyncio.ensure_future(running.get("/", headers)) for _ in range(count)]


@pytest.mark.usefixtures("real_start")  # so that no two processes have the same hashes
async def test_each_activator_uses_its_own_share_of_the_pods_and_no_more(tmp_path: Path) -> None:
    async with installed(tmp_path, "--borrow", "false") as world:
        one, two = world.activators.values()
        pods = await five_closed_pods(world)
        asked = [*ask(one, "one", 10), *ask(two, "two", 10)]
        # Each has two pods, and the first activator also has the fifth: 6 slots and 4.
        await world.until_known(one, lambda known: known["queued"] == 10 - 6)
        await world.until_known(two, lambda known: known["queued"] == 10 - 4)
        await until(lambda: _are_held(pods, 10), "all requests that are not queued are in flight")
        assert [dict(pod.held) for pod in pods] == [
            *({"one": 2}, {"one": 2}),
            *({"two": 2}, {"two": 2}),
            {"one": 2},
        ]
        world.deployment.gate.set()
        assert {status for status, _ in await gather(*asked)} == {200}
        assert max(pod.most for pod in pods) == 2

        # The second activator ends: the first one has all pods.
        world.deployment.gate.clear()
        world.deployment.reached_by(["10.0.0.11"])
        asked = ask(one, "one", 12)
        await until(lambda: _are_held(pods, 10), "the first one uses all pods")
        await world.until_known(one, lambda known: known["queued"] == 2)
        world.deployment.gate.set()
        assert {status for status, _ in await gather(*asked)} == {200}
        assert max(pod.most for pod in pods) == 2


async def test_nobody_waits_beside_an_idle_pod_of_another_activator(tmp_path: Path) -> None:
    async with installed(tmp_path) as world:
        one, _ = world.activators.values()
        pods = await five_closed_pods(world)
        asked = ask(one, "one", 6)
        await until(lambda: _are_held(pods, 6), "the own share is used")
        assert [pod.held["one"] for pod in pods] == [2, 2, 0, 0, 2]
        asked += ask(one, "one", 5)
        await until(lambda: _are_held(pods, 10), "the other pods are used before a request waits")
        await world.until_known(one, lambda known: known["queued"] == 1)
        world.deployment.gate.set()
        assert {status for status, _ in await gather(*asked)} == {200}
        assert max(pod.most for pod in pods) == 2


async def _are_held(pods: list[Any], count: int) -> bool:
    return bool(sum(pod.held.total() for pod in pods) == count)


# Scaling.


async def test_service_scales_from_zero_by_the_stats_and_back(tmp_path: Path) -> None:
    async with installed(tmp_path) as world:
        deployment, autoscaler = world.deployment, world.autoscaler
        # One request starts a pod; the activator reports it at once, and the new pod serves it.
        first = await world.ingress.fetch("/")
        assert (first.status, len(deployment.every)) == (200, 1)
        assert f"Hello from {REVISION}-1, reached through the activator" in first.body
        _, poke = autoscaler.stats[0]
        assert (poke.concurrency, poke.request_count) == (1.0, 1)

        # A burst over both activators: the autoscaler must add up the reports of both.
        deployment.gate.clear()
        burst = [asyncio.ensure_future(world.ingress.fetch("/")) for _ in range(12)]
        await autoscaler.until(lambda: len(deployment.pods) == 6)
        assert len(autoscaler.latest) == 2
        deployment.gate.set()
        assert {reply.status for reply in await gather(*burst)} == {200}

        # Without requests the revision scales to zero; the next request starts a pod again.
        await deployment.until(lambda: not deployment.pods)
        again = await world.ingress.fetch("/")
        assert (again.status, len(deployment.every)) == (200, 7)


# Nothing is lost.


class Load:
    """Requests through the ingress at a steady pace, one in four a POST."""

    def __init__(self, ingress: Ingress, rate: float) -> None:
        self._ingress = ingress
        self._rate = rate
        self._ended = asyncio.Event()
        self.asked: dict[str, asyncio.Task[ClientResponse]] = {}

    async def run(self) -> None:
        began = monotonic()
        async with asyncio.TaskGroup() as tasks:
            while not self._ended.is_set():
                number = len(self.asked)
                method = "GET" if number % 4 else "POST"
                length = {} if number % 4 else {"Content-Length": "0"}
                request_id = f"{method}-{number}"
                asked = self._ingress.fetch("/", method, **{"X-Request-Id": request_id}, **length)
                self.asked[request_id] = tasks.create_task(asked)
                await at(began + (number + 1) / self._rate)

    def end(self) -> None:
        self._ended.set()

    async def answered(self, more: int) -> None:
        """Wait until ``more`` further requests have got their responses."""
        begin = len(self.asked)

        async def look() -> bool:
            later = list(self.asked.values())[begin:]
            return sum(task.done() for task in later) >= more

        await until(look, f"{more} more requests have got responses")


async def test_nothing_is_lost_while_everything_around_is_replaced(tmp_path: Path) -> None:
    async with installed(tmp_path, container_concurrency=5) as world:
        deployment = world.deployment
        load = Load(world.ingress, rate=60)
        running = asyncio.ensure_future(load.run())
        try:
            await load.answered(20)
            deployment.scale_up(2)
            await _replace_pods(world, load)
            await _restart_the_api_server(world, load)
            await _restart_the_autoscaler(world, load)
            await _replace_an_activator(world, load)
        except BaseException:
            running.cancel()
            raise
        load.end()
        await running
        replies = {request_id: task.result() for request_id, task in load.asked.items()}
        lost = {request_id: reply for request_id, reply in replies.items() if reply.status != 200}
        assert lost == {}
        seen = [request_id for pod in deployment.every for request_id in pod.counters.by_id]
        assert set(seen) == set(replies)
        posts = [count for pod in deployment.every for count in pod.counters.posts_by_id.values()]
        assert (len(posts), set(posts)) == (sum(key.startswith("POST") for key in replies), {1})
        assert all(pod.statuses.keys() == {200} for pod in deployment.every)


async def _replace_pods(world: Installation, load: Load) -> None:
    for _ in range(3):
        await world.deployment.replace(world.deployment.pods[0])
        await load.answered(5)


async def _restart_the_api_server(world: Installation, load: Load) -> None:
    """Stop the API server for a while; it restarts without history and with other pods."""
    await world.api.stop()
    world.deployment.scale_up(3)
    await load.answered(10)
    world.api.forget()
    await world.api.start_again()
    fresh = world.deployment.pods[-1]
    await world.deployment.until(lambda: "ready" in fresh.events)
    # An open watch may report 410, too.
    world.api.send("Endpoints", event("ERROR", expired()))
    await world.deployment.replace(world.deployment.pods[0])


async def _restart_the_autoscaler(world: Installation, load: Load) -> None:
    await world.autoscaler.stop()
    await load.answered(10)
    await world.autoscaler.start()
    await world.autoscaler.until(lambda: len(world.autoscaler.latest) == 2)


async def _replace_an_activator(world: Installation, load: Load) -> None:
    """Replace as a rollout does: start one first, then end the old one before nginx removes it."""
    await world.start_activator("10.0.0.13")
    await world.route()
    async with AsyncExitStack() as stack:
        tunnels = [
            await stack.enter_async_context(
                connect(
                    f"ws://{HOST}/ws",
                    host="127.0.0.1",
                    port=world.ingress.port,
                    proxy=None,
                    compression=None,
                )
            )
            for _ in range(3)
        ]
        old = world.activators.pop("10.0.0.11")
        world.ended.append(old)
        old.tell(signal.SIGTERM)
        await until(lambda: _says_that_it_ends(old), "kubelet sees that it ends")
        await load.answered(20)
        await world.route()
        await until(lambda: _is_closed(old), "its ports are closed")
        for tunnel in tunnels:
            await tunnel.send("still here")
            assert await tunnel.recv() == "still here"
        assert old.process.returncode is None
    assert await old.ended() == 0
    await load.answered(20)


async def _says_that_it_ends(running: Activator) -> bool:
    return await running.get("/", KUBELET) == (500, "received SIGTERM from kubelet\n")


async def _is_closed(running: Activator) -> bool:
    try:
        await running.get("/", KUBELET)
    except ConnectionError:
        return True
    return False
