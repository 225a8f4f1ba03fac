"""The waker ``http``: what it calls, what it never calls, and its texts for each failure."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from activator.discovery.api_server import ApiResponse, ApiServer
from activator.plain import service as services
from activator.process.timers import Tasks
from activator.scale.reasons import ScaleReason
from activator.scale.wakers.http import HttpWaker
from activator.scale.wakers.table import waker_of
from activator.scale.workloads.replicas import (
    KNOWN,
    MOST_CALLS,
    Actuator,
    Result,
    ScaleTarget,
    Wish,
)
from tests.activator.plain.objects import service
from tests.activator.scale.fake_api import status
from tests.activator.scale.world import elapse

SLICES = (
    "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
    "?labelSelector=kubernetes.io/service-name%3Dhello"
)
Respond = Callable[[str, str], bytes | None]


class Server:
    """A server in sleep mode, as vLLM's.

    Attributes:
        asleep: its state; a POST sets it.
        calls: the first lines of all requests, each with its head.
        respond: what a request gets instead of the usual response; None for silence.
    """

    def __init__(self) -> None:
        self.asleep = False
        self.calls: list[tuple[str, str]] = []
        self.heads: list[str] = []
        self.respond: Respond = self.usual
        self.port = 0

    def usual(self, method: str, path: str) -> bytes | None:
        """Return what vLLM responds."""
        if method == "POST":
            self.asleep = path.startswith("/sleep")
            return response("")
        return response(json.dumps({"is_sleeping": self.asleep}))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        self.calls.append((method, path))
        self.heads.append(head)
        if (found := self.respond(method, path)) is None:
            await reader.read()
        else:
            writer.write(found)
        writer.close()


def response(body: str, line: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {line}\r\n{more}Content-Length: {len(body)}\r\n\r\n{body}".encode()


@asynccontextmanager
async def serving(count: int = 1, address: str = "127.0.0.1") -> AsyncIterator[list[Server]]:
    """Run servers on the loopback address, each on its port."""
    found = [Server() for _ in range(count)]
    listening = [await asyncio.start_server(each.serve, address, 0) for each in found]
    for each, one in zip(found, listening, strict=True):
        each.port = one.sockets[0].getsockname()[1]
    yield found
    for one in listening:
        one.close()


class Api(ApiServer):
    """An API server that lists the pods of the Service shop/hello."""

    def __init__(
        self, *ports: int, host: str = "https://10.96.0.1:443", **conditions: bool
    ) -> None:
        self.slices = [
            {
                "metadata": {"labels": {"kubernetes.io/service-name": "hello"}},
                "addressType": "IPv4",
                "ports": [{"name": "", "port": port}],
                "endpoints": [{"addresses": ["127.0.0.1"], "targetRef": {"uid": f"pod-{port}"}}],
            }
            for port in ports
        ]
        for each in self.slices:
            each["endpoints"][0]["conditions"] = conditions  # type: ignore[index]
        self._host = host
        self.response: ApiResponse | None = None

    @property
    def host(self) -> str:
        return self._host

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = ""
    ) -> ApiResponse:
        assert (method, path) == ("GET", SLICES)
        return self.response or ApiResponse(200, json.dumps({"items": self.slices}).encode())


class World:
    def __init__(self, api: Api, *hosts: str, **annotations: str) -> None:
        given = {"profile": "vllm-sleep", **annotations}
        found = services.parse(service(given))
        assert found is not None
        target = ScaleTarget(KNOWN["deployment"], "shop", "hello")
        waker = waker_of(found, target)
        assert isinstance(waker, HttpWaker)
        self.target = target._replace(waker=waker)
        self.results: list[Result] = []
        self.tasks = Tasks()
        self.actuator = Actuator(
            api, self.tasks.start, lambda _, each: self.results.append(each), hosts
        )

    async def result(self, wish: Wish | None) -> Result:
        self.actuator.put(self.target, wish)
        await self.tasks.finish(60)
        return self.results[-1]


async def test_each_pod_sleeps_and_wakes_by_vllms_own_calls() -> None:
    async with serving(2) as pods:
        world = World(Api(*(each.port for each in pods)))
        assert await world.result(Wish(1, 0)) == Result(0, changed_from=1)
        assert all(each.asleep for each in pods)
        assert await world.result(None) == Result(0)
        assert await world.result(Wish(0, 1)) == Result(1, changed_from=0)
    for each in pods:
        posts = [path for method, path in each.calls if method == "POST"]
        assert posts == ["/sleep?level=1", "/wake_up"]
        assert {path for method, path in each.calls if method == "GET"} == {"/is_sleeping"}


async def test_a_call_has_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with serving() as [pod]:
        await World(Api(pod.port)).result(Wish(1, 0))
    assert not any("authorization" in head.lower() for head in pod.heads)


async def test_a_workload_whose_pods_differ_is_not_awake_yet() -> None:
    async with serving(2) as pods:
        pods[1].asleep = True
        world = World(Api(*(each.port for each in pods)))
        detail = f"GET http://127.0.0.1:{pods[1].port}/is_sleeping: asleep"
        assert await world.result(None) == Result(1, ScaleReason.NOT_AWAKE_YET, detail)
        assert await world.result(Wish(0, 1)) == Result(1, changed_from=0)


async def test_a_pod_that_is_not_ready_is_called_only_if_no_other_is() -> None:
    async with serving(2) as [ready, starting]:
        api = Api(ready.port, starting.port)
        api.slices[1]["endpoints"][0]["conditions"] = {"ready": False}  # type: ignore[index]
        await World(api).result(Wish(1, 0))
        assert (ready.asleep, starting.calls) == (True, [])
        api.slices[0]["endpoints"][0]["conditions"] = {"ready": False}  # type: ignore[index]
        await World(api).result(None)
        assert starting.calls


async def test_a_service_without_a_pod_is_awake_and_cannot_sleep() -> None:
    world = World(Api())
    assert await world.result(None) == Result(1)
    expected = Result(None, ScaleReason.WAKER_FAILED, "the Service has no pod to call")
    assert await world.result(Wish(1, 0)) == expected


async def test_a_server_that_takes_its_time_is_polled() -> None:
    async with serving() as [pod]:
        pod.asleep = True

        def late(method: str, path: str) -> bytes | None:
            return None if method == "POST" else pod.usual(method, path)

        pod.respond = late
        world = World(Api(pod.port))
        world.actuator.put(world.target, Wish(0, 1))
        await elapse(7.0)
        assert world.results == []
        pod.asleep = False
        await elapse(2.0)
        assert world.results == [Result(1, changed_from=0)]


async def test_silent_servers_of_a_namespace_keep_no_other_one_waiting() -> None:
    async with serving(2) as (silent, other):
        silent.respond = lambda method, path: None
        worlds = [
            World(
                Api(),
                "127.0.0.1",
                **{
                    f"{act}_url": f"http://127.0.0.1:{each.port}/{act}"
                    for act in ("sleep", "wake", "state")
                },
                asleep_when="is_sleeping = true",
            )
            for each in (silent, other)
        ]
        world, of_another = worlds[0], worlds[1].target._replace(namespace="other")
        for number in range(2 * MOST_CALLS):
            world.actuator.put(world.target._replace(name=f"silent-{number}"), None)
        world.actuator.put(of_another, None)
        await world.tasks.finish(60)
    assert world.results[0] == Result(1)
    assert all(each.problem is ScaleReason.WAKER_FAILED for each in world.results[1:])


@pytest.mark.parametrize(
    ("wish", "problem", "detail"),
    [
        (
            Wish(1, 0),
            ScaleReason.WAKER_FAILED,
            "it is still awake, 10 s after it was asked to sleep",
        ),
        (
            Wish(0, 1),
            ScaleReason.NOT_AWAKE_YET,
            "it is still asleep, 10 s after it was asked to wake",
        ),
    ],
)
async def test_a_server_that_ignores_its_calls_is_named(
    wish: Wish, problem: ScaleReason, detail: str
) -> None:
    async with serving() as [pod]:
        stays = json.dumps({"is_sleeping": not wish.known})
        pod.respond = lambda method, path: response(stays)
        assert await World(Api(pod.port)).result(wish) == Result(wish.known, problem, detail)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (response("no", "500 Internal Server Error"), "status 500: no"),
        (response("", "302 Found", "Location: /other\r\n"), "status 302: "),
        (
            response("[]"),
            "the response is no JSON object with the member is_sleeping",
        ),
        (
            response('{"other": 1}'),
            "the response is no JSON object with the member is_sleeping",
        ),
        (
            response("{" * 100_000)[:80_000],
            "the response has more than 65536 bytes",
        ),
        (None, "no response within 5 s"),
        (b"garbage\r\n\r\n", "the response is no HTTP/1.1"),
    ],
)
async def test_a_failed_call_names_the_url_and_the_cause(found: bytes | None, why: str) -> None:
    async with serving() as [pod]:
        pod.respond = lambda method, path: found
        result = await World(Api(pod.port)).result(None)
        assert (result.replicas, result.problem) == (None, ScaleReason.WAKER_FAILED)
        start = f"GET http://127.0.0.1:{pod.port}/is_sleeping: {why}"
        assert result.detail == start
        assert len(pod.calls) == 1


async def test_a_pod_that_refuses_connections_is_named() -> None:
    async with serving() as [pod]:
        port = pod.port
    detail = (await World(Api(port)).result(None)).detail
    assert detail.startswith(f"GET http://127.0.0.1:{port}/is_sleeping: Cannot connect to host")


async def test_a_missing_right_is_named() -> None:
    api = Api()
    api.response = status(403, "no")
    assert await World(api).result(None) == Result(
        None,
        ScaleReason.SCALE_FORBIDDEN,
        '403: no; the ClusterRole lacks {apiGroups: ["discovery.k8s.io"], '
        'resources: ["endpointslices"], verbs: ["list"]}',
    )
    api.response = ApiResponse(200, b'{"items": 5}')
    result = await World(api).result(None)
    assert result.problem is ScaleReason.API_SERVER_UNAVAILABLE


# -- URLs ------------------------------------------------------------------------------------------


def urls(base: str) -> dict[str, str]:
    return {
        "sleep_url": f"{base}/off",
        "wake_url": f"{base}/on",
        "state_url": f"{base}/state",
        "asleep_when": "state = off",
    }


def resolve(monkeypatch: pytest.MonkeyPatch, name: str, address: str) -> None:
    """Let a name lead to an address, without the thread of the real resolver."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    async def found(host: str, port: int, **more: Any) -> Any:
        assert host == name
        rest = (0, 0) if family == socket.AF_INET6 else ()
        return [(family, socket.SOCK_STREAM, 6, "", (address, port, *rest))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)


