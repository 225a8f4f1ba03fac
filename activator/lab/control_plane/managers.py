"""Records which client set the number of replicas, in ``metadata.managedFields``.

Only this field is recorded, and only its last writer. A write of the ``scale`` subresource leaves
an entry with its name, unless the Scale lacks replicas, as one of 0 does.
"""

from __future__ import annotations

from typing import Any

from activator.lab.control_plane.resources import ApiKind

Object = dict[str, Any]

_REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


def record(resource: ApiKind, new: Object, old: Object | None, manager: str, time: str) -> None:
    """Add the entry of a write of the object, if it changed the number of replicas.

    Arguments:
        manager: the writer: the query's ``fieldManager``, or the start of the user agent.
        time: of the write, as in objects.
    """
    if not resource.scalable:
        return
    if new["spec"].get("replicas") == (old["spec"].get("replicas") if old else None):
        _keep(new, old)
        return
    _set(resource.api_version, new, manager, time)


def scaled(resource: ApiKind, new: Object, old: Object, manager: str, time: str) -> None:
    """Set the entry of a write of the ``scale`` subresource, as `record` does."""
    if new["spec"].get("replicas") == old["spec"].get("replicas"):
        _keep(new, old)
        return
    _keep(new, None)
    if resource.is_custom or not new["spec"]["replicas"]:
        return
    _set(resource.api_version, new, manager, time)
    new["metadata"]["managedFields"][0]["subresource"] = "scale"


def _set(api_version: str, new: Object, manager: str, time: str) -> None:
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _REPLICAS,
    }
    new["metadata"]["managedFields"] = [entry]


def _keep(new: Object, old: Object | None) -> None:
    new["metadata"].pop("managedFields", None)
    if old is not None and (entries := old["metadata"].get("managedFields")):
        new["metadata"]["managedFields"] = entries
