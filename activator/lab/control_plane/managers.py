"""Records which client set the number of replicas, in ``metadata.managedFields``.

Only this field is recorded. A write of the object leaves an entry. A write of the ``scale``
subresource removes it, and leaves none.
"""

from __future__ import annotations

from typing import Any

from activator.lab.control_plane.resources import Resource

Object = dict[str, Any]

_REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


def record(resource: Resource, new: Object, old: Object | None, manager: str, time: str) -> None:
    """Add the entry of a write of the object, if it changed the number of replicas.

    Arguments:
        manager: the writer: the query's ``fieldManager``, or the start of the user agent.
        time: of the write, as in objects.
    """
    if not resource.scalable:
        return
    before = old["spec"].get("replicas") if old else None
    entries = (old or {}).get("metadata", {}).get("managedFields", [])
    if new["spec"].get("replicas") != before:
        entry = {
            "manager": manager,
            "operation": "Update",
            "apiVersion": resource.api_version,
            "time": time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _REPLICAS,
        }
        entries = [entry]
    _set(new, entries)


def scaled(new: Object) -> None:
    """Remove the entry: the ``scale`` subresource was written."""
    _set(new, [])


def _set(new: Object, entries: list[Object]) -> None:
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)
