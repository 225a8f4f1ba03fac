"""The words of the API: kinds of objects, paths, discovery, error responses, and rights."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from activator.lab import http1


class ApiKind(NamedTuple):
    """One kind of objects.

    Attributes:
        scalable: whether it has a ``scale`` subresource.
        has_generation: whether the server counts changes of ``spec``.
        needs_version: whether PUT without ``resourceVersion`` is refused.
        put_creates: whether PUT creates an object that does not exist.
        returns_deleted: whether DELETE returns the object; otherwise it returns a Status.
        is_custom: whether a CustomResourceDefinition has added it.
        short: the short name of ``kubectl``; empty for none.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    scalable: bool = False
    has_generation: bool = False
    needs_version: bool = False
    put_creates: bool = False
    returns_deleted: bool = False
    is_custom: bool = False
    short: str = ""

    @property
    def qualified(self) -> str:
        """The name in error texts: the plural, with the group if there is one."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """Group and version as objects have them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the group's version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


SERVICES: Final = ApiKind(
    "", "v1", "services", "Service", put_creates=True, returns_deleted=True, short="svc"
)
PODS: Final = ApiKind(
    "", "v1", "pods", "Pod", has_generation=True, returns_deleted=True, short="po"
)
NODES: Final = ApiKind("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = ApiKind("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS: Final = ApiKind("", "v1", "configmaps", "ConfigMap", short="cm")
SECRETS: Final = ApiKind("", "v1", "secrets", "Secret")
ENDPOINTS: Final = ApiKind("", "v1", "endpoints", "Endpoints", put_creates=True)
SLICES: Final = ApiKind(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", has_generation=True
)
DEPLOYMENTS: Final = ApiKind(
    "apps", "v1", "deployments", "Deployment", scalable=True, has_generation=True, short="deploy"
)
STATEFUL_SETS: Final = ApiKind(
    "apps", "v1", "statefulsets", "StatefulSet", scalable=True, has_generation=True, short="sts"
)
REPLICA_SETS: Final = ApiKind(
    "apps", "v1", "replicasets", "ReplicaSet", scalable=True, has_generation=True
)
LEASES: Final = ApiKind(
    "coordination.k8s.io", "v1", "leases", "Lease", needs_version=True, put_creates=True
)
EVENTS: Final = ApiKind("events.k8s.io", "v1", "events", "Event", put_creates=True)
AUTOSCALERS: Final = ApiKind(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", short="hpa"
)
ACCESS_REVIEWS: Final = ApiKind(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)

BUILT_IN: Final = (
    *(SERVICES, PODS, NODES, NAMESPACES, CONFIG_MAPS, SECRETS, ENDPOINTS),
    *(SLICES, DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS),
    *(LEASES, EVENTS, AUTOSCALERS, ACCESS_REVIEWS),
)

#: KEDA's custom resource, for control planes of clusters with KEDA.
SCALED_OBJECTS: Final = ApiKind(
    "keda.sh", "v1alpha1", "scaledobjects", "ScaledObject", has_generation=True, is_custom=True
)
#: Knative's custom resource, for control planes of clusters with Knative Serving.
REVISIONS: Final = ApiKind(
    "serving.knative.dev", "v1", "revisions", "Revision", has_generation=True, is_custom=True
)


class ApiPath(NamedTuple):
    """Where a path leads.

    Attributes:
        namespace: empty for all namespaces.
        name: empty for a list.
        subresource: empty for the object itself.
    """

    resource: ApiKind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class ApiKinds:
    """All kinds of objects of one control plane."""

    def __init__(self, resources: Iterable[ApiKind]) -> None:
        self._by_root: dict[str, dict[str, ApiKind]] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: ApiKind) -> None:
        """Serve one more kind, as after the creation of a CustomResourceDefinition."""
        self._by_root.setdefault(resource.root, {})[resource.plural] = resource

    def remove(self, resource: ApiKind) -> None:
        """Serve a kind no longer."""
        known = self._by_root[resource.root]
        del known[resource.plural]
        if not known:
            del self._by_root[resource.root]

    def __iter__(self) -> Iterator[ApiKind]:
        return (each for known in self._by_root.values() for each in known.values())

    def of_root(self, root: str) -> list[ApiKind]:
        """Return the kinds of one group's version; empty if the server does not have it."""
        return list(self._by_root.get(root, {}).values())

    def find(self, path: str) -> ApiPath | None:
        """Return where a path leads; None for a path that the server does not have."""
        parts = path.strip("/").split("/")
        cut = 2 if parts[0] == "api" else 3
        known = self._by_root.get("/" + "/".join(parts[:cut]), {})
        rest, namespace = parts[cut:], ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = known.get(rest[0]) if rest else None
        if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
            return None
        name, subresource = [*rest[1:], "", ""][:2]
        return ApiPath(resource, namespace, name, subresource)


# The documents by which clients discover the API: groups, versions and resources.
#
# Kubernetes' counterpart: staging/src/k8s.io/apiserver/pkg/endpoints/discovery.

Object = dict[str, Any]

GIT_VERSION: Final = "v1.36.2"
_VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]


