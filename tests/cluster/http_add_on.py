"""The KEDA HTTP add-on in the cluster: its installation, and what runs for its two images.

The add-on's interceptor and scaler are optional programs, as KEDA's. Its operator does not run:
`HttpAddOn.deploy` makes the ScaledObjects that it would make.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx
import yaml

from activator.lab.programs import ClientResponse, SteadyTraffic, fetch
from tests.cluster import keda
from tests.cluster.cluster import Cluster
from tests.cluster.http_add_on_objects import HTTP_SCALED_OBJECTS, INTERCEPTOR_ROUTES, scaled_object
from tests.cluster.objects import IMAGE, Object, deployment, plain_service
from tests.process import ROOT

YAML: Final = "tests/cluster/http_add_on.yaml"
NAMESPACE: Final = "keda"
INTERCEPTOR: Final = "keda-add-ons-http-interceptor"
SCALER: Final = "keda-add-ons-http-scaler"
SECOND: Final = f"{INTERCEPTOR}-second"
#: The last part of each image's name is also the name of its program.
ORIGINAL: Final = {
    INTERCEPTOR: "ghcr.io/kedacore/http-add-on-interceptor:0.12.1",
    SCALER: "ghcr.io/kedacore/http-add-on-scaler:0.12.1",
}
PRODUCT: Final = "registry.example.com/activator:0.12.1"
#: Of a container of the original interceptor. It stops listening at SIGTERM, before
#: nodes have stopped sending it requests. The product needs no such hook.
PAUSE: Final = {"preStop": {"sleep": {"seconds": 3}}}
#: What the exchange of the scaler changes in addition to images.
PATCHES: Final = {
    ("deployment", SCALER): "manifests/keda-http-scaler/scaler.yaml",
    ("service", "keda-add-ons-http-external-scaler"): "manifests/keda-http-scaler/service.yaml",
    ("deployment", INTERCEPTOR): "manifests/keda-http-scaler/interceptor.yaml",
}
#: All programs that a test with the add-on needs.
PROGRAMS: Final = (
    *keda.IMAGES.values(),
    *(image.rpartition("/")[2].partition(":")[0] for image in ORIGINAL.values()),
)
#: The variable that the exchange of the scaler adds to the interceptor.
SCALER_URL: Final = "ACTIVATOR_SCALER_URL"
PROXY_PORT: Final = 8080
ADMIN_PORT: Final = 9090
METRICS_PORT: Final = 2223

# Objects of the installation, and of an application.


def own_scaled_object(target: int) -> Object:
    """Return the ScaledObject of the interceptors, as the add-on installs it."""
    trigger = {
        "type": "external",
        "metadata": {
            "scalerAddress": "keda-add-ons-http-external-scaler:9090",
            "interceptorTargetPendingRequests": str(target),
        },
    }
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": INTERCEPTOR}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": INTERCEPTOR, "namespace": NAMESPACE},
        "spec": {
            "minReplicaCount": 1,
            "maxReplicaCount": 3,
            "pollingInterval": 1,
            "scaleTargetRef": reference,
            "triggers": [trigger],
        },
    }


def newer_role(name: str, resources: list[str]) -> Object:
    """Return a ClusterRole of the add-on 0.15.

    Arguments:
        resources: of the core group.
    """
    groups = {
        "": resources,
        "discovery.k8s.io": ["endpointslices"],
        "http.keda.sh": ["httpscaledobjects", "interceptorroutes"],
    }
    rules = [
        {"apiGroups": [group], "resources": each, "verbs": ["get", "list", "watch"]}
        for group, each in groups.items()
        if each
    ]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }


def application(
    namespace: str,
    name: str,
    replicas: int | None = 0,
    start_after: float = 0.0,
    port: Mapping[str, Any] | None = None,
    image: str = IMAGE,
    *,
    only_kubelet: bool = True,
) -> tuple[Object, Object]:
    """Return a Deployment and its Service.

    Arguments:
        only_kubelet: whether its pods have a startup probe, which the activator leaves to kubelet.
            Then a pod is ready as soon as it listens. Else they have a readiness probe, which
            kubelet repeats each second.
    """
    workload = deployment(namespace, name, replicas=replicas, start_after=start_after, image=image)
    if not only_kubelet:
        return workload, plain_service(namespace, name, port=port)
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    # By a startup probe the kubelet looks ten times a second, not once.
    del container["readinessProbe"]
    container["startupProbe"] = {"tcpSocket": {"port": "http"}, "failureThreshold": 600}
    return workload, plain_service(namespace, name, port=port)


@dataclass
class HttpAddOn:
    """The add-on in a cluster.

    Attributes:
        interceptor, scaler: which image runs.
    """

    cluster: Cluster
    interceptor: str = ORIGINAL[INTERCEPTOR]
    scaler: str = ORIGINAL[SCALER]
    _is_prepared: bool = False

    async def install(self) -> None:
        """Install the add-on with its own programs. KEDA must run."""
        for name in PROGRAMS[len(keda.IMAGES) :]:
            self.cluster.image(name, [str(keda.program(name))])
        await self.cluster.apply(HTTP_SCALED_OBJECTS)
        await self.cluster.kubectl("apply", "-f", YAML)
        await self.rolled_out()

    async def remove(self) -> None:
        """Remove the add-on, and all its objects."""
        for name in ("httpscaledobjects", "interceptorroutes"):
            await self.cluster.run("kubectl", "delete", name, "--all", "-A")
        await self.cluster.kubectl("delete", "-f", YAML, "--wait=false")

    async def rolled_out(self) -> None:
        """Wait until the pods of both Deployments are the new ones."""
        for name in (INTERCEPTOR, SCALER):
            rollout = ("rollout", "status", f"deployment/{name}", "--timeout=90s")
            await self.cluster.kubectl("-n", NAMESPACE, *rollout)

    async def run(self, interceptor: str = "", scaler: str = "") -> None:
        """Exchange images, and wait until only the new ones run; without a name: the original."""
        self.interceptor = interceptor or ORIGINAL[INTERCEPTOR]
        self.scaler = scaler or ORIGINAL[SCALER]
        hook = PAUSE if "http-add-on" in self.interceptor else None
        if scaler == PRODUCT and not self._is_prepared:
            self._is_prepared = True
            for (kind, name), file in PATCHES.items():
                patch = json.dumps(yaml.safe_load((ROOT / file).read_text()))
                words = ("patch", kind, name, "--type=json", "-p", patch)
                await self.cluster.kubectl("-n", NAMESPACE, *words)
        await self._patch(
            INTERCEPTOR, {"name": "interceptor", "image": self.interceptor, "lifecycle": hook}
        )
        await self._patch(SCALER, {"name": "scaler", "image": self.scaler})
        await self.rolled_out()

    async def _patch(self, name: str, container: Object) -> None:
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await self.cluster.kubectl(
            *("-n", NAMESPACE, "patch", f"deployment/{name}", "-p", json.dumps(patch))
        )

    async def let_read_workloads(self) -> None:
        """Give the interceptor the role that the how-to guide adds, and restart it."""
        await self.cluster.kubectl("apply", "-f", str(ROOT / "manifests/keda-http/workloads.yaml"))
        restart = ("rollout", "restart", f"deployment/{INTERCEPTOR}")
        await self.cluster.kubectl("-n", NAMESPACE, *restart)
        await self.rolled_out()

    async def upgrade(self) -> None:
        """Change all objects to those of the add-on 0.15, whose programs are not here."""
        await self.cluster.apply(INTERCEPTOR_ROUTES)
        for name, resources in ((INTERCEPTOR, ["configmaps", "services"]), (SCALER, [])):
            await self.cluster.apply(newer_role(name, resources))
        found = await self.cluster.get("deployment", INTERCEPTOR, NAMESPACE)
        assert found is not None
        pod = found["spec"]["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = 45
        (container,) = pod["containers"]
        container["env"] = [
            each
            for each in container["env"]
            if each["name"] in ("KEDA_HTTP_PROXY_PORT", "KEDA_HTTP_ADMIN_PORT", SCALER_URL)
        ]
        for probe in ("livenessProbe", "readinessProbe"):
            container[probe]["httpGet"]["port"] = "admin"
        await self.cluster.kubectl("replace", "-f", "-", stdin=json.dumps(found))
        restart = ("rollout", "restart", f"deployment/{SCALER}")
        await self.cluster.kubectl("-n", NAMESPACE, *restart)
        await self.rolled_out()

    async def add_interceptor(self, image: str) -> None:
        """Run one more Deployment of interceptors behind the same Services."""
        found = await self.cluster.get("deployment", INTERCEPTOR, NAMESPACE)
        assert found is not None
        spec = found["spec"]
        spec["template"]["spec"]["containers"][0]["image"] = image
        for labels in (spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]):
            labels["track"] = SECOND
        metadata = {"name": SECOND, "namespace": NAMESPACE}
        await self.cluster.apply({**found, "metadata": metadata, "status": None})

    # Requests
    async def second_interceptor(self) -> str:
        """Wait until `add_interceptor` has made a ready pod, and return its address."""
        rollout = ("rollout", "status", f"deployment/{SECOND}", "--timeout=90s")
        await self.cluster.kubectl("-n", NAMESPACE, *rollout)
        (pod,) = await self.cluster.find("pod", NAMESPACE, f"track={SECOND}")
        ip: str = pod["status"]["podIP"]

        async def listed() -> bool:
            return ip in await self.interceptors()

        await self.cluster.until(listed, "the Services list the second interceptor")
        return ip

    async def remove_second(self) -> None:
        """Remove what `add_interceptor` has made, and wait for its end."""
        words = ("delete", "deployment", SECOND, "--ignore-not-found")
        await self.cluster.kubectl("-n", NAMESPACE, *words)
        await self.one_interceptor()

    async def one_interceptor(self) -> None:
        """Wait until the Services list one interceptor."""

        async def found() -> bool:
            return len(await self.interceptors()) == 1

        await self.cluster.until(found, "one interceptor is left")

    # Requests

    async def ask(
        self,
        host: str,
        target: str = "/",
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        ip: str = "",
    ) -> ClientResponse:
        """Send a request for a host to the interceptors' Service, or to one of them."""
        ip = ip or await self.address()
        return await fetch(ip, PROXY_PORT, target, method, {"Host": host, **(headers or {})}, body)

    async def address(self) -> str:
        """Return the address of the proxies' Service."""
        return await self.cluster.address(f"{INTERCEPTOR}-proxy", NAMESPACE)

    async def load(
        self, host: str, rate: float, target: str = "/", posts: int = 2
    ) -> SteadyTraffic:
        """Return traffic as `Cluster.load` does."""
        ip = await self.address()
        return await self.cluster.load(ip, host, rate, target, PROXY_PORT, posts)

    async def interceptors(self) -> list[str]:
        """Return the addresses of the interceptors that are ready."""
        return await self.cluster.endpoints(f"{INTERCEPTOR}-admin", NAMESPACE)

    async def queue(self, ip: str) -> dict[str, dict[str, float]]:
        """Return what an interceptor responds to the scaler."""
        async with httpx.AsyncClient() as client:
            response = await client.get(f"http://{ip}:{ADMIN_PORT}/queue")
        found: dict[str, dict[str, float]] = response.raise_for_status().json()
        return found

    # Applications

    async def deploy(
        self,
        route: Object,
        *,
        scaling: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Make a workload with its Service, a route object and a ScaledObject.

        It returns when KEDA has read the ScaledObject, and the interceptor the route object.

        Arguments:
            scaling: fields of the ScaledObject that differ from the add-on's.
            options: of `application`.
        """
        namespace, name = route["metadata"]["namespace"], route["metadata"]["name"]
        await self.cluster.apply(
            *application(namespace, name, **options),
            route,
            scaled_object(route, **(scaling or {})),
        )
        await self.ready(namespace, name)

    async def ready(self, namespace: str, name: str) -> None:
        """Wait until KEDA and all interceptors know a route object."""
        words = ("wait", f"scaledobject/{name}", "--for=condition=Ready", "--timeout=60s")
        await self.cluster.kubectl("-n", namespace, *words)
        await self.known(namespace, name)

    async def known(self, namespace: str, name: str, *, is_known: bool = True) -> None:
        """Wait until all interceptors know a route object, or none does."""

        async def found() -> bool:
            queues = [await self.queue(ip) for ip in await self.interceptors()]
            return bool(queues) and all(
                (f"{namespace}/{name}" in each) is is_known for each in queues
            )

        await self.cluster.until(found, f"interceptors know {namespace}/{name}: {is_known}")

    async def has(self, namespace: str, name: str, replicas: int) -> None:
        """Wait until a Deployment shall have so many replicas."""

        async def found() -> bool:
            return await self.cluster.replicas(name, namespace) == replicas

        await self.cluster.until(found, f"{namespace}/{name} has {replicas} replicas")
