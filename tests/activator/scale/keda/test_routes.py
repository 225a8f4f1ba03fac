"""Triggers of the KEDA HTTP add-on: calls by a real gRPC client, counts pushed and polled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

from activator.keda.metrics import parse_queue
from activator.objects.fields import identify
from activator.process.timers import Tasks
from activator.scale.board import Board
from activator.scale.keda import externalscaler_pb2 as wire
from activator.scale.keda.polling import poll_queues
from activator.scale.keda.routes import Routes
from activator.scale.keda.server import ExternalScaler, KedaListener
from activator.scale.reports.load import Loads, Report, ServiceName
from tests.activator.keda.objects import route, scaled
from tests.activator.scale.keda.client import Keda, cancelled, until
from tests.rows import in_one_test

SERVICE = "keda", "interceptor-admin"
WEB = ServiceName("shop", "web")


def ref(**trigger: str) -> Any:
    return wire.ScaledObjectRef(name="so", namespace="shop", scalerMetadata=trigger)


OBJECT = ref(httpScaledObject="web")
ROUTE = ref(interceptorRoute="web")
OWN = ref(interceptorTargetPendingRequests="200")


class AddOn:
    """The cluster of an add-on: its objects, and its interceptors."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.leads = True
        self.loads = Loads()
        self.routes = Routes(self.loads, SERVICE, lambda: self.now)

    def put(self, *objects: Any) -> None:
        for obj in objects:
            self.routes.views[obj["kind"]].put(identify(obj, obj["kind"]), obj)

    def remove(self, obj: Any) -> None:
        self.routes.views[obj["kind"]].remove(identify(obj, obj["kind"]))

    def ready(self, *pods: str, slice_: str = "a", service: str = SERVICE[1], **more: Any) -> None:
        """List interceptors, each as NAME@IP."""
        endpoints = [
            {"addresses": [ip], "targetRef": {"name": name}, "conditions": {"ready": True}, **more}
            for name, _, ip in (pod.partition("@") for pod in pods)
        ]
        labels = {"kubernetes.io/service-name": service}
        metadata = {"name": slice_, "namespace": SERVICE[0], "labels": labels}
        self.put({"kind": "EndpointSlice", "metadata": metadata, "endpoints": endpoints})
        self.routes.addresses()

    def polled(self, address: str = "10.0.0.1", concurrency: float = 0, **more: float) -> None:
        """Record a poll of an interceptor, half a second after the last one."""
        self.now += 0.5
        body = {"shop/web": {"Concurrency": concurrency, **more}}
        self.routes.poll(address, parse_queue(json.dumps(body).encode()))

    def pushed(self, concurrency: float, requests: int, pod: str = "act-1") -> None:
        self.routes.push(pod, [Report(WEB, concurrency, requests)])


def play(scene: Callable[[Keda, AddOn], Awaitable[None]]) -> None:
    """Run a scene against a server on a loopback port."""

    async def run() -> None:
        add_on = AddOn()
        scaler = ExternalScaler(
            Board(add_on.loads, lambda: add_on.now), lambda: add_on.leads, add_on.routes
        )
        listener = KedaListener(scaler)
        port = await listener.start("127.0.0.1", 0)
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await asyncio.wait_for(scene(Keda(channel), add_on), 30)
        finally:
            await listener.close()

    asyncio.run(run())


async def values(keda: Keda, trigger: Any, name: str = "") -> list[tuple[str, int, float]]:
    request = wire.GetMetricsRequest(scaledObjectRef=trigger, metricName=name)
    found = (await keda.metrics(request)).metricValues
    return [(each.metricName, each.metricValue, each.metricValueFloat) for each in found]


async def specs(keda: Keda, trigger: Any) -> list[tuple[str, int, float]]:
    found = (await keda.spec(trigger)).metricSpecs
    return [(each.metricName, each.targetSize, each.targetSizeFloat) for each in found]


async def is_active(keda: Keda, trigger: Any) -> bool:
    return bool((await keda.is_active(trigger)).result)


