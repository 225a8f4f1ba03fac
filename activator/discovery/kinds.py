"""The kinds that configure the activator itself, and the table of all dialects.

ConfigMaps and Secrets count with every dialect. Must not know where objects come from, nor which
are in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from activator.discovery.dialect import Dialect, ObjectKind, Scope
from activator.discovery.keda_kinds import KedaDialect
from activator.discovery.knative_kinds import KnativeDialect
from activator.discovery.service_kinds import ServicesDialect
from activator.discovery.source import Sink
from activator.knative.system_objects import (
    ConfigMap,
    Secret,
    SystemObjects,
    parse_config_map,
    parse_secret,
)
from activator.objects.fields import ObjectKey


class SystemDialect(Dialect):
    """The configuration of the activator.

    Arguments:
        system: takes ConfigMaps, Secrets, and the certificates of all trust bundles together.
    """

    name = "system"

    def __init__(self, sink: Sink, system: SystemObjects, scope: Scope) -> None:
        super().__init__(sink, system, scope)
        self._bundles: dict[ObjectKey, ConfigMap] = {}
        self._changed = False

    def publish_next(self) -> bool:
        if not self._changed:
            return False
        bundles = [self._bundles[key].data for key in sorted(self._bundles)]
        self._system.set_trust_bundles(tuple(pem for data in bundles for pem in data.values()))
        self._changed = False
        return True

    def put_config_map(self, key: ObjectKey, old: ConfigMap | None, new: ConfigMap | None) -> None:
        """Pass on a ConfigMap; None has no data. One that is no trust bundle adds none."""
        if old is None and new is None:
            return
        before, now = old or ConfigMap({}), new or ConfigMap({})
        if before.data != now.data or old is None or new is None:
            self._system.set_config_map(key.name, now.data)
        known = self._bundles.pop(key, None)
        if now.is_trust_bundle:
            self._bundles[key] = now
        self._changed |= known is not None or now.is_trust_bundle

    def put_secret(self, key: ObjectKey, old: Secret | None, new: Secret | None) -> None:
        """Pass on a Secret; None has no data."""
        if old is not None or new is not None:
            self._system.set_secret(key.name, new.data if new is not None else {})

    kinds: ClassVar[Mapping[str, ObjectKind[Any]]] = {
        "ConfigMap": ObjectKind(
            "",
            lambda key, obj, scope: parse_config_map(obj) if _in_scope(key, scope) else None,
            put_config_map,
        ),
        "Secret": ObjectKind(
            "",
            lambda key, obj, scope: parse_secret(obj) if _in_scope(key, scope) else None,
            put_secret,
        ),
    }


def _in_scope(key: ObjectKey, scope: Scope) -> bool:
    return scope.system_namespace in (None, key.namespace)


_ALL: Final[tuple[type[Dialect], ...]] = (
    KnativeDialect,
    ServicesDialect,
    KedaDialect,
    SystemDialect,
)
#: The dialects that the setting ``dialect`` may name.
DIALECTS: Final[Mapping[str, type[Dialect]]] = {each.name: each for each in _ALL if each.main}
#: The API group of each kind; empty for the core group. Dialects with one kind agree on its group.
GROUPS: Final[Mapping[str, str]] = {
    kind: row.group for dialect in _ALL for kind, row in dialect.kinds.items()
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
