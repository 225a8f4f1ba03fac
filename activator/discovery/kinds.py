"""Lists all dialects: the kinds of objects of Knative, of plain Services, and of the system."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from activator.discovery import endpoints, object_warnings
from activator.discovery.aggregate import Aggregates, TrustBundles
from activator.discovery.dialect import Dialect, Kind, Scope
from activator.discovery.endpoints import Family, PrivateEndpoints, PublicEndpoints
from activator.discovery.source import Sink, SystemSink
from activator.knative import revisions
from activator.knative.system_objects import ConfigMap, Secret, parse_config_map, parse_secret
from activator.knative.words import (
    REVISION_LABEL,
    SERVICE_TYPE_LABEL,
    SERVING_GROUP,
    names_private_service,
)
from activator.objects import policies
from activator.objects.fields import ManifestError, ObjectKey, root
from activator.plain import allotments, service, slices, workloads
from activator.plain.allotments import Allotment
from activator.plain.annotations import ENABLED, KNOWN
from activator.plain.service import PlainService, Selecting
from activator.plain.slices import Slice
from activator.plain.state import Services
from activator.plain.workloads import Workload
from activator.records.source_status import ObjectWarning
from throttler.model import AppProtocol, Revision, RevisionKind

# -- revisions ----------------------------------------------------------------------------------


# Lists the kinds of Knative's dialect: Revisions, and the objects that list their pods.
#
# A further kind needs a further row. Must not know where objects come from, nor which are in
# force.


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


def _parse_private_service_of(key: ObjectKey, obj: object, scope: Scope) -> _Addresses | None:
    return endpoints.parse_private_service(obj) if names_private_service(key.name) else None


def _put_private_service(
    state: Aggregates, key: ObjectKey, old: _Addresses | None, new: _Addresses | None
) -> None:
    state.services.put(key, new or {})


# -- Endpoints and EndpointSlices ---------------------------------------------------------------

_Listed = PrivateEndpoints | PublicEndpoints


def _parse_endpoints(key: ObjectKey, obj: object, scope: Scope) -> _Listed | None:
    return endpoints.parse(obj)


def _parse_knative_slice(key: ObjectKey, obj: object, scope: Scope) -> _Listed | None:
    return endpoints.parse_slice(obj)


def _put_endpoints(
    state: Aggregates, key: ObjectKey, old: _Listed | None, new: _Listed | None
) -> None:
    state.endpoints.remove(key, old)
    state.endpoints.put(key, new)


def _make_aggregates(sink: Sink, system: SystemSink, scope: Scope) -> Aggregates:
    return Aggregates(sink, scope.endpoints, scope.family)


KNATIVE: Final = Dialect(
    "knative",
    "Revision",
    RevisionKind.REVISION,
    REVISION_LABEL,
    {
        "Revision": Kind(
            SERVING_GROUP, _parse_revision, _put_revision, object_warnings.of_revision
        ),
        "Service": Kind("", _parse_private_service_of, _put_private_service),
        "Endpoints": Kind("", _parse_endpoints, _put_endpoints, object_warnings.of_endpoints),
        "EndpointSlice": Kind(
            "discovery.k8s.io", _parse_knative_slice, _put_endpoints, object_warnings.of_slice
        ),
    },
    _make_aggregates,
)


# Lists the kinds of the services dialect: annotated Services, their slices and workloads.
#
# A further kind needs a further row. Must not know where objects come from, nor which are in
# force.


class ServicesState:
    """The annotated Services with their pods (discovery.dialect.State)."""

    def __init__(self, services: Services) -> None:
        self.services = services

    def publish_next(self) -> bool:
        """Pass on one changed Service, and return whether there was one."""
        return self.services.publish_next()

    def warnings(self) -> Iterable[ObjectWarning]:
        """Return the problems of all Services."""
        for id_, problem in self.services.problems():
            yield ObjectWarning(
                "Service", *id_[:2], id_.name, problem.text, problem.reason.value, id_.kind
            )

    def settled(self, unread: Collection[str]) -> None:
        """Log problems from now on: an object that is missing is not only late."""
        self.services.settled(reads_workloads=set(workloads.KINDS).isdisjoint(unread))


class _Read(NamedTuple):
    """A Service that opts in, or None; and its selector and ports, for Services of route ``front``.

    It is true if the Service opts in: only that is a state that an error keeps.
    """

    service: PlainService | None
    selecting: Selecting | None

    def __bool__(self) -> bool:
        return self.service is not None


_GONE: Final = _Read(None, None)


def _parse_service(key: ObjectKey, obj: object, scope: Scope) -> _Read:
    selecting = service.parse_pods_service(obj)
    try:
        return _Read(service.parse(obj), selecting)
    except ManifestError as error:
        if error.instead is not None:
            error.instead = _Read(error.instead, selecting)
        raise


def _warn_service(obj: object, parsed: _Read | None, scope: Scope) -> str:
    """Return that a Service does not opt in, if it is from a folder, or seems to be meant to."""
    if parsed:
        return ""
    found = root(obj, "Service")
    metadata, spec = found["metadata"], found["spec"]
    odd = policies.unknown(metadata["annotations"], KNOWN)
    meant = ", ".join(name for name, near in odd.items() if near == ENABLED)
    if not (scope.folder or meant):
        return ""
    of_knative = metadata["labels"].at(SERVICE_TYPE_LABEL).value is not None
    says_no = metadata["annotations"].at(ENABLED).value is not None
    if of_knative or says_no or not spec["selector"].mapping():
        return ""
    hint = f", only {meant}" if meant else ""
    return f'not used, since it has no annotation {ENABLED}: "true"{hint}'


def _put_service(
    state: ServicesState, key: ObjectKey, old: _Read | None, new: _Read | None
) -> None:
    state.services.put_service(key, *(new if new is not None else _GONE))


def _parse_slice(key: ObjectKey, obj: object, scope: Scope) -> Slice | Allotment | None:
    return allotments.parse(obj) or slices.parse(obj)


def _put_slice(
    state: ServicesState,
    key: ObjectKey,
    old: Slice | Allotment | None,
    new: Slice | Allotment | None,
) -> None:
    state.services.put_slice(key, old, new)


def _parse_workload(key: ObjectKey, obj: object, scope: Scope) -> Workload:
    return workloads.parse(obj, key.kind)


def _put_workload(
    state: ServicesState, key: ObjectKey, old: Workload | None, new: Workload | None
) -> None:
    state.services.put_workload(key, new)


def _make_state(sink: Sink, system: SystemSink, scope: Scope) -> ServicesState:
    ipv6 = scope.family is Family.IPV6
    domain, peers = scope.cluster_domain, scope.activators
    services = Services(sink, ipv6=ipv6, cluster_domain=domain, own=scope.own, activators=peers)
    return ServicesState(services)


SERVICES: Final = Dialect(
    "services",
    "Service",
    RevisionKind.SERVICE,
    slices.SERVICE_LABEL,
    {
        "Service": Kind("", _parse_service, _put_service, _warn_service),
        "EndpointSlice": Kind("discovery.k8s.io", _parse_slice, _put_slice),
        **{kind: Kind("apps", _parse_workload, _put_workload) for kind in workloads.KINDS},
    },
    _make_state,
)


# Lists the kinds that configure the activator itself: ConfigMaps and Secrets.
#
# They count with every dialect. Must not know where objects come from, nor which are in force.


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


def _make_system_state(sink: Sink, system: SystemSink, scope: Scope) -> SystemState:
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
    _make_system_state,
)


# Lists all dialects, and the API group of each kind of objects that one of them reads.
#
# Must not know where objects come from, nor which are in force.

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