def document(catalogue: ApiKinds, path: str) -> Object | None:
    """Return the discovery document of a path; None if there is none."""
    path = path.rstrip("/")
    if path == "/version":
        return {"major": "1", "minor": "36", "gitVersion": GIT_VERSION, "platform": "linux/amd64"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    groups = {f"/apis/{each.group}": _group(each) for each in catalogue if each.group}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())}
    if path in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **groups[path]}
    known = catalogue.of_root(path)
    if not known:
        return None
    resources = [entry for each in known for entry in _entries(each)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": known[0].api_version,
        "resources": resources,
    }


def _group(resource: ApiKind) -> Object:
    version = {"groupVersion": resource.api_version, "version": resource.version}
    return {"name": resource.group, "versions": [version], "preferredVersion": version}


def _entries(resource: ApiKind) -> list[Object]:
    own = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
        **({"shortNames": [resource.short]} if resource.short else {}),
    }
    if not resource.scalable:
        return [own]
    scale = {
        "name": f"{resource.plural}/scale",
        "singularName": "",
        "namespaced": resource.namespaced,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    return [own, scale]


class ApiError(Exception):
    """A request failed. The text is the message of the Status object.

    Attributes:
        code: the HTTP status.
        reason: the word for programs; empty for an internal error without a word.
        details: the object of the request, as the Status has it; None for no details.
    """

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = None if details is None else dict(details)

    def status(self) -> dict[str, Any]:
        """Return the Status object."""
        found = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }
        return {name: value for name, value in found.items() if value not in ("", None)}

    def response(self) -> http1.HttpResponse:
        """Return the response with the Status object."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        headers = (("Retry-After", str(seconds)),) if seconds else ()
        body = json.dumps(self.status()).encode()
        return http1.HttpResponse(self.code, body, http1.JSON, headers)


class PageNotFound(ApiError):
    """The API server has no such path; the body is plain text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")

    def response(self) -> http1.HttpResponse:
        """Return the response, whose body is plain text."""
        return http1.text(404, f"{self}\n")


def details_of(resource: ApiKind, name: str) -> dict[str, Any]:
    """Return the details of a Status about an object."""
    found = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in found.items() if value}


def not_found(resource: ApiKind, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    text = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", text, details_of(resource, name))


def already_exists(resource: ApiKind, name: str) -> ApiError:
    """Return the error for the creation of an object that exists."""
    text = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, details_of(resource, name))


def conflict(resource: ApiKind, name: str, why: str = "", kind: str = "") -> ApiError:
    """Return the error for a write with another version, or with another uid.

    Arguments:
        kind: the word for the kind; the plural unless given.
    """
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    named = resource._replace(plural=kind or resource.plural)
    text = f'Operation cannot be fulfilled on {named.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", text, details_of(named, name))


#: The words of causes for programs, by the words for people.
_CAUSES: Final = {
    "Invalid value": "FieldValueInvalid",
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Too many": "FieldValueTooMany",
}


def invalid_named(kind: str, group: str, name: str, causes: list[str]) -> ApiError:
    """Return the error for an object with wrong fields.

    Arguments:
        causes: one text for each wrong field: path, kind of the error, details.
    """
    named = ApiKind(group, "", plural=kind, kind=kind)
    why = causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]"
    listed = []
    for field, text in (each.split(": ", 1) for each in causes):
        reason = _CAUSES[text.partition(":")[0]]
        listed.append({"reason": reason, "message": text, "field": field})
    details = {**details_of(named, name), "causes": listed}
    return ApiError(422, "Invalid", f'{named.qualified} "{name}" is invalid: {why}', details)


def invalid_options(cause: str) -> ApiError:
    """Return the error for a list or watch with a wrong ``resourceVersionMatch``."""
    return invalid_named("ListOptions", "meta.k8s.io", "", [f"resourceVersionMatch: {cause}"])


def bad_request(why: str) -> ApiError:
    """Return the error for a request that contradicts itself."""
    return ApiError(400, "BadRequest", why)


def unknown_format(accepted: str) -> ApiError:
    """Return the error for an object of another media type than the accepted one."""
    text = "the body of the request was in an unknown format - accepted media types include: "
    return ApiError(415, "UnsupportedMediaType", f"{text}{accepted}")


def unsupported() -> ApiError:
    """Return the error for a patch of an unknown media type."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def no_resource() -> ApiError:
    """Return the error for a subresource that the kind does not have."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def internal(why: str) -> ApiError:
    """Return an internal error, which has no reason."""
    return ApiError(500, "", why)


def expired(version: int, oldest: int) -> ApiError:
    """Return the error for a watch from a version that the server has compacted."""
    return ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")


def version_expired() -> ApiError:
    """Return the error for a list of a version that the server has compacted."""
    return ApiError(410, "Expired", "The resourceVersion for the provided list is too old.")


def page_expired() -> ApiError:
    """Return the error for a page of a list whose version the server has compacted."""
    text = "The provided continue parameter is too old to display a consistent list result."
    return ApiError(410, "Expired", f"{text} Begin again.")


def too_large(version: int, current: int) -> ApiError:
    """Return the error for a list of a version that the server does not have yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    text = f"Timeout: Too large resource version: {version}, current: {current}"
    return ApiError(504, "Timeout", text, {"causes": causes, "retryAfterSeconds": 1})


class Right(NamedTuple):
    """A right as RBAC has it; the resource contains the subresource, as in ``pods/log``."""

    verb: str
    group: str
    resource: str
