"""The image in the Deployment of the KEDA HTTP add-on's scaler: variables, options and role."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from activator.keda.objects import ROUTE, SCALED_OBJECT
from activator.lab.control_plane.api import BUILT_IN, ApiKind, Right
from activator.lab.control_plane.plane import PlaneServer
from activator.scale.keda import externalscaler_pb2 as wire
from activator.scale.keda.part import KedaPart
from tests.activator.keda.objects import route, scaled, target
from tests.activator.scale.keda.client import Keda, cancelled, until
from tests.activator.scale.keda.test_routes import OBJECT, Interceptor, values
from tests.activator.scale.keda.test_routes import ROUTE as ROUTE_TRIGGER
from tests.activator.scale.world import Cluster, scaler
from tests.conftest import on_uvloop
from tests.control_plane.client import path_of
from tests.process import activator
from tests.recorded.requests import Recorder
from throttler.model import RevisionID, RevisionKind

SERVICE = "keda-add-ons-http-interceptor-admin"
GROUP = "http.keda.sh"
SCALED_OBJECTS = ApiKind(GROUP, "v1alpha1", "httpscaledobjects", SCALED_OBJECT, is_custom=True)
ROUTES = ApiKind(GROUP, "v1beta1", "interceptorroutes", ROUTE, is_custom=True)
#: The role of the add-on's scaler 0.12; a newer one also has OF_ROUTES.
ROLE = {
    Right(verb, group, resource)
    for verb in ("get", "list", "watch")
    for group, resource in (
        ("discovery.k8s.io", "endpointslices"),
        (GROUP, "httpscaledobjects"),
    )
}
OF_ROUTES = {Right(verb, GROUP, "interceptorroutes") for verb in ("get", "list", "watch")}
OPTIONS = ("--zap-log-level=info", "--zap-encoder=json", "--zap-time-encoding=rfc3339")


def pass_late_events_over() -> None:
    """Ignore the error of gRPC about an event of an earlier test, whose loop is closed.

    One poller serves all loops of the process, and passes such an event to the present loop. There
    the runner of tests would count it as an error of this test.
    """
    loop = asyncio.get_running_loop()
    others = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if str(context.get("exception")) != "Event loop is closed":
            (others or asyncio.AbstractEventLoop.default_exception_handler)(loop, context)

    loop.set_exception_handler(handle)


class AddOnCluster(Cluster):
    """A cluster with the add-on, whose scaler has its own role only."""

    def __init__(self, folder: Path, kinds: tuple[ApiKind, ...], rights: set[Right]) -> None:
        super().__init__(folder)
        self.plane = Recorder((*BUILT_IN, *kinds), allows_loopback=True)
        self.server = PlaneServer(self.plane)
        self._rights = rights

    async def __aenter__(self) -> AddOnCluster:
        pass_late_events_over()
        await self.server.start()
        self.kubeconfig = str(self.server.write_kubeconfig(self.folder))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.plane.close()
        await self.server.close()

    async def create(self, kind: ApiKind, obj: Any) -> None:
        self.plane.faults.grant_only(None)
        await self.send("POST", path_of(kind, obj["metadata"]["namespace"]), obj)
        self.plane.faults.grant_only(self._rights)

    async def list_interceptor(self, address: str) -> None:
        labels = {"kubernetes.io/service-name": SERVICE}
        metadata = {"name": "admin-1", "namespace": "keda", "labels": labels}
        [slices] = [each for each in BUILT_IN if each.plural == "endpointslices"]
        endpoint = {"addresses": [address], "conditions": {"ready": True}}
        ports = [{"name": "admin", "port": 9090}]
        body = {"metadata": metadata, "addressType": "IPv4", "ports": ports}
        await self.create(slices, {**body, "endpoints": [endpoint]})

    def variables(self, admin_port: int) -> dict[str, str]:
        """Return the environment of the Deployment; the ports are free ones."""
        return {
            "KEDA_HTTP_SCALER_TARGET_ADMIN_DEPLOYMENT": "keda-add-ons-http-interceptor",
            "KEDA_HTTP_SCALER_PORT": "0",
            "KEDA_HTTP_SCALER_TARGET_ADMIN_NAMESPACE": "keda",
            "KEDA_HTTP_SCALER_TARGET_ADMIN_SERVICE": SERVICE,
            "KEDA_HTTP_SCALER_TARGET_ADMIN_PORT": str(admin_port),
            "KEDA_HTTP_SCALER_STREAM_INTERVAL_MS": "200",
            "OTEL_PROM_EXPORTER_PORT": "0",
            "KUBECONFIG": self.kubeconfig,
            "ACTIVATOR_BIND": "127.0.0.1",
            "ACTIVATOR_STAT_PORT": "0",
            "ACTIVATOR_ADMIN_PORT": "0",
        }


@on_uvloop
@pytest.mark.parametrize(
    ("kinds", "rights", "warned"),
    [
        pytest.param((SCALED_OBJECTS,), ROLE, [], id="0.12"),
        pytest.param((SCALED_OBJECTS, ROUTES), ROLE | OF_ROUTES, [], id="0.15"),
        pytest.param(
            *((SCALED_OBJECTS, ROUTES), ROLE),
            ["/apis/http.keda.sh/v1beta1/interceptorroutes are not read: 403"],
            id="a role before 0.14",
        ),
    ],
)
async def test_only_the_image_of_the_add_ons_scaler_is_exchanged(
    tmp_path: Path, kinds: tuple[ApiKind, ...], rights: set[Right], warned: list[str]
) -> None:
    interceptor = Interceptor("127.0.0.1")
    interceptor.body = b'{"shop/web":{"Concurrency":3,"RequestCount":8}}'
    served = await asyncio.start_server(interceptor.serve, "127.0.0.1", 0)
    port = served.sockets[0].getsockname()[1]
    async with AddOnCluster(tmp_path, kinds, rights) as kube:
        await kube.create(SCALED_OBJECTS, scaled())
        if ROUTES in kinds:
            await kube.create(ROUTES, route())
        await kube.list_interceptor("127.0.0.1")
        async with activator(*OPTIONS, environment=kube.variables(port)) as process:
            await process.logged("reading route objects")
            host, grpc_port = await process.address("grpc")
            async with grpc.aio.insecure_channel(f"{host}:{grpc_port}") as channel:
                keda = Keda(channel)
                stream = keda.stream(OBJECT)
                while not (await stream.read()).result:
                    pass
                assert await values(keda, OBJECT) == [("http-shop_002Fweb", 3, 0)]
                if rights >= OF_ROUTES:
                    assert await values(keda, ROUTE_TRIGGER) == [("http_web_concurrency", 0, 3)]
                await cancelled(stream)
            assert (await process.get("/readyz", listener="admin"))[0] == 200
            [polled] = json.loads((await process.get("/api/v1/scaler", listener="admin"))[1])[
                "interceptors"
            ]
            assert 0 <= polled.pop("lastResponseSeconds") < 30
            assert polled == {"address": "127.0.0.1", "error": "", "objects": 1}
            lines = [each for each in process.lines if each["severity"] != "INFO"]
            # Its role permits each request, apart from the list of routes.
            assert {each.verb for each in kube.plane.calls} == {"create", "list", "watch"}
    served.close()
    assert [
        str(line["message"])[: len(text)] for line, text in zip(lines, warned, strict=True)
    ] == warned


@on_uvloop
async def test_an_activator_in_place_of_the_interceptor_reports_its_requests(
    tmp_path: Path,
) -> None:
    """Nothing lists the activator, so nothing polls it: KEDA gets what it pushes."""
    of_interceptor = {
        Right(verb, "", resource)
        for verb in ("get", "list", "watch")
        for resource in ("services", "configmaps")
    }
    kinds = (SCALED_OBJECTS, ROUTES)
    async with AddOnCluster(tmp_path, kinds, ROLE | OF_ROUTES | of_interceptor) as kube:
        await kube.create(SCALED_OBJECTS, scaled())
        [services] = [each for each in BUILT_IN if each.plural == "services"]
        await kube.create(services, target("hello", selector={"app": "hello"}))
        async with activator(*OPTIONS, environment=kube.variables(1)) as process:
            host, stat_port = await process.address("stat")
            environment = {
                "KEDA_HTTP_PROXY_PORT": "0",
                "KEDA_HTTP_ADMIN_PORT": "0",
                "OTEL_PROM_EXPORTER_PORT": "0",
                "KUBECONFIG": kube.kubeconfig,
                "ACTIVATOR_BIND": "127.0.0.1",
                "ACTIVATOR_SCALER_URL": f"ws://{host}:{stat_port}",
            }
            async with activator(*OPTIONS, environment=environment) as interceptor:
                await interceptor.logged("scaler connected")
                _, port = await process.address("grpc")
                async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
                    keda = Keda(channel)
                    stream = keda.stream(OBJECT)
                    assert not (await stream.read()).result
                    _, writer = await asyncio.open_connection(*await interceptor.address("http"))
                    writer.write(b"GET / HTTP/1.1\r\nHost: a.com\r\n\r\n")
                    while not (await stream.read()).result:
                        pass
                    assert await values(keda, OBJECT) == [("http-shop_002Fweb", 1, 0)]
                    writer.close()
                    await cancelled(stream)


@on_uvloop
async def test_beside_services_a_route_object_is_no_service_of_the_same_name(
    tmp_path: Path,
) -> None:
    async with AddOnCluster(tmp_path, (SCALED_OBJECTS, ROUTES), set()) as kube:
        kube.plane.faults.grant_only(None)
        await kube.add("web")
        await kube.send("POST", path_of(SCALED_OBJECTS, "shop"), scaled())
        flags = {"dialect": "services,keda"}
        async with AsyncExitStack() as stack:
            running = await stack.enter_async_context(scaler(kube, parts=[KedaPart], **flags))
            await until(lambda: running.leads)
            act = await stack.enter_async_context(running.activator())
            channel = grpc.aio.insecure_channel(running.scaler.addresses["grpc"])
            keda = Keda(channel)
            stream = keda.stream(OBJECT)
            assert not (await stream.read()).result
            await act.report(2, RevisionID("shop", "web", RevisionKind.HTTP_ROUTE))
            assert (await stream.read()).result
            assert await values(keda, OBJECT) == [("http-shop_002Fweb", 2, 0)]
            service = wire.ScaledObjectRef(namespace="shop", scalerMetadata={"service": "web"})
            assert not (await keda.is_active(service)).result
            await act.report(1, "web")
            await until(lambda: kube.replicas("web") == 1)
            assert (await keda.is_active(service)).result
            await cancelled(stream)
            await channel.close()
