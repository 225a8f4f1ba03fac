"""The KEDA HTTP add-on in the cluster: its kinds, its objects, and what runs for its two images.

The add-on's interceptor and scaler are optional programs, as KEDA's. Its operator does not run:
`application` makes the ScaledObjects that it would make.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from activator.lab.client import ClientResponse, SteadyTraffic, fetch
from tests.cluster import keda
from tests.cluster.cluster import Cluster
from tests.cluster.objects import IMAGE, Object, deployment, plain_service

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
OURS: Final = "registry.example.com/activator:0.12.1"
#: Of a container of the original interceptor. It stops listening when it is told to end, before
#: nodes have stopped sending it requests. Ours needs no such hook.
PAUSE: Final = {"preStop": {"sleep": {"seconds": 3}}}
#: All programs that a test with the add-on needs.
PROGRAMS: Final = (
    *keda.IMAGES.values(),
    *(image.rpartition("/")[2].partition(":")[0] for image in ORIGINAL.values()),
)
SCALER_ADDRESS: Final = "keda-add-ons-http-external-scaler.keda:9090"
PROXY_PORT: Final = 8080
ADMIN_PORT: Final = 9090

# The CustomResourceDefinitions, with all that the API server checks and all defaults.

TEXT: Final[Object] = {"type": "string"}
NAME: Final[Object] = {"type": "string", "minLength": 1}
NUMBER: Final[Object] = {"type": "integer", "format": "int32"}
PORT: Final[Object] = {**NUMBER, "minimum": 1, "maximum": 65535}
TARGET_VALUE: Final[Object] = {**NUMBER, "minimum": 1}


def _structure(*required: str, **fields: Object) -> Object:
    """Return the schema of an object with these fields."""
    found: Object = {"type": "object", "properties": fields}
    return {**found, "required": list(required)} if required else found


def _array(item: Object, kind: str = "", key: str = "") -> Object:
    found: Object = {"type": "array", "items": item}
    if kind:
        found["x-kubernetes-list-type"] = kind
    if key:
        found["x-kubernetes-list-map-keys"] = [key]
    return found


def _checked(schema: Object, rule: str, message: str) -> Object:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, "message": message}]}


def _with_port(schema: Object) -> Object:
    return _checked(
        schema,
        "has(self.portName) != has(self.port)",
        "must define either the 'portName' or the 'port'",
    )


_HEADERS: Final = _array(_structure("name", name=NAME, value=TEXT), "map", "name")
_PERIODS: Final = {"window": {**TEXT, "default": "1m"}, "granularity": {**TEXT, "default": "1s"}}
_HUNDRED: Final = {"type": "integer", "default": 100}
_RESPONSE: Final = _checked(
    _structure(
        statusCode={**NUMBER, "minimum": 100, "maximum": 599},
        body={**TEXT, "maxLength": 32768},
        bodyFromConfigMap=_structure("name", name=NAME, key=TEXT),
        headers={"type": "object", "additionalProperties": TEXT},
    ),
    "!(has(self.body) && has(self.bodyFromConfigMap))",
    "at most one of 'body' or 'bodyFromConfigMap' may be set",
)
_RULES: Final = _array(
    _structure(
        hosts=_array(TEXT, "set"),
        paths=_array(_structure("value", value=NAME), "atomic"),
        headers=_HEADERS,
    ),
    "atomic",
)
_HTTP_SCALED_OBJECT: Final = _structure(
    "scaleTargetRef",
    hosts=_array(TEXT),
    pathPrefixes=_array(TEXT),
    headers=_HEADERS,
    scaleTargetRef=_with_port(
        _structure(
            *("service",),
            **dict.fromkeys(("apiVersion", "kind", "name", "service", "portName"), TEXT),
            port=NUMBER,
        )
    ),
    coldStartTimeoutFailoverRef=_with_port(
        _structure(
            *("service",),
            service=TEXT,
            port=NUMBER,
            portName=TEXT,
            timeoutSeconds={**NUMBER, "default": 30},
        )
    ),
    replicas=_structure(min=NUMBER, max=NUMBER),
    scaledownPeriod=NUMBER,
    initialCooldownPeriod=NUMBER,
    targetPendingRequests=NUMBER,
    scalingMetric=_structure(
        concurrency=_structure(targetValue=_HUNDRED),
        requestRate=_structure(targetValue=_HUNDRED, **_PERIODS),
    ),
    timeouts=_structure(conditionWait=TEXT, responseHeader=TEXT),
)
_INTERCEPTOR_ROUTE: Final = _structure(
    *("scalingMetric", "target"),
    target=_with_port(_structure("service", service=NAME, port=PORT, portName=NAME)),
    rules=_RULES,
    coldStart=_checked(
        _structure(
            fallback=_structure(
                "service",
                service=_with_port(_structure("name", name=NAME, port=PORT, portName=NAME)),
            ),
            placeholder=_structure("response", response=_RESPONSE),
            # The next two are in 0.16.
            maxPendingRequests={**NUMBER, "minimum": 1},
            overflow={**TEXT, "enum": ["Reject", "Placeholder"]},
        ),
        "has(self.fallback) || has(self.placeholder) || has(self.maxPendingRequests)",
        "at least one of the fields must be set",
    ),
    staticRoutes=_array(
        _structure(
            *("response", "rules"),
            rules={**_RULES, "minItems": 1},
            response=_RESPONSE,
            responseMode={
                **TEXT,
                "default": "WhenUnavailable",
                "enum": ["Always", "WhenUnavailable"],
            },
        ),
        "atomic",
    ),
    scalingMetric=_checked(
        _structure(
            concurrency=_structure("targetValue", targetValue=TARGET_VALUE),
            requestRate=_structure("targetValue", targetValue=TARGET_VALUE, **_PERIODS),
        ),
        "has(self.concurrency) || has(self.requestRate)",
        "at least one of 'concurrency' or 'requestRate' must be set",
    ),
    timeouts=_structure(readiness=TEXT, request=TEXT, responseHeader=TEXT),
)


def definition(kind: str, version: str, spec: Object) -> Object:
    """Return the CustomResourceDefinition of one of the add-on's kinds."""
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    plural = f"{kind.lower()}s"
    found = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _structure("spec", spec=spec, status=status)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.http.keda.sh"},
        "spec": {
            "group": "http.keda.sh",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [found],
        },
    }


