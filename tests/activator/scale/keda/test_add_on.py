"""The image in the Deployment of the KEDA HTTP add-on's scaler: variables, options and role."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from activator.keda.objects import ROUTE, SCALED_OBJECT
from activator.lab.control_plane.api import BUILT_IN, ApiKind, Right
from activator.lab.control_plane.plane import PlaneServer
from tests.activator.keda.objects import route, scaled
from tests.activator.scale.keda.client import Keda
from tests.activator.scale.keda.test_routes import OBJECT, Interceptor, values
from tests.activator.scale.keda.test_routes import ROUTE as ROUTE_TRIGGER
from tests.activator.scale.world import Cluster
from tests.conftest import on_uvloop
from tests.process import activator
from tests.recorded.requests import Recorder

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


class AddOnCluster(Cluster):
    """A cluster with the add-on, whose scaler has its own role only."""

    def __init__(self, folder: Path, kinds: tuple[ApiKind, ...], rights: set[Right]) -> None:
        super().__init__(folder)
        self.plane = Recorder((*BUILT_IN, *kinds), allows_loopback=True)
        self.server = PlaneServer(self.plane)
        self._rights = rights

    async def __aenter__(self) -> AddOnCluster:
        await self.server.start()
        self.kubeconfig = str(self.server.write_kubeconfig(self.folder))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.plane.close()
        await self.server.close()

    async def create(self, kind: ApiKind, obj: Any) -> None:
        self.plane.faults.grant_only(None)
        await self.send("POST", kind.path(obj["metadata"]["namespace"]), obj)
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
        async with activator(*OPTIONS, environment=kube.variables(port)) as scaler:
            await scaler.logged("reading route objects")
            host, grpc_port = await scaler.address("grpc")
            async with grpc.aio.insecure_channel(f"{host}:{grpc_port}") as channel:
                keda = Keda(channel)
                stream = keda.stream(OBJECT)
                while not (await stream.read()).result:
                    pass
                assert await values(keda, OBJECT) == [("http-shop_002Fweb", 3, 0)]
                if rights >= OF_ROUTES:
                    assert await values(keda, ROUTE_TRIGGER) == [("http_web_concurrency", 0, 3)]
                stream.cancel()
            assert (await scaler.get("/readyz", listener="admin"))[0] == 200
            [polled] = json.loads((await scaler.get("/api/v1/scaler", listener="admin"))[1])[
                "interceptors"
            ]
            assert 0 <= polled.pop("lastResponseSeconds") < 30
            assert polled == {"address": "127.0.0.1", "error": "", "objects": 1}
            warnings = [str(each["message"]) for each in scaler.lines if each["severity"] != "INFO"]
            # Its role permits each request, apart from the list of routes.
            assert {each.verb for each in kube.plane.calls} == {"create", "list", "watch"}
    served.close()
    assert [each[: len(text)] for each, text in zip(warnings, warned, strict=True)] == warned
