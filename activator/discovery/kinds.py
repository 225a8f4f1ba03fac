"""Lists the kinds of objects in a table: the parser of each, and the function that applies it.

A further kind needs a further row. Must not know where objects come from, nor which are in force.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from activator.discovery import endpoint_slices, endpoints, object_warnings, services
from activator.discovery.aggregate import Aggregates
from activator.discovery.destinations import (
    EndpointsSource,
    Family,
    PrivateEndpoints,
    PublicEndpoints,
)
from activator.knative import revisions
from activator.knative.labels import SERVING_GROUP
from activator.knative.names import names_private_service
from activator.knative.system_objects import ConfigMap, Secret, parse_config_map, parse_secret
from activator.objects.fields import ObjectKey
from throttler.model import AppProtocol, Revision

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects count, and how to read them.

    Attributes:
        system_namespace: the namespace whose ConfigMaps and Secrets count; None for all namespaces.
        endpoints: whether Endpoints or EndpointSlices list the pods.
        family: the family of this process, which counts if slices list both families.
        readiness_policy: the policy of Revisions without the annotation, see revisions.parse.
    """

    system_namespace: str | None = None
    endpoints: EndpointsSource = EndpointsSource.AUTO
    family: Family = Family.IPV4
    readiness_policy: str = "auto"


def _no_warning(obj: object, parsed: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One kind of objects.

    Attributes:
        group: its API group; empty for the core group. The kind alone is not enough: Knative has
            another kind ``Service``.
        parse: returns the value of an object; None if the object has no effect. Raises
            ``ManifestError``.
        put: replaces an object's value in the state. None stands for no object, or no effect.
        warning: returns which part of an object has no effect; empty if each part has one.
    """

    group: str
    parse: Callable[[ObjectKey, object, Scope], T | None]
    put: Callable[[Aggregates, ObjectKey, T | None, T | None], None]
    warning: Callable[[object, T | None], str] = _no_warning


def kind_of(obj: object) -> str | None:
    """Return the kind of an object if it is in the table.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        A key of ``KINDS``; None for other objects. If ``apiVersion`` is missing, only the kind
        counts.
    """
    if not isinstance(obj, dict):
        return None
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or kind not in KINDS:
        return None
    if api_version is None:
        return kind
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else None
    return kind if group == KINDS[kind].group else None


# -- revisions ----------------------------------------------------------------------------------


def _parse_revision(key: ObjectKey, obj: object, scope: Scope) -> Revision:
    return revisions.parse(obj, scope.readiness_policy)


def _put_revision(
    state: Aggregates, key: ObjectKey, old: Revision | None, new: Revision | None
) -> None:
    if new is not None:
        state.sink.set_revision(new)
        state.services.add_revision(new.id)
    elif old is not None:
        state.services.remove_revision(old.id)
        state.sink.delete_revision(old.id)


# -- Services -----------------------------------------------------------------------------------

_Addresses = Mapping[AppProtocol, str]


def _parse_service(key: ObjectKey, obj: object, scope: Scope) -> _Addresses | None:
    return services.parse(obj) if names_private_service(key.name) else None


def _put_service(
    state: Aggregates, key: ObjectKey, old: _Addresses | None, new: _Addresses | None
) -> None:
    state.services.put(key, new or {})


# -- Endpoints and EndpointSlices ---------------------------------------------------------------

_Listed = PrivateEndpoints | PublicEndpoints


def _parse_endpoints(key: ObjectKey, obj: object, scope: Scope) -> _Listed | None:
    return endpoints.parse(obj)


def _parse_slice(key: ObjectKey, obj: object, scope: Scope) -> _Listed | None:
    return endpoint_slices.parse(obj)


def _put_endpoints(
    state: Aggregates, key: ObjectKey, old: _Listed | None, new: _Listed | None
) -> None:
    state.endpoints.remove(key, old)
    state.endpoints.put(key, new)


# -- ConfigMaps and Secrets ---------------------------------------------------------------------


def _in_scope(key: ObjectKey, scope: Scope) -> bool:
    return scope.system_namespace in (None, key.namespace)


def _parse_config_map(key: ObjectKey, obj: object, scope: Scope) -> ConfigMap | None:
    return parse_config_map(obj) if _in_scope(key, scope) else None


def _put_config_map(
    state: Aggregates, key: ObjectKey, old: ConfigMap | None, new: ConfigMap | None
) -> None:
    if old is None and new is None:
        return
    before, now = old or ConfigMap({}), new or ConfigMap({})
    if before.data != now.data or old is None or new is None:
        state.system.set_config_map(key.name, now.data)
    state.trust_bundles.put(key, now)


def _parse_secret(key: ObjectKey, obj: object, scope: Scope) -> Secret | None:
    return parse_secret(obj) if _in_scope(key, scope) else None


def _put_secret(state: Aggregates, key: ObjectKey, old: Secret | None, new: Secret | None) -> None:
    if old is not None or new is not None:
        state.system.set_secret(key.name, new.data if new is not None else {})


#: All kinds. The types within a row agree, which the type of the table cannot express.
KINDS: Final[Mapping[str, Kind[Any]]] = {
    "Revision": Kind(SERVING_GROUP, _parse_revision, _put_revision, object_warnings.of_revision),
    "Service": Kind("", _parse_service, _put_service),
    "Endpoints": Kind("", _parse_endpoints, _put_endpoints, object_warnings.of_endpoints),
    "EndpointSlice": Kind(
        "discovery.k8s.io", _parse_slice, _put_endpoints, object_warnings.of_slice
    ),
    "ConfigMap": Kind("", _parse_config_map, _put_config_map),
    "Secret": Kind("", _parse_secret, _put_secret),
}
