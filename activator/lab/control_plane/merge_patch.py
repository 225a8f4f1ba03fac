"""JSON merge patch (RFC 7396)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any


def merge(target: Any, patch: Any) -> Any:
    """Return the target with a patch applied; neither is changed. Null removes a field."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    merged = deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged
