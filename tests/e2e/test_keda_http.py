"""Requests through an activator that reads the objects of the KEDA HTTP add-on from a folder.

`tests/cluster/test_keda_http.py` has what needs a control plane, and runs it with the add-on's own
programs, too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from websockets.asyncio.client import connect

from activator.lab.programs import ClientResponse, fetch
from tests.cluster.http_add_on_objects import http_scaled_object, interceptor_route
from tests.cluster.objects import Object, plain_service
from tests.e2e.world import POD_PORT, Pod, World
from tests.process import until

pytestmark = pytest.mark.e2e

SPACE: Final = "shop"
HOST: Final = f"web.{SPACE}.example"
STARTING: Final[Object] = {
    "placeholder": {
        "response": {"body": "starting", "headers": {"Content-Type": "text/x-starting"}}
    }
}
PROBE: Final = {"User-Agent": "kube-probe/1.36"}


class Shop:
    """An activator, and the Services of one namespace."""

    def __init__(self, world: World) -> None:
        self.world = world

    def service(self, name: str, *pods: Pod, **port: Any) -> None:
        """Write a Service, and the pods that Kubernetes lists for it as ready."""
        endpoints = [
            {
                "addresses": [pod.options.address],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "targetRef": {"kind": "Pod", "name": pod.options.name, "uid": pod.options.name},
            }
            for pod in pods
        ]
        ports = [{"name": "http", "port": POD_PORT, "protocol": "TCP", **port}]
        labels = {"kubernetes.io/service-name": name}
        self.world.write(
            plain_service(SPACE, name, port=port),
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": f"{name}-1", "namespace": SPACE, "labels": labels},
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": ports,
            },
        )

    async def pod(self, name: str) -> Pod:
        """Start a pod."""
        return await self.world.start_pod(name, plain=True)

    async def routes(self, *objects: Object) -> None:
        """Write route objects, and wait until they count."""
        self.world.write(*objects)
        names = {f"{SPACE}/{each['metadata']['name']}" for each in objects}

        async def known() -> bool:
            return names <= (await self.queue()).keys()

        await until(known, f"{names} are known")

    async def queue(self) -> dict[str, dict[str, float]]:
        """Return what the add-on's scaler reads."""
        found: dict[str, dict[str, float]] = (await self.admin("/queue")).json()
        return found

    async def counts(self, concurrency: int, name: str = "web") -> None:
        """Wait until so many requests of an object are counted."""

        async def found() -> bool:
            return (await self.queue())[f"{SPACE}/{name}"]["Concurrency"] == concurrency

        await until(found, f"{concurrency} requests count")

    async def admin(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.get("http://{}:{}{}".format(*self.world.admin, path))

    async def ask(self, path: str = "/", host: str = HOST, **headers: str) -> ClientResponse:
        """Send a GET; underscores in names of headers are hyphens."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await fetch(*self.world.traffic, path, headers={"Host": host, **given})


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """Provide a running activator without objects."""
    settings = {"KEDA_HTTP_READINESS_TIMEOUT": "20s", "KEDA_HTTP_SHUTDOWN_DELAY": "1s"}
    async with World(tmp_path, "--dialect", "keda", **settings) as world:
        await world.start_activator()
        yield Shop(world)


async def test_one_of_several_rules_selects_the_route(shop: Shop) -> None:
    web, other = await shop.pod("web"), await shop.pod("other")
    shop.service("web", web)
    shop.service("other", other)
    await shop.routes(
        interceptor_route(
            SPACE,
            "web",
            rules=[
                {"hosts": ["a.example"], "paths": [{"value": "/echo"}, {"value": "/bytes"}]},
                {"hosts": ["b.example"], "headers": [{"name": "X-Tenant", "value": "one"}]},
            ],
        ),
        http_scaled_object(SPACE, "other", hosts=["*"]),
        interceptor_route(SPACE, "never", target={"service": "web", "port": 80}, rules=[]),
    )
    found = [
        ("a.example", "/bytes?n=1", {}, 200, "\0"),
        ("a.example", "/", {}, 200, "Hello from other"),
        ("b.example", "/", {"X_Tenant": "one"}, 200, "Hello from web"),
        ("b.example", "/", {"X_Tenant": "two"}, 200, "Hello from other"),
        ("127.0.0.1", "/", {}, 200, "Hello from other"),
    ]
    for host, path, headers, status, text in found:
        response = await shop.ask(path, host, **headers)
        assert response.status == status
        if text != "\0":
            assert text in response.body
    # A probe of kubelet does not reach the application, although its route takes any host.
    probe = await fetch(*shop.world.traffic, "/readyz", headers=PROBE)
    assert (probe.status, probe.body) == (200, "OK")
    assert (await shop.queue())[f"{SPACE}/other"]["RequestCount"] == 3


async def test_an_unknown_host_gets_the_texts_of_the_add_on(shop: Shop) -> None:
    response = await shop.ask(host="nobody.example")
    assert (response.status, response.body) == (404, "Not Found\n")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert "x-keda-http-cold-start" not in response.headers


async def test_a_placeholder_wins_over_a_fallback_and_counts_for_a_second(shop: Shop) -> None:
    spare = await shop.pod("spare")
    shop.service("web")
    shop.service("spare", spare)
    fallback = {"fallback": {"service": {"name": "spare", "port": 80}}}
    await shop.routes(interceptor_route(SPACE, "web", coldStart=STARTING | fallback))
    response = await shop.ask()
    assert (response.status, response.body) == (503, "starting")
    assert response.headers["content-type"] == "text/x-starting"
    assert "x-keda-http-cold-start" not in response.headers
    counted = (await shop.queue())[f"{SPACE}/web"]
    assert (counted["Concurrency"], counted["RequestCount"]) == (1, 1)
    await shop.counts(0)
    shop.service("web", await shop.pod("web"))

    async def serves() -> bool:
        return "Hello from web" in (await shop.ask()).body

    await until(serves, "the pod serves")


async def test_a_client_that_leaves_early_counts_for_a_second(shop: Shop) -> None:
    shop.service("web")
    await shop.routes(http_scaled_object(SPACE, "web"))
    asking = asyncio.ensure_future(shop.ask())
    await shop.counts(1)
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    assert (await shop.queue())[f"{SPACE}/web"]["Concurrency"] == 1
    await shop.counts(0)


@pytest.mark.parametrize(
    ("overflow", "text"), [("Reject", "too many pending requests\n"), ("Placeholder", "starting")]
)
async def test_only_so_many_requests_wait(shop: Shop, overflow: str, text: str) -> None:
    shop.service("web")
    cold = {"maxPendingRequests": 2, "overflow": overflow}
    cold |= STARTING if overflow == "Placeholder" else {}
    await shop.routes(interceptor_route(SPACE, "web", coldStart=cold))
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(shop.ask()) for _ in range(2)]
        await shop.counts(2)
        response = await shop.ask()
        assert (response.status, response.body) == (503, text)
        shop.service("web", await shop.pod("web"))
    for each in waiting:
        assert each.result().status == 200
        assert each.result().headers["x-keda-http-cold-start"] == "true"


async def test_static_routes_respond_without_a_pod_and_do_not_count(shop: Shop) -> None:
    def entry(value: str, response: Object, mode: str = "Always", **rule: Any) -> Object:
        rules = [{"paths": [{"value": value}], **rule}]
        return {"rules": rules, "response": response, "responseMode": mode}

    internal: Any = {"headers": [{"name": "X-Internal"}]}
    shop.service("web")
    shop.world.write(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": SPACE,
                "name": "pages",
                "labels": {"http.keda.sh/response-body": "true"},
            },
            "data": {"index.html": "<p>soon</p>", "robots.txt": "Disallow: /"},
        }
    )
    await shop.routes(
        interceptor_route(
            SPACE,
            "web",
            staticRoutes=[
                entry("/secret", {"statusCode": 403, "body": "no"}, **internal),
                entry("/robots.txt", {"bodyFromConfigMap": {"name": "pages"}}),
                entry("/lost", {"bodyFromConfigMap": {"name": "nothing"}}),
                entry("/key", {"bodyFromConfigMap": {"name": "pages", "key": "index.html"}}),
                entry("/status", {"body": "asleep"}, "WhenUnavailable"),
            ],
        )
    )
    rows = {
        "/robots.txt": (200, "Disallow: /", "text/plain; charset=utf-8"),
        "/robots.txt/x": (200, "", ""),
        "/key": (200, "<p>soon</p>", "text/html; charset=utf-8"),
        "/lost": (500, "", ""),
        "/status?code=418": (200, "asleep", ""),
    }
    for path, (status, body, content_type) in rows.items():
        response = await shop.ask(path)
        assert response.status == status, path
        if status == 200:
            assert response.body == body
        assert content_type in response.headers.get("content-type", "")
    assert (await shop.ask("/secret", X_Internal="")).status == 403
    counted = (await shop.queue())[f"{SPACE}/web"]
    assert (counted["Concurrency"], counted["RequestCount"]) == (0, 0)
    shop.service("web", await shop.pod("web"))
    assert (await shop.ask()).status == 200
    assert (await shop.ask("/status?code=418")).status == 418
    assert (await shop.ask("/robots.txt")).body == "Disallow: /"


async def test_time_limits(shop: Shop) -> None:
    shop.service("web", await shop.pod("web"))
    shop.service("asleep")
    await shop.routes(
        interceptor_route(SPACE, "web", timeouts={"request": "1s", "responseHeader": "300ms"}),
        interceptor_route(SPACE, "asleep", timeouts={"readiness": "500ms"}),
    )
    rows = [
        ("web", "/sleep?ms=5000", 0.3),
        ("asleep", "/", 0.5),
    ]
    for name, path, limit in rows:
        response = await shop.ask(path, f"{name}.{SPACE}.example")
        assert (response.status, response.body) == (504, "Gateway Timeout\n")
        assert limit <= response.took < limit + 2
    # A response that has begun is cut.
    with suppress(ConnectionError):
        response = await shop.ask("/stream?n=100&ms=100")
        assert response.status == 200
        assert not response.body.endswith("0\r\n\r\n")


async def test_the_fallback_serves_after_the_wait(shop: Shop) -> None:
    shop.service("web")
    shop.service("spare", await shop.pod("spare"))
    cold = {"fallback": {"service": {"name": "spare", "portName": "http"}}}
    await shop.routes(
        interceptor_route(SPACE, "web", coldStart=cold, timeouts={"readiness": "300ms"})
    )
    response = await shop.ask()
    assert "Hello from spare" in response.body
    assert response.took >= 0.3
    assert "x-keda-http-cold-start" not in response.headers


async def test_a_request_waits_for_a_port_that_is_unknown_and_a_route_that_comes_back(
    shop: Shop,
) -> None:
    pod = await shop.pod("web")
    shop.service("web", pod)
    route = http_scaled_object(SPACE, "web")
    named = {"service": "web", "portName": "grpc", "name": "web"}
    route["spec"]["scaleTargetRef"] = named
    await shop.routes(route)
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(shop.ask())
        await shop.counts(1)
        shop.world.delete(route)
        named["portName"] = "http"
        await shop.routes(route)
    assert "Hello from web" in asking.result().body


async def test_response_headers_of_the_application_and_of_errors(shop: Shop) -> None:
    shop.service("web", await shop.pod("web"))
    await shop.routes(http_scaled_object(SPACE, "web"))
    await shop.ask()  # may wait for the first probe
    response = await shop.ask("/status?code=502")
    assert (response.status, response.headers["x-keda-http-cold-start"]) == (502, "false")
    seen = json.loads((await shop.ask("/headers", Forwarded="for=1.2.3.4")).body)["headers"]
    names = {line.partition(":")[0].lower() for line in seen}
    assert "forwarded" not in names
    assert {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"} <= names


async def test_sigterm_ends_no_request(shop: Shop) -> None:
    shop.service("web", await shop.pod("web"))
    await shop.routes(http_scaled_object(SPACE, "web"))
    ip, port = shop.world.traffic
    async with (
        connect(f"ws://{HOST}/ws", host=ip, port=port) as websocket,
        asyncio.TaskGroup() as tasks,
    ):
        asking = tasks.create_task(shop.ask("/sleep?ms=2500"))
        await shop.counts(2)
        ending = tasks.create_task(shop.world.end_activator())

        async def not_ready() -> bool:
            return (await shop.admin("/readyz")).status_code == 503

        await until(not_ready, "it is not ready")
        assert (await shop.ask()).headers["connection"] == "close"
        assert (await shop.admin("/livez")).status_code == 200
        assert (await shop.queue())[f"{SPACE}/web"]["Concurrency"] == 2
        await websocket.send("still here")
        assert await websocket.recv() == "still here"
        await websocket.close()
        assert (await asking).status == 200
        await ending
