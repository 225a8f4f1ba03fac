"""The product in place of the KEDA HTTP add-on's programs: docs/how-to/from-keda-http-add-on.md.

Each scenario runs with the add-on's own programs first, so it is known to be right. The add-on's
and KEDA's programs are optional: they are in the folder of the control plane's, or nothing runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from statistics import median
from typing import Any, Final

import grpc
import pytest
from websockets.asyncio.client import connect

from activator.lab.programs import fetch
from tests.cluster import keda
from tests.cluster.cluster import Cluster
from tests.cluster.http_add_on import (
    INTERCEPTOR,
    METRICS_PORT,
    NAMESPACE,
    ORIGINAL,
    PRODUCT,
    PROGRAMS,
    PROXY_PORT,
    SCALER,
    HttpAddOn,
    application,
    own_scaled_object,
)
from tests.cluster.http_add_on_objects import http_scaled_object, interceptor_route
from tests.cluster.objects import Object
from tests.cluster.traffic import traffic
from tests.process import PATIENCE, ROOT

pytestmark = keda.needs(*PROGRAMS)

#: Images of interceptor and scaler; empty for the add-on's own.
PAIRS: Final = {"original": ("", ""), "interceptor": (PRODUCT, ""), "both": (PRODUCT, PRODUCT)}
#: The same for an exchange; the add-on's own come from another registry.
EXCHANGES: Final = {
    **PAIRS,
    "original": tuple(
        f"registry.example.com/{image.rpartition('/')[2]}" for image in ORIGINAL.values()
    ),
}
#: All pairs take 13 minutes, and those with the add-on's own programs prove the scenarios rather
#: than the product: `KEDA_HTTP_PAIRS=all make test-cluster` runs them.
CHOSEN: Final = tuple(PAIRS) if os.environ.get("KEDA_HTTP_PAIRS") == "all" else ("both",)
#: KEDA looks for the end of the load so often, and scales down without a delay. Its own values
#: are 15 and 300 seconds.
SOON: Final[Object] = {"pollingInterval": 2}
AT_ONCE: Final[Object] = {
    "advanced": {
        "restoreToOriginalReplicaCount": True,
        "horizontalPodAutoscalerConfig": {
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}
        },
    }
}


AWAKE: Final[Object] = {"minReplicaCount": 1}
#: A pod of gRPC, with the methods of tests.grpc.pod.
GRPC: Final = f'PYTHONPATH={ROOT} exec {sys.executable} -m tests.grpc.pod "$POD_ADDRESS" 8080 0 0'


@pytest.fixture(scope="module")
async def add_on(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[HttpAddOn]:
    """Provide KEDA and the add-on, with its own programs."""
    await cluster.uninstall()
    await keda.install(cluster, tmp_path_factory.mktemp("keda"))
    found = HttpAddOn(cluster)
    await found.install()
    yield found
    await found.remove()
    await keda.remove(cluster)


@pytest.fixture(scope="module", params=CHOSEN)
async def running(add_on: HttpAddOn, request: pytest.FixtureRequest) -> HttpAddOn:
    """Provide the add-on with one pair of images."""
    await add_on.run(*PAIRS[request.param])
    return add_on


@pytest.fixture(scope="module")
async def newer(add_on: HttpAddOn) -> HttpAddOn:
    """Provide the product in the place of both programs of the add-on 0.15."""
    await add_on.run(PRODUCT, PRODUCT)
    await add_on.upgrade()
    return add_on


def answered_by(body: str) -> str:
    """Return the Deployment whose pod sent a response; empty for none."""
    found = re.search(r"\b([a-z]+)-[a-z0-9]+-[a-z0-9]{5}\b", body)
    return found[1] if found else ""


async def test_a_sleeping_application_serves_the_first_request_and_sleeps_again(
    running: HttpAddOn, namespace: str
) -> None:
    route = http_scaled_object(namespace, "web", scaledownPeriod=1)
    await running.deploy(route, scaling=SOON)
    host = f"web.{namespace}.example"
    first = await running.ask(host, "/echo", "POST", body=b"hello" * 1000)
    assert (first.status, first.body) == (200, "hello" * 1000)
    assert first.headers["x-keda-http-cold-start"] == "true"
    second = await running.ask(host, "/headers", headers={"X-Forwarded-Proto": "https"})
    assert second.headers["x-keda-http-cold-start"] == "false"
    for line in (
        f"Host: {host}",
        f"X-Forwarded-Host: {host}",
        "X-Forwarded-Proto: https",
        "X-Forwarded-For: 10.99.0.1",
        "X-KEDA-HTTP-Cold-Start-Ref-Name: web",
        f"X-KEDA-HTTP-Cold-Start-Ref-Namespace: {namespace}",
    ):
        assert f'"{line}"'.lower() in second.body.lower()
    await running.has(namespace, "web", 0)


async def test_cold_starts_of_ten_applications(
    running: HttpAddOn, namespace: str, record_property: Any
) -> None:
    names = [f"web{chr(97 + number)}" for number in range(10)]
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(running.deploy(http_scaled_object(namespace, name)))
    took = []
    for name in names:
        response = await running.ask(f"{name}.{namespace}.example")
        assert response.status == 200
        took.append(response.took)
    record_property("median", median(took))
    print(f"zero to response: median {median(took):.3f} s, maximum {max(took):.3f} s")
    assert median(took) < 5


async def test_load_scales_only_its_own_application(running: HttpAddOn, namespace: str) -> None:
    two = {"concurrency": {"targetValue": 2}}
    async with asyncio.TaskGroup() as tasks:
        for name in ("busy", "idle"):
            route = http_scaled_object(
                namespace, name, scalingMetric=two, replicas={"min": 0, "max": 3}
            )
            tasks.create_task(running.deploy(route))
    load = await running.load(f"busy.{namespace}.example", 3, "/sleep?ms=2000")
    async with traffic(load):
        await running.has(namespace, "busy", 3)
    assert await running.cluster.replicas("idle", namespace) == 0


async def test_the_rate_of_requests_scales_up_and_down(running: HttpAddOn, namespace: str) -> None:
    rate = {"requestRate": {"targetValue": 5, "window": "5s", "granularity": "1s"}}
    route = http_scaled_object(namespace, "web", scalingMetric=rate, replicas={"min": 1, "max": 3})
    await running.deploy(route, replicas=1, scaling=SOON | AT_ONCE)
    async with traffic(await running.load(f"web.{namespace}.example", 15)):
        await running.has(namespace, "web", 3)
    await running.has(namespace, "web", 1)


async def test_host_path_and_headers_select_the_application(
    running: HttpAddOn, namespace: str
) -> None:
    domain = f"{namespace}.example"
    blue = [{"name": "X-Color", "value": "blue"}]
    objects: dict[str, tuple[str, Object]] = {
        "exact": ("red", {"hosts": [f"web.{domain}"]}),
        "path": ("green", {"hosts": [f"web.{domain}"], "pathPrefixes": ["/api", "v1/"]}),
        "both": (
            "blue",
            {"hosts": [f"web.{domain}"], "pathPrefixes": ["/api/deep"], "headers": blue},
        ),
        "wild": ("black", {"hosts": [f"*.{domain}"]}),
        "wilder": ("green", {"hosts": [f"*.sub.{domain}"]}),
        "value": ("green", {"hosts": [f"head.{domain}"], "headers": blue}),
        "presence": ("blue", {"hosts": [f"head.{domain}"], "headers": [{"name": "X-Color"}]}),
        "named": ("red", {"hosts": [f"named.{domain}:8080"]}),
    }
    for name in ("red", "green", "blue", "black"):
        await running.cluster.apply(*application(namespace, name, replicas=1))
    for name, (target, spec) in objects.items():
        route = http_scaled_object(namespace, name, **spec)
        port: Object = {"portName": "http"} if name == "named" else {"port": 80}
        route["spec"]["scaleTargetRef"] = {"name": target, "service": target, **port}
        await running.cluster.apply(route)
    for name in objects:
        await running.known(namespace, name)
    rows: list[tuple[str, str, str, str]] = [
        # Labels before the domain, path, X-Color, Deployment.
        ("web.", "/", "", "red"),
        ("web.", "/apix", "", "red"),
        ("web.", "/api", "", "green"),
        ("web.", "/api/", "", "green"),
        ("web.", "/api/x", "blue", "green"),
        ("web.", "/%61pi/x", "", "green"),
        ("web.", "/v1", "", "green"),
        ("web.", "/api/deep/x", "blue", "blue"),
        # No shorter path of the same host is tried, but the next host.
        ("web.", "/api/deep/x", "red", "black"),
        ("other.", "/", "", "black"),
        ("a.b.", "/", "", "black"),
        ("sub.", "/", "", "black"),
        ("a.sub.", "/", "", "green"),
        ("", "/", "", ""),
        ("head.", "/", "blue", "green"),
        ("head.", "/", "Blue", "blue"),
        ("head.", "/", "", "black"),
        ("named.", "/", "", "red"),
    ]
    if running.interceptor == PRODUCT:
        rows.append(("WEB.", "/", "", "red"))
    wrong = []
    for labels, path, color, expected in rows:
        headers = {"X-Color": color} if color else {}
        for suffix in ("", f":{PROXY_PORT}"):
            response = await running.ask(f"{labels}{domain}{suffix}", path, headers=headers)
            found = answered_by(response.body)
            if found != expected or (not expected and response.status != 404):
                wrong.append((labels, path, color, suffix, expected, found, response))
    assert not wrong


async def test_a_changed_target_is_used_and_a_deleted_route_is_unknown(
    running: HttpAddOn, namespace: str
) -> None:
    for name in ("red", "green"):
        await running.cluster.apply(*application(namespace, name, replicas=1))
        await running.cluster.apply(http_scaled_object(namespace, name))
        await running.known(namespace, name)

    async def target(host: str) -> str:
        return answered_by((await running.ask(f"{host}.{namespace}.example")).body)

    assert [await target(name) for name in ("red", "green")] == ["red", "green"]
    changed = http_scaled_object(namespace, "red")
    changed["spec"]["scaleTargetRef"]["service"] = "green"
    await running.cluster.apply(changed)

    async def is_changed() -> bool:
        return await target("red") == "green"

    await running.cluster.until(is_changed, "the new target serves")
    await running.cluster.kubectl("-n", namespace, "delete", "httpscaledobject", "red")
    await running.known(namespace, "red", is_known=False)
    lost = await running.ask(f"red.{namespace}.example")
    assert (lost.status, "Not Found" in lost.body) == (404, True)
    assert await target("green") == "green"


async def test_a_fallback_serves_what_waits_too_long(running: HttpAddOn, namespace: str) -> None:
    await running.cluster.apply(*application(namespace, "spare", replicas=1))
    failover = {"service": "spare", "port": 80, "timeoutSeconds": 2}
    route = http_scaled_object(namespace, "slow", coldStartTimeoutFailoverRef=failover)
    await running.deploy(route, start_after=30)
    response = await running.ask(f"slow.{namespace}.example")
    assert (response.status, answered_by(response.body)) == (200, "spare")
    assert 2 <= response.took < 4
    assert await running.cluster.replicas("slow", namespace) == 1
    expected = None if running.interceptor == PRODUCT else "false"
    assert response.headers.get("x-keda-http-cold-start") == expected


async def test_time_limits_of_a_route(running: HttpAddOn, namespace: str) -> None:
    slow = http_scaled_object(namespace, "slow", timeouts={"conditionWait": "1s"})
    await running.deploy(slow, start_after=30)
    hangs = http_scaled_object(namespace, "hangs", timeouts={"responseHeader": "300ms"})
    await running.deploy(hangs, replicas=1, scaling=AWAKE)
    waited = await running.ask(f"slow.{namespace}.example")
    hung = await running.ask(f"hangs.{namespace}.example", "/sleep?ms=3000")
    assert 1 <= waited.took < 3
    assert 0.3 <= hung.took < 2
    if running.interceptor == PRODUCT:
        for response in (waited, hung):
            assert (response.status, response.body) == (504, "Gateway Timeout\n")
    else:
        assert "error on backend (context marked done" in waited.body
        assert "Bad Gateway" in hung.body
        assert (waited.status, hung.status) == (502, 502)


async def test_a_websocket_is_counted_while_it_is_open(running: HttpAddOn, namespace: str) -> None:
    await running.deploy(http_scaled_object(namespace, "web"))
    name = f"{namespace}/web"
    (ip,) = await running.interceptors()
    url = f"ws://web.{namespace}.example/ws"
    async with connect(url, host=await running.address(), port=PROXY_PORT) as websocket:
        await websocket.send("hello")
        assert await websocket.recv() == "hello"
        assert (await running.queue(ip))[name]["Concurrency"] == 1

    async def is_closed() -> bool:
        return (await running.queue(ip))[name]["Concurrency"] == 0

    await running.cluster.until(is_closed, "no request is counted")


async def test_a_request_survives_a_restart_of_the_interceptor(
    running: HttpAddOn, namespace: str
) -> None:
    await running.deploy(http_scaled_object(namespace, "web"), replicas=1, scaling=AWAKE)
    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(running.ask(f"web.{namespace}.example", "/sleep?ms=4000"))
        (ip,) = await running.interceptors()

        async def arrived() -> bool:
            return (await running.queue(ip))[f"{namespace}/web"]["Concurrency"] == 1

        await running.cluster.until(arrived, "the request has arrived")
        restart = ("rollout", "restart", f"deployment/{INTERCEPTOR}")
        await running.cluster.kubectl("-n", NAMESPACE, *restart)
    assert asking.result().status == 200
    await running.rolled_out()


async def test_a_killed_pod_loses_no_request(running: HttpAddOn, namespace: str) -> None:
    await running.deploy(http_scaled_object(namespace, "web", replicas={"min": 2}), replicas=2)

    async def two() -> bool:
        return len(await running.cluster.endpoints("web", namespace)) == 2

    await running.cluster.until(two, "both pods are ready")
    # Only GETs: a POST that the pod has begun to read must not be sent again.
    load = await running.load(f"web.{namespace}.example", 50, posts=0)
    # The original tries no other pod.
    async with traffic(load, lost=0 if running.interceptor == PRODUCT else 25):
        await load.more(50)
        pod = (await running.cluster.pods("web", namespace))[0]["metadata"]["name"]
        await running.cluster.kill(namespace, pod, "hello")
        await load.more(200)


async def test_prometheus_reads_the_names_of_the_add_on(running: HttpAddOn, namespace: str) -> None:
    await running.deploy(http_scaled_object(namespace, "web"), replicas=1, scaling=AWAKE)
    host = f"web.{namespace}.example"
    assert (await running.ask(host)).status == 200
    (ip,) = await running.interceptors()
    lines = (await fetch(ip, METRICS_PORT, "/metrics")).body.splitlines()
    counted = [line for line in lines if line.startswith("interceptor_request_count_total{")]
    labels = ['code="200"', 'method="GET"']
    if running.interceptor == PRODUCT:
        labels += ['route_name="web"', f'route_namespace="{namespace}"']
        assert any(
            line.startswith("interceptor_request_duration_seconds_bucket{") for line in lines
        )
        assert any(line.startswith("interceptor_request_concurrency{") for line in lines)
    else:
        labels.append(f'host="{host}"')
    assert any(all(label in line for label in labels) for line in counted), counted


async def test_the_role_of_the_add_on_suffices(running: HttpAddOn, namespace: str) -> None:
    await running.deploy(http_scaled_object(namespace, "web"))
    assert (await running.ask(f"web.{namespace}.example")).status == 200
    for name in (INTERCEPTOR, SCALER):
        log = await running.cluster.kubectl("-n", NAMESPACE, "logs", f"deployment/{name}")
        # The role of 0.12.1 has neither InterceptorRoutes nor ConfigMaps: each is named once.
        # Workloads are another line, which names the role to add.
        for word in (
            *("interceptorroutes are not read", "configmaps are not read", "Traceback"),
            "manifests/keda-http/workloads.yaml",
        ):
            assert log.count(word) <= (word != "Traceback"), log


async def test_the_interceptors_scale_by_the_sum_of_their_requests(
    running: HttpAddOn, namespace: str
) -> None:
    await running.cluster.apply(own_scaled_object(5))
    await running.deploy(http_scaled_object(namespace, "web"), start_after=8)
    try:
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(running.ask(f"web.{namespace}.example")) for _ in range(12)]
            await running.has(NAMESPACE, INTERCEPTOR, 3)
        assert [each.result().status for each in asking] == [200] * 12
    finally:
        await running.cluster.kubectl("-n", NAMESPACE, "delete", "scaledobject", INTERCEPTOR)
        one = ("scale", f"deployment/{INTERCEPTOR}", "--replicas=1")
        await running.cluster.kubectl("-n", NAMESPACE, *one)
        await running.one_interceptor()


@pytest.mark.parametrize("images", CHOSEN)
async def test_an_exchange_and_the_way_back_lose_no_request(
    add_on: HttpAddOn, namespace: str, images: str
) -> None:
    await add_on.run()
    route = http_scaled_object(namespace, "web", replicas={"min": 2})
    await add_on.deploy(route, replicas=2)
    async with traffic(await add_on.load(f"web.{namespace}.example", 100)) as load:
        await load.more(500)
        await add_on.run(*EXCHANGES[images])
        await load.more(2000)
        await add_on.run()
        await load.more(2500)


@pytest.mark.parametrize("image", [ORIGINAL[INTERCEPTOR], PRODUCT], ids=["original", "product"])
async def test_two_deployments_of_interceptors_serve_side_by_side(
    add_on: HttpAddOn, namespace: str, image: str
) -> None:
    await add_on.run()
    (first,) = await add_on.interceptors()
    two = {"concurrency": {"targetValue": 2}}
    route = http_scaled_object(namespace, "web", scalingMetric=two, replicas={"min": 0, "max": 4})
    await add_on.add_interceptor(image)
    try:
        second = await add_on.second_interceptor()
        await add_on.deploy(route)
        host, name = f"web.{namespace}.example", f"{namespace}/web"
        async with asyncio.TaskGroup() as tasks:
            asking = [
                tasks.create_task(add_on.ask(host, "/sleep?ms=6000", ip=ip))
                for ip in (first, second) * 3
            ]

            async def counted() -> bool:
                queues = [await add_on.queue(ip) for ip in (first, second)]
                return [queue[name]["Concurrency"] for queue in queues] == [3, 3]

            await add_on.cluster.until(counted, "each counts its own requests")
            await add_on.has(namespace, "web", 3)
        assert [each.result().status for each in asking] == [200] * 6
        async with traffic(await add_on.load(host, 50)) as load:
            await load.more(200)
            await add_on.remove_second()
            await load.more(200)
    finally:
        await add_on.remove_second()


async def test_the_api_server_refuses_broken_objects(newer: HttpAddOn, namespace: str) -> None:
    both_ports = http_scaled_object(namespace, "web")
    both_ports["spec"]["scaleTargetRef"]["portName"] = "http"
    texts = {
        "must define either the 'portName' or the 'port'": both_ports,
        "at least one of 'concurrency'": interceptor_route(namespace, "web", scalingMetric={}),
        "coldStart: Invalid value": interceptor_route(namespace, "web", coldStart={}),
        "should be greater than or equal to 1": interceptor_route(
            namespace, "web", scalingMetric={"concurrency": {"targetValue": 0}}
        ),
    }
    for text, broken in texts.items():
        with pytest.raises(AssertionError, match=text):
            await newer.cluster.apply(broken)


async def test_static_responses_do_not_wake_and_a_placeholder_does(
    newer: HttpAddOn, namespace: str
) -> None:
    starting = {"body": "<p>starting</p>", "headers": {"Content-Type": "text/html"}}
    label = {"http.keda.sh/response-body": "true"}
    pages = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": "pages", "labels": label},
        "data": {"style.css": "p {}"},
    }
    always = {"statusCode": 204}
    routes = [
        {
            "rules": [{"paths": [{"value": "/health"}]}],
            "response": always,
            "responseMode": "Always",
        },
        {
            "rules": [{"paths": [{"value": "/style.css"}]}],
            "response": {"bodyFromConfigMap": {"name": "pages"}},
        },
    ]
    await newer.cluster.apply(pages)
    route = interceptor_route(
        namespace, "web", coldStart={"placeholder": {"response": starting}}, staticRoutes=routes
    )
    await newer.deploy(route)
    host, name = f"web.{namespace}.example", f"{namespace}/web"
    assert (await newer.ask(host, "/health")).status == 204
    style = await newer.ask(host, "/style.css")
    assert (style.status, style.body) == (200, "p {}")
    assert style.headers["content-type"].startswith("text/css")
    (ip,) = await newer.interceptors()
    assert (await newer.queue(ip))[name]["RequestCount"] == 0
    response = await newer.ask(host)
    assert (response.status, response.body) == (503, "<p>starting</p>")
    assert response.headers["content-type"] == "text/html"

    async def is_up() -> bool:
        return answered_by((await newer.ask(host)).body) == "web"

    await newer.cluster.until(is_up, "the pod serves")
    assert (await newer.ask(host, "/health")).status == 204
    assert answered_by((await newer.ask(host, "/style.css")).body) == "web"


async def test_an_interceptor_route_hides_the_object_of_its_name_and_limits_requests(
    newer: HttpAddOn, namespace: str
) -> None:
    route = interceptor_route(namespace, "web", timeouts={"request": "2s"})
    hidden = http_scaled_object(namespace, "web", hosts=[f"hidden.{namespace}.example"])
    await newer.cluster.apply(hidden)
    await newer.deploy(route, replicas=1, scaling=AWAKE)
    assert (await newer.ask(f"hidden.{namespace}.example")).status == 404
    host = f"web.{namespace}.example"
    assert (await newer.ask(host)).status == 200
    late = await newer.ask(host, "/sleep?ms=5000")
    assert (late.status, late.body) == (504, "Gateway Timeout\n")
    assert 2 <= late.took < 4


async def test_both_metrics_of_a_route_reach_the_autoscaler(
    newer: HttpAddOn, namespace: str
) -> None:
    metrics = {
        "concurrency": {"targetValue": 100},
        "requestRate": {"targetValue": 5, "window": "5s"},
    }
    route = interceptor_route(namespace, "web", scalingMetric=metrics)
    await newer.deploy(route, scaling={"maxReplicaCount": 3})
    async with traffic(await newer.load(f"web.{namespace}.example", 12)):
        await newer.has(namespace, "web", 3)
    words = ("-n", namespace, "get", "hpa", "keda-hpa-web", "-o", "json")
    found = json.loads(await newer.cluster.kubectl(*words))
    names = {each["external"]["metric"]["name"] for each in found["spec"]["metrics"]}
    assert names == {"s0-http_web_concurrency", "s0-http_web_rate"}


async def test_grpc_calls_wake_a_pod(newer: HttpAddOn, namespace: str) -> None:
    newer.cluster.image("grpc", ["sh", "-c", GRPC, "sh"])
    await newer.deploy(
        interceptor_route(namespace, "web"),
        image="example.com/grpc",
        port={"appProtocol": "kubernetes.io/h2c"},
    )
    ip = await newer.address()
    options = [("grpc.default_authority", f"web.{namespace}.example")]

    def call() -> tuple[bytes, list[bytes]]:
        with grpc.insecure_channel(f"{ip}:{PROXY_PORT}", options=options) as channel:
            unary = channel.unary_unary("/t.T/Echo")(b"hello", timeout=PATIENCE)
            chat = channel.stream_stream("/t.T/Chat")(iter([b"a", b"b"]), timeout=PATIENCE)
            return unary, list(chat)

    assert await asyncio.to_thread(call) == (b"hello", [b"a", b"b"])
