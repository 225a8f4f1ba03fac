"""Lists the kinds of the services dialect: annotated Services, their slices and workloads.

A further kind needs a further row. Must not know where objects come from, nor which are in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from activator.discovery.destinations import Family
from activator.discovery.dialect import Dialect, Kind, Scope
from activator.discovery.sink import Sink, SystemSink
from activator.knative.labels import SERVICE_TYPE_LABEL
from activator.objects import policies
from activator.objects.fields import ManifestError, ObjectKey, root
from activator.plain import allotments, pods_service, service, slices, workloads
from activator.plain.allotments import Allotment
from activator.plain.annotations import ENABLED, KNOWN
from activator.plain.pods_service import Selecting
from activator.plain.service import PlainService
from activator.plain.slices import Slice
from activator.plain.state import Services
from activator.plain.workloads import Workload
from activator.records.source_status import ObjectWarning
from throttler.model import RevisionKind


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
    selecting = pods_service.parse(obj)
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
