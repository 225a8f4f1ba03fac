"""Lists the kinds that configure the activator itself: ConfigMaps and Secrets.

They count with every dialect. Must not know where objects come from, nor which are in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from activator.discovery.aggregate import TrustBundles
from activator.discovery.dialect import Dialect, Kind, Scope
from activator.discovery.sink import Sink, SystemSink
from activator.knative.system_objects import ConfigMap, Secret, parse_config_map, parse_secret
from activator.objects.fields import ObjectKey
from activator.records.source_status import ObjectWarning


class SystemState:
    """The configuration of the activator (discovery.dialect.State).

    Arguments:
        sink: takes ConfigMaps, Secrets and trust bundles.
    """

    def __init__(self, sink: SystemSink) -> None:
        self.sink = sink
        self.trust_bundles = TrustBundles(sink)

    def publish_next(self) -> bool:
        """Pass on all bundles if one has changed, and return whether one had."""
        return self.trust_bundles.publish_next()

    def warnings(self) -> Iterable[ObjectWarning]:
        """Return no warnings: each object counts alone."""
        return ()

    def settled(self, unread: Collection[str]) -> None:
        """Do nothing: each object counts alone."""


def _in_scope(key: ObjectKey, scope: Scope) -> bool:
    return scope.system_namespace in (None, key.namespace)


def _parse_config_map(key: ObjectKey, obj: object, scope: Scope) -> ConfigMap | None:
    return parse_config_map(obj) if _in_scope(key, scope) else None


def _put_config_map(
    state: SystemState, key: ObjectKey, old: ConfigMap | None, new: ConfigMap | None
) -> None:
    if old is None and new is None:
        return
    before, now = old or ConfigMap({}), new or ConfigMap({})
    if before.data != now.data or old is None or new is None:
        state.sink.set_config_map(key.name, now.data)
    state.trust_bundles.put(key, now)


def _parse_secret(key: ObjectKey, obj: object, scope: Scope) -> Secret | None:
    return parse_secret(obj) if _in_scope(key, scope) else None


def _put_secret(state: SystemState, key: ObjectKey, old: Secret | None, new: Secret | None) -> None:
    if old is not None or new is not None:
        state.sink.set_secret(key.name, new.data if new is not None else {})


def _make_state(sink: Sink, system: SystemSink, scope: Scope) -> SystemState:
    return SystemState(system)


SYSTEM: Final = Dialect(
    "system",
    "",
    None,
    "",
    {
        "ConfigMap": Kind("", _parse_config_map, _put_config_map),
        "Secret": Kind("", _parse_secret, _put_secret),
    },
    _make_state,
)