HTTP_SCALED_OBJECTS: Final = definition("HTTPScaledObject", "v1alpha1", _HTTP_SCALED_OBJECT)
INTERCEPTOR_ROUTES: Final = definition("InterceptorRoute", "v1beta1", _INTERCEPTOR_ROUTE)


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


# Objects of an application.


def http_scaled_object(
    namespace: str, name: str, hosts: list[str] | None = None, **spec: Any
) -> Object:
    """Return an HTTPScaledObject whose Service and Deployment have its name."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "service": name}
    return {
        "apiVersion": "http.keda.sh/v1alpha1",
        "kind": "HTTPScaledObject",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "hosts": [f"{name}.{namespace}.example"] if hosts is None else hosts,
            "scaleTargetRef": {**reference, "port": 80},
            # Of the add-on it is half a second, which a busy machine exceeds.
            "timeouts": {"responseHeader": "30s"},
            **spec,
        },
    }


def interceptor_route(namespace: str, name: str, **spec: Any) -> Object:
    """Return an InterceptorRoute whose Service has its name."""
    return {
        "apiVersion": "http.keda.sh/v1beta1",
        "kind": "InterceptorRoute",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "target": {"service": name, "port": 80},
            "rules": [{"hosts": [f"{name}.{namespace}.example"]}],
            "scalingMetric": {"concurrency": {"targetValue": 100}},
            **spec,
        },
    }


def scaled_object(route: Object, **spec: Any) -> Object:
    """Return the ScaledObject for a route object.

    For an HTTPScaledObject it is the one that the add-on's operator makes.
    """
    metadata, given = route["metadata"], route["spec"]
    key = route["kind"][0].lower() + route["kind"][1:]
    key = {"hTTPScaledObject": "httpScaledObject"}.get(key, key)
    replicas = given.get("replicas", {})
    operators: Object = {
        "minReplicaCount": replicas.get("min"),
        "maxReplicaCount": replicas.get("max"),
        "cooldownPeriod": given.get("scaledownPeriod"),
        "initialCooldownPeriod": given.get("initialCooldownPeriod"),
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"namespace": metadata["namespace"], "name": metadata["name"]},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": metadata["name"],
            },
            "pollingInterval": 15,
            **{name: value for name, value in operators.items() if value is not None},
            "advanced": {"restoreToOriginalReplicaCount": True},
            "triggers": [
                {
                    "type": "external-push",
                    "metadata": {"scalerAddress": SCALER_ADDRESS, key: metadata["name"]},
                }
            ],
            **spec,
        },
    }


def application(
    namespace: str,
    name: str,
    replicas: int | None = 0,
    start_after: float = 0.0,
    port: Mapping[str, Any] | None = None,
    image: str = IMAGE,
) -> tuple[Object, Object]:
    """Return a Deployment and its Service. A pod is ready as soon as it listens."""
    workload = deployment(namespace, name, replicas=replicas, start_after=start_after, image=image)
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
            if each["name"] in ("KEDA_HTTP_PROXY_PORT", "KEDA_HTTP_ADMIN_PORT")
        ]
        for probe in ("livenessProbe", "readinessProbe"):
            container[probe]["httpGet"]["port"] = "admin"
        await self.cluster.kubectl("replace", "-f", "-", stdin=json.dumps(found))
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

    async def load(self, host: str, rate: float, target: str = "/") -> SteadyTraffic:
        """Return traffic as `Cluster.load` does."""
        return await self.cluster.load(await self.address(), host, rate, target, PROXY_PORT)

    async def interceptors(self) -> list[str]:
        """Return the addresses of the interceptors that are ready."""
        return await self.cluster.endpoints(f"{INTERCEPTOR}-admin", NAMESPACE)

    async def queue(self, ip: str) -> dict[str, dict[str, float]]:
        """Return what an interceptor responds to the scaler."""
        response = await fetch(ip, ADMIN_PORT, "/queue")
        assert response.status == 200, response
        found: dict[str, dict[str, float]] = json.loads(response.body)
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