async def test_an_allowed_host_is_called_as_it_is() -> None:
    async with serving() as [server]:
        server.respond = lambda method, path: response('{"state": "off"}')
        base = f"http://127.0.0.1:{server.port}"
        world = World(Api(), "127.0.0.1", **urls(base))
        assert await world.result(None) == Result(0)
        assert world.target.waker.rules(world.target.resource) == ()
    assert server.calls == [("GET", "/state")]


@pytest.mark.parametrize(
    "base",
    [
        "http://127.0.0.1",
        "http://169.254.169.254",
        "http://kubernetes.default.svc",
        "http://example.com",
        "https://gpu",
    ],
)
async def test_another_host_is_refused(base: str) -> None:
    result = await World(Api(), **urls(base)).result(None)
    assert result == Result(
        None,
        ScaleReason.WAKER_REFUSED,
        f"a waker calls http://SERVICE of the namespace, and no other host unless it is in "
        f"--waker-hosts of the scaler: {base}/state",
    )


@pytest.mark.parametrize(
    ("address", "api"),
    [
        ("127.0.0.1", "https://10.96.0.1"),
        ("169.254.169.254", "https://10.96.0.1"),
        ("0.0.0.0", "https://10.96.0.1"),
        ("10.96.0.1", "https://10.96.0.1:443"),
        ("::ffff:169.254.169.254", "https://10.96.0.1"),
    ],
)
async def test_a_service_that_leads_to_a_guarded_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, address: str, api: str
) -> None:
    resolve(monkeypatch, "gpu.shop.svc", address)
    result = await World(Api(host=api), **urls("http://gpu:8080")).result(None)
    assert result.problem is ScaleReason.WAKER_FAILED
    assert result.detail.startswith("GET http://gpu.shop.svc:8080/state: ")
    assert f"it leads to {address}, which no waker may call" in result.detail


async def test_a_slice_that_lists_the_api_server_as_a_pod_is_refused() -> None:
    async with serving() as [pod]:
        result = await World(Api(pod.port, host="https://127.0.0.1:6443")).result(None)
    assert "it leads to 127.0.0.1, which no waker may call" in result.detail
    assert pod.calls == []


async def test_a_service_of_the_namespace_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "10.1.2.3"
    seen: list[Any] = []

    async def connect(sock: Any, where: Any) -> None:
        seen.append(where)
        raise OSError(errno.EHOSTUNREACH, "no route to host")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", connect)
    resolve(monkeypatch, "gpu.shop.svc", address)
    result = await World(Api(), **urls("http://gpu:8080")).result(None)
    assert seen == [(address, 8080)]
    assert "no route to host" in result.detail