async def refused(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code(), error.value.details() or ""


RATE = {"targetValue": 20, "window": "10s", "granularity": "1s"}
BOTH = {"concurrency": {"targetValue": 5}, "requestRate": RATE}


@pytest.mark.parametrize(
    ("spec", "target"),
    [
        ({}, 100),
        ({"targetPendingRequests": 7}, 7),
        ({"scalingMetric": {"concurrency": {"targetValue": 9}}}, 9),
        ({"scalingMetric": {"requestRate": RATE}}, 20),
    ],
)
def test_an_http_scaled_object_has_one_metric_of_integers(spec: Any, target: int) -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled(**spec))
        assert await specs(keda, OBJECT) == [("http-shop_002Fweb", target, 0)]

    play(scene)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ({"concurrency": {"targetValue": 5}}, [("http_web_concurrency", 0, 5.0)]),
        ({"requestRate": RATE}, [("http_web_rate", 0, 20.0)]),
        (BOTH, [("http_web_concurrency", 0, 5.0), ("http_web_rate", 0, 20.0)]),
    ],
)
def test_an_interceptor_route_has_a_metric_for_each_target(metric: Any, expected: Any) -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(route(scalingMetric=metric))
        assert await specs(keda, ROUTE) == expected

    play(scene)


def test_the_concurrency_of_all_interceptors_is_added_up() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled(), route())
        add_on.ready("i-1@10.0.0.1", "i-2@10.0.0.2")
        add_on.polled("10.0.0.1", 3)
        add_on.polled("10.0.0.2", 4)
        assert await values(keda, OBJECT) == [("http-shop_002Fweb", 7, 0)]
        assert await values(keda, ROUTE) == [("http_web_concurrency", 0, 7.0)]
        assert await values(keda, OWN) == [("http-shop_002Fso", 7, 0)]
        assert await specs(keda, OWN) == [("http-shop_002Fso", 200, 0)]
        assert await is_active(keda, OBJECT)
        assert await is_active(keda, OWN)
        add_on.polled("10.0.0.1", 0)
        add_on.polled("10.0.0.2", 0)
        assert await values(keda, OBJECT) == [("http-shop_002Fweb", 0, 0)]
        assert not await is_active(keda, OBJECT)
        assert not await is_active(keda, OWN)

    play(scene)


def test_the_other_triggers_ignore_the_name_that_a_call_has() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled())
        add_on.ready("i-1@10.0.0.1")
        add_on.polled(concurrency=2)
        assert await values(keda, OBJECT, "any") == [("http-shop_002Fweb", 2, 0)]
        assert await values(keda, OWN, "any") == [("http-shop_002Fso", 2, 0)]

    play(scene)


def test_of_two_metrics_a_call_gets_the_one_that_it_names() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(route(scalingMetric=BOTH))
        add_on.ready("i-1@10.0.0.1")
        add_on.polled(concurrency=2, RequestCount=0)
        add_on.polled(concurrency=2, RequestCount=30)
        assert await values(keda, ROUTE, "http_web_concurrency") == [("http_web_concurrency", 0, 2)]
        assert await values(keda, ROUTE, "http_web_rate") == [("http_web_rate", 0, 30)]
        assert len(await values(keda, ROUTE)) == 2
        add_on.put(route(scalingMetric={"concurrency": {"targetValue": 5}}))
        assert await values(keda, ROUTE, "http_web_rate") == []  # KEDA does not know the change yet

    play(scene)


def test_a_rate_is_the_growth_of_the_counters() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(route(scalingMetric={"requestRate": RATE}))
        add_on.ready("i-1@10.0.0.1", "i-2@10.0.0.2")

        async def rate() -> float:
            return (await values(keda, ROUTE))[0][2]

        add_on.polled("10.0.0.1", RequestCount=1000)
        assert await rate() == 0  # when the thousand came is not known
        add_on.polled("10.0.0.1", RequestCount=1030)
        assert await rate() == 30
        add_on.polled("10.0.0.2", RequestCount=500)
        assert await rate() == 30  # a new interceptor counts from its second poll
        add_on.polled("10.0.0.1", RequestCount=12)
        assert await rate() == 21  # one that began again counts whole
        add_on.now += 9.0
        add_on.polled("10.0.0.1", RequestCount=12)
        add_on.polled("10.0.0.2", RequestCount=500)
        assert await rate() == 0  # the window has passed
        assert not await is_active(keda, ROUTE)

    play(scene)


