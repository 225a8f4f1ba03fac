"""Kinds and objects of the KEDA HTTP add-on, as tests need them."""

from __future__ import annotations

from typing import Any, Final

from tests.cluster.objects import Object

SCALER_ADDRESS: Final = "keda-add-ons-http-external-scaler.keda:9090"

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
