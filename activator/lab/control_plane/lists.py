"""Selects the objects, the version and the page of each list.

Source: "Resource versions" in the Kubernetes API concepts. Kubernetes' counterpart:
staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activator.lab.control_plane.resources import ApiPath
from activator.lab.control_plane.selectors import selector
from activator.lab.control_plane.status import (
    bad_request,
    invalid_options,
    page_expired,
    too_large,
    version_expired,
)
from activator.lab.control_plane.store import ObjectStore

Object = dict[str, Any]

_MATCHES = ("Exact", "NotOlderThan")


def listed(store: ObjectStore, place: ApiPath, query: Mapping[str, str]) -> Object:
    """Return the list that a request asks for.

    Raises:
        ApiError: the query contradicts itself, or the version is compacted or does not exist yet.
    """
    wanted = place.resource, place.namespace, selector(query)
    start, version = _continued(query.get("continue", ""), store.version)
    exact = _exact_version(query, store.version)
    if exact:
        version = exact
    if version < store.oldest:
        raise page_expired() if start else version_expired()
    found = store.as_of(version, *wanted) if exact or start else store.select(*wanted)
    # The server's cache has no pages.
    limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit") or 0)
    end = start + (limit or len(found) or 1)
    metadata: Object = {"resourceVersion": str(version)}
    if place.resource.is_custom:
        metadata["continue"] = ""
    if end < len(found):
        metadata["continue"] = f"{version}:{end}"
        if not (query.get("labelSelector") or query.get("fieldSelector")):
            metadata["remainingItemCount"] = len(found) - end
    resource = place.resource
    left_out = () if resource.is_custom else ("kind", "apiVersion")
    items = [
        {key: value for key, value in each.items() if key not in left_out}
        for each in found[start:end]
    ]
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
    return {**head, "metadata": metadata, "items": items}


def _exact_version(query: Mapping[str, str], current: int) -> int:
    """Return the version that a list must have exactly; 0 if a newer one will do."""
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match and not version:
        raise invalid_options(
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match not in ("", *_MATCHES):
        known = ", ".join(f'"{each}"' for each in (*_MATCHES, ""))
        raise invalid_options(f'Unsupported value: "{match}": supported values: {known}')
    if match == "Exact" and version == "0":
        raise invalid_options(
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
    if version and not version.isdigit():
        raise bad_request(f"invalid resource version: {unparsed(version)}")
    if version and int(version) > current:
        raise too_large(int(version), current)
    if match == "Exact" or ("limit" in query and "continue" not in query and not match):
        return int(version or 0)
    return 0


def unparsed(version: str) -> str:
    """Return why a text is no version."""
    why = f'strconv.ParseUint: parsing "{version}": invalid syntax'
    return f'resourceVersion: Invalid value: "{version}": {why}'


def _continued(token: str, current: int) -> tuple[int, int]:
    """Return where a page begins, and the version of its list."""
    if not token:
        return 0, current
    version, _, start = token.partition(":")
    if not (version.isdigit() and start.isdigit()):
        raise bad_request("invalid continue token: continue key is not valid: no numbers")
    return int(start), int(version)