def test_a_rate_has_buckets_of_the_granularity() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        slow = {"targetValue": 1, "window": "20s", "granularity": "10s"}
        add_on.put(route(scalingMetric={"requestRate": slow}))
        add_on.ready("i-1@10.0.0.1")
        add_on.polled(RequestCount=0)
        add_on.polled(RequestCount=50)
        assert await values(keda, ROUTE) == [("http_web_rate", 0, 50)]
        add_on.now += 10
        add_on.polled(RequestCount=60)
        assert await values(keda, ROUTE) == [("http_web_rate", 0, 30)]

    play(scene)


def test_a_rate_survives_a_change_of_the_object_but_not_one_of_its_window() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(route(scalingMetric={"requestRate": RATE}))
        add_on.ready("i-1@10.0.0.1")
        add_on.polled(RequestCount=0)
        add_on.polled(RequestCount=5)
        add_on.put(route("web", "other.com", scalingMetric={"requestRate": RATE}))
        assert await values(keda, ROUTE) == [("http_web_rate", 0, 5)]
        add_on.put(route(scalingMetric={"requestRate": RATE | {"window": "20s"}}))
        assert await values(keda, ROUTE) == [("http_web_rate", 0, 0)]

    play(scene)


def test_the_rate_of_an_older_interceptor_is_its_own() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled(scalingMetric={"requestRate": RATE}))
        add_on.ready("i-1@10.0.0.1", "i-2@10.0.0.2")
        add_on.polled("10.0.0.1", RPS=0.5)
        add_on.polled("10.0.0.2", RPS=2.25, RequestCount=10)  # its counter counts, not its rate
        assert await values(keda, OBJECT) == [("http-shop_002Fweb", 1, 0)]
        add_on.polled("10.0.0.2", RPS=2.25, RequestCount=13)
        assert await values(keda, OBJECT) == [("http-shop_002Fweb", 4, 0)]

    play(scene)


def test_waiting_requests_keep_an_object_active_although_they_are_in_no_rate() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(route(scalingMetric={"requestRate": RATE}))
        add_on.ready("i-1@10.0.0.1")
        add_on.polled(concurrency=1, RequestCount=1)
        assert await is_active(keda, ROUTE)
        assert await values(keda, ROUTE) == [("http_web_rate", 0, 0)]

    play(scene)


def test_an_activator_that_pushes_is_not_polled_and_counts_once() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(route(scalingMetric=BOTH))
        add_on.ready("act-1@10.0.0.1", "i-2@10.0.0.2", "act-3@10.0.0.3")
        add_on.polled("10.0.0.1", 5, RequestCount=5)
        add_on.polled("10.0.0.2", 2, RequestCount=7)
        add_on.loads.connected(1, add_on.now, "10.0.0.1")
        # One behind a proxy: its name counts.
        add_on.loads.connected(2, add_on.now, "127.0.0.6")
        add_on.loads.record(2, "act-3", [], add_on.now)
        assert set(add_on.routes.addresses()) == {"10.0.0.2"}
        add_on.routes.poll("10.0.0.1", {})  # a late response
        add_on.pushed(3, 20)
        assert await values(keda, ROUTE) == [
            *(("http_web_concurrency", 0, 5), ("http_web_rate", 0, 20)),
        ]
        add_on.loads.disconnected(1, add_on.now)
        assert set(add_on.routes.addresses()) == {"10.0.0.1", "10.0.0.2"}

    play(scene)


def test_a_load_that_comes_before_its_object_counts() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.loads.connected(1, add_on.now, "10.0.0.1")
        add_on.pushed(1, 1)
        add_on.put(route())
        assert await is_active(keda, ROUTE)
        add_on.remove(route())
        add_on.put(route())
        assert not await is_active(keda, ROUTE)

    play(scene)


