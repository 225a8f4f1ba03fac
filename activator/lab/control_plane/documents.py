"""The documents by which clients discover the API: groups, versions and resources.

Kubernetes' counterpart: staging/src/k8s.io/apiserver/pkg/endpoints/discovery.
"""

from __future__ import annotations

from typing import Any, Final

from activator.lab.control_plane.resources import ApiKind, ApiKinds

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
    if path == "/apis":
        groups = {each.group: _group(each) for each in catalogue if each.group}
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())}
    for each in catalogue:
        if each.group and path == f"/apis/{each.group}":
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(each)}
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
