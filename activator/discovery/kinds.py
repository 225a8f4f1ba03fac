"""Lists all dialects, and the API group of each kind of objects that one of them reads.

Must not know where objects come from, nor which are in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from activator.discovery.dialect import Dialect
from activator.discovery.knative_kinds import KNATIVE
from activator.discovery.service_kinds import SERVICES
from activator.discovery.system_kinds import SYSTEM

#: All dialects by name, as the setting ``dialect`` has them.
DIALECTS: Final[Mapping[str, Dialect]] = {each.name: each for each in (KNATIVE, SERVICES)}

#: The API group of each kind; empty for the core group. Dialects with one kind agree on its group.
GROUPS: Final[Mapping[str, str]] = {
    kind: row.group
    for dialect in (*DIALECTS.values(), SYSTEM)
    for kind, row in dialect.kinds.items()
}


def kind_of(obj: object) -> str | None:
    """Return the kind of an object if a dialect reads it.

    The kind alone is not enough: Knative has another kind ``Service``.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        A key of ``GROUPS``; None for other objects. If ``apiVersion`` is missing, only the kind
        counts.
    """
    if not isinstance(obj, dict):
        return None
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or kind not in GROUPS:
        return None
    if api_version is None:
        return kind
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else None
    return kind if group == GROUPS[kind] else None