def test_invented_names_fill_no_memory_and_keep_no_object_from_counting() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.loads.connected(1, add_on.now, "10.0.0.1")
        invented = [Report(ServiceName("shop", f"x-{each}"), 1, 1) for each in range(1500)]
        add_on.routes.push("act-1", invented)
        assert await values(keda, OWN) == [("http-shop_002Fso", 1000, 0)]
        add_on.put(route())
        add_on.pushed(1, 1)
        assert await is_active(keda, ROUTE)

    play(scene)


def test_only_ready_interceptors_of_the_service_are_polled_each_pod_once() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.ready("i-1@10.0.0.1", "i-2@10.0.0.2")
        add_on.ready("i-1@fd00::1", "i-2@fd00::2", slice_="v6")  # the same pods
        add_on.ready("x@10.0.0.9", slice_="other", service="another")
        assert len(add_on.routes.polled) == 2
        add_on.ready("i-1@fd00::1", slice_="v6", conditions={"ready": False})
        assert set(add_on.routes.polled) == {"10.0.0.1", "10.0.0.2"}
        add_on.put(scaled())
        add_on.polled("10.0.0.1", 3)
        add_on.ready("i-2@10.0.0.2")
        add_on.polled("10.0.0.2", 1)
        assert await values(keda, OBJECT) == [("http-shop_002Fweb", 1, 0)]

    play(scene)


def test_counts_that_are_not_known_are_an_error_and_never_zero() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled())
        request = wire.GetMetricsRequest(scaledObjectRef=OBJECT)
        for _ in range(2):
            for call in (keda.is_active(OBJECT), keda.metrics(request)):
                code, text = await refused(call)
                assert code is grpc.StatusCode.UNAVAILABLE
                assert text == "no interceptor has reported its requests for a while"
            assert await specs(keda, OBJECT)
            add_on.ready("i-1@10.0.0.1")
            add_on.polled()
            assert not await is_active(keda, OBJECT)
            add_on.now += 31  # the interceptor has not responded since
        add_on.loads.connected(1, add_on.now, "10.9.9.9")  # another one, which pushes
        assert (await refused(keda.is_active(OBJECT)))[0] is grpc.StatusCode.UNAVAILABLE

    play(scene)


@pytest.mark.parametrize(
    ("trigger", "code", "text"),
    [
        (
            OBJECT,
            grpc.StatusCode.NOT_FOUND,
            "ScaledObject shop/so: HTTPScaledObject shop/web does not exist, or its fields have "
            "never been valid",
        ),
        (
            ROUTE,
            grpc.StatusCode.NOT_FOUND,
            "ScaledObject shop/so: InterceptorRoute shop/web does not exist, or its fields have "
            "never been valid",
        ),
        (
            ref(interceptorTargetPendingRequests="many"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "ScaledObject shop/so: interceptorTargetPendingRequests: expected an integer from 1, "
            "got 'many'",
        ),
    ],
)
def test_an_unknown_object_is_an_error_and_never_zero(
    trigger: Any, code: grpc.StatusCode, text: str
) -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled("other"), route("other"))
        add_on.ready("i-1@10.0.0.1")
        add_on.polled()
        request = wire.GetMetricsRequest(scaledObjectRef=trigger)
        calls = keda.is_active(trigger), keda.spec(trigger), keda.metrics(request)
        for call in (*calls, keda.stream(trigger).read()):
            assert await refused(call) == (code, text)

    play(scene)


# -- streams ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", [OBJECT, ROUTE, OWN])
def test_a_stream_pushes_a_request_at_once(trigger: Any) -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled(), route())
        add_on.loads.connected(1, add_on.now, "10.0.0.1")
        stream = keda.stream(trigger)
        assert not (await stream.read()).result
        began = asyncio.get_running_loop().time()
        add_on.pushed(1, 1)
        assert (await stream.read()).result
        assert asyncio.get_running_loop().time() - began < 0.4  # no repetition, no head start
        assert (await stream.read()).result  # KEDA may have dropped the first one
        add_on.now += 60
        while (await stream.read()).result:
            pass
        add_on.pushed(1, 1)
        assert (await stream.read()).result
        await cancelled(stream)

    play(scene)


def test_a_stream_misses_no_request_that_comes_while_it_sends() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(route())
        add_on.loads.connected(1, add_on.now, "10.0.0.1")
        streams = [keda.stream(ROUTE) for _ in range(50)]
        for number, stream in enumerate(streams):
            await stream.read()
            if number == 25:
                add_on.pushed(1, 1)
        for stream in streams:
            while not (await stream.read()).result:
                pass
            await cancelled(stream)

    play(scene)


def test_a_stream_waits_for_the_first_counts_and_ends_with_its_object() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled())
        stream = keda.stream(OBJECT)
        assert not (await stream.read()).result  # which KEDA ignores
        add_on.ready("i-1@10.0.0.1")
        add_on.polled(concurrency=1)
        assert (await stream.read()).result
        add_on.polled(concurrency=0)
        while (await stream.read()).result:
            pass
        add_on.remove(scaled())
        assert (await refused(stream.read()))[0] is grpc.StatusCode.NOT_FOUND

    play(scene)


def test_a_scaler_that_loses_the_lead_ends_the_streams_of_routes() -> None:
    async def scene(keda: Keda, add_on: AddOn) -> None:
        add_on.put(scaled())
        stream = keda.stream(OBJECT)
        await stream.read()
        add_on.leads = False
        add_on.routes.release()
        assert (await refused(stream.read()))[0] is grpc.StatusCode.UNAVAILABLE

    play(scene)


# -- polls -----------------------------------------------------------------------------------------


class Interceptor:
    """An interceptor on a loopback address; ``hangs`` keeps its responses back."""

    def __init__(self, ip: str) -> None:
        self.ip = ip
        self.body = b"{}"
        self.status = b"200 OK"
        self.polls = 0
        self.hangs = False
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await reader.read(1000))
        self.polls += 1
        if self.hangs:
            await reader.read()
        else:
            writer.write(b"HTTP/1.0 %s\r\nContent-Type: x\r\n\r\n%s" % (self.status, self.body))
        writer.close()


def polls(scene: Callable[[AddOn, dict[str, Interceptor]], Awaitable[None]]) -> None:
    """Run a scene with interceptors on 127.0.0.2 and 127.0.0.3, polled every 20 ms."""

    async def run() -> None:
        add_on, tasks = AddOn(), Tasks()
        found = {ip: Interceptor(ip) for ip in ("127.0.0.2", "127.0.0.3")}
        async with AsyncExitStack() as servers:
            port = 0
            for each in found.values():
                server = await asyncio.start_server(each.serve, each.ip, port)
                port = server.sockets[0].getsockname()[1]
                await servers.enter_async_context(server)
            polls = poll_queues(add_on.routes, port, 0.02, tasks.start)
            running = tasks.start(polls)
            await asyncio.wait_for(scene(add_on, found), 30)
            running.cancel()
            await tasks.close()

    asyncio.run(run())


def read(add_on: AddOn) -> float:
    return add_on.routes.read("shop", "so", {"interceptorRoute": "web"}).values[0][1]


@pytest.mark.untraced
def test_an_interceptor_that_hangs_delays_no_other_one(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(add_on: AddOn, found: dict[str, Interceptor]) -> None:
        slow, quick = found.values()
        slow.body = quick.body = b'{"shop/web":{"Concurrency":2,"RequestCount":4}}\n'
        add_on.put(route())
        add_on.ready("i-2@127.0.0.2", "i-3@127.0.0.3")
        await until(lambda: read(add_on) == 4)
        slow.hangs = True
        await until(lambda: slow.polls > 1)
        held, seen = slow.polls, quick.polls
        quick.body = b'{"shop/web":{"Concurrency":7,"RequestCount":9}}'
        await until(lambda: quick.polls > seen + 5)
        assert read(add_on) == 9  # the last counts of the slow one stay
        assert slow.polls <= held + 1  # one poll at a time
        await until(lambda: add_on.routes.polled["127.0.0.2"].error)
        assert add_on.routes.polled["127.0.0.2"].error == "no response within 2 s"
        slow.hangs = False
        await until(lambda: not add_on.routes.polled["127.0.0.2"].error)

    polls(scene)
    [line] = caplog.records
    assert line.getMessage().startswith("interceptor 127.0.0.2 port ")
    assert line.getMessage().endswith(": /queue: no response within 2 s")


def test_a_poll_is_a_plain_request_with_the_address_as_its_host() -> None:
    async def scene(add_on: AddOn, found: dict[str, Interceptor]) -> None:
        add_on.ready("i-2@127.0.0.2")
        polled = found["127.0.0.2"]
        await until(lambda: polled.polls)
        line, host, *_ = polled.requests[0].split(b"\r\n")
        assert line == b"GET /queue HTTP/1.1"
        assert host.startswith(b"Host: 127.0.0.2:")

    polls(scene)


def test_the_body_may_come_in_chunks() -> None:
    async def scene(add_on: AddOn, found: dict[str, Interceptor]) -> None:
        polled = found["127.0.0.2"]
        polled.status = b"200 OK\r\nTransfer-Encoding: chunked"
        polled.body = b'E\r\n{"shop/web":{"\r\n10\r\nConcurrency":2}}\r\n0\r\n\r\n'
        add_on.put(route())
        add_on.ready("i-2@127.0.0.2")
        await until(lambda: add_on.routes.polled["127.0.0.2"].counts)
        assert read(add_on) == 2
        polled.body = b'E\r\n{"shop/web":{"\r\n'  # the connection ended
        await until(lambda: add_on.routes.polled["127.0.0.2"].error)
        assert read(add_on) == 2

    polls(scene)


@in_one_test(
    ("status", "body", "error"),
    [
        (b"503 Gone", b"{}", "the response has status 503"),
        (b"200 OK", b"[]", "Expected `object`, got `array`"),
        (b"200 OK", b'{"web":{}}', "expected NAMESPACE/NAME, got 'web'"),
        (b"200 OK", b'{"a/b":3}', "Expected `object`, got `int` - at `$[...]`"),
        (
            b"200 OK",
            b'{"a/b":{"Concurrency":-1}}',
            "Expected `float` >= 0.0 - at `$[...].Concurrency`",
        ),
        (
            b"200 OK",
            b'{"a/b":{"Concurrency":true}}',
            "Expected `float`, got `bool` - at `$[...].Concurrency`",
        ),
        (b"200 OK", b'{"a/b":{"RPS":NaN}}', "JSON is malformed: invalid character (byte 14)"),
        (
            b"200 OK",
            b'{"a/b":{"RequestCount":"4"}}',
            "Expected `float | null`, got `str` - at `$[...].RequestCount`",
        ),
    ],
)
def test_a_wrong_response_leaves_the_last_counts(status: bytes, body: bytes, error: str) -> None:
    async def scene(add_on: AddOn, found: dict[str, Interceptor]) -> None:
        polled = found["127.0.0.2"]
        polled.body = b'{"shop/web":{"Concurrency":2}}'
        add_on.put(route())
        add_on.ready("i-2@127.0.0.2")
        await until(lambda: add_on.routes.polled["127.0.0.2"].counts)
        polled.status, polled.body = status, body
        await until(lambda: add_on.routes.polled["127.0.0.2"].error)
        assert add_on.routes.polled["127.0.0.2"].error == error
        assert read(add_on) == 2

    polls(scene)


# -- health ----------------------------------------------------------------------------------------


def test_kubelet_gets_the_health_of_the_scaler() -> None:
    async def run() -> None:
        leads = True
        scaler = ExternalScaler(Board(Loads(), lambda: 0.0), lambda: leads)
        listener = KedaListener(scaler)
        port = await listener.start("127.0.0.1", 0)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            raw = lambda data: data  # noqa: E731  # used twice
            check = channel.unary_unary("/grpc.health.v1.Health/Check", raw, raw)

            def of(name: bytes) -> Any:
                return check(b"\x0a" + bytes([len(name)]) + name if name else b"")

            serving, not_serving = b"\x08\x01", b"\x08\x02"
            assert await of(b"readiness") == await of(b"liveness") == await of(b"") == serving
            leads = False
            assert await of(b"readiness") == not_serving
            assert await of(b"liveness") == serving
            assert (await refused(of(b"other")))[0] is grpc.StatusCode.NOT_FOUND
        await listener.close()

    asyncio.run(run())
