"""Lists the problems that several objects cause together, each with its reason and a sentence.

A wrong field of one object is an error of its parser, not a problem of this list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from activator.plain.route_table import RouteKey
from activator.plain.service import BufferedPort, PlainService, Refusal, word_of
from activator.plain.slices import Slice
from activator.plain.workloads import KINDS, SHORT_KINDS, PlainWorkload, known_target

#: Most names that a sentence lists.
_SHOWN: Final = 3


class ProblemReason(StrEnum):
    """Why a Service does not work as its annotations ask.

    REFUSED: the Service cannot be buffered at all. WRONG_PODS_SERVICE: the same, with a word of
    its own (service.Refusal). TAKEOVER_CANNOT_LIMIT: a limit has no effect. NO_SCALABLE_TARGET:
    no workload is found, so none can be scaled. SEVERAL_TARGETS: more than one is found.
    UNKNOWN_TARGET_KIND: the annotation names a kind that needs its group and version.
    HOST_CONFLICT: a host is an older object's, or a name in the cluster. PORT_CONFLICT: an
    older slice has the allotted port. NO_SUCH_PORT: slices list pods, but not the buffered
    port; or a route object names a port that its Service does not have. NO_SUCH_SERVICE: its
    Service is missing. OWN_PORT: slices list the activator itself. LIMITED: an annotation has no
    effect, or a field of the Service limits the activator.
    """

    REFUSED = "refused"
    TAKEOVER_CANNOT_LIMIT = Refusal.TAKEOVER_CANNOT_LIMIT.value
    WRONG_PODS_SERVICE = Refusal.WRONG_PODS_SERVICE.value
    NO_SCALABLE_TARGET = "no-scalable-target"
    SEVERAL_TARGETS = "several-targets"
    UNKNOWN_TARGET_KIND = "unknown-target-kind"
    HOST_CONFLICT = "host-conflict"
    PORT_CONFLICT = "port-conflict"
    NO_SUCH_PORT = "no-such-port"
    NO_SUCH_SERVICE = "no-such-service"
    OWN_PORT = "own-port"
    LIMITED = "limited"


class ServiceProblem(NamedTuple):
    """One problem of a Service; the text is a sentence without a full stop."""

    reason: ProblemReason
    text: str


def of_service(service: PlainService) -> Iterator[ServiceProblem]:
    """Yield the problems of a Service's own fields."""
    if service.refused:
        reason = ProblemReason(service.refusal or ProblemReason.REFUSED)
        yield ServiceProblem(reason, service.refused)
    for text in service.warnings:
        yield ServiceProblem(ProblemReason(word_of(text, ProblemReason.LIMITED)), text)


def of_target(
    service: PlainService, workloads: Sequence[PlainWorkload]
) -> Iterator[ServiceProblem]:
    """Yield why no single workload is found for a Service.

    Arguments:
        workloads: the workloads that its annotation or its selector finds.
    """
    target = service.asks.target
    if target is not None:
        known = known_target(target, service.key.namespace)
        if known is not None and not workloads:
            text = f"the target {known} does not exist"
            yield ServiceProblem(ProblemReason.NO_SCALABLE_TARGET, text)
        elif not target.group and target.kind.lower() not in SHORT_KINDS:
            yield ServiceProblem(
                ProblemReason.UNKNOWN_TARGET_KIND,
                f"annotation activator.dev/target: the kind {target.kind} needs its group and "
                f"version: write GROUP/VERSION/{target.kind}/{target.name}",
            )
    elif not workloads:
        selector = ",".join(f"{name}={value}" for name, value in service.selector)
        yield ServiceProblem(
            ProblemReason.NO_SCALABLE_TARGET,
            f"no {' or '.join(KINDS)} has pods with the labels {selector}; bare pods, DaemonSets "
            f"and Jobs cannot be scaled, and the annotation activator.dev/target names any other "
            f"object",
        )
    elif len(workloads) > 1:
        candidates = several(f"{each.key.kind}/{each.key.name}" for each in workloads)
        yield ServiceProblem(
            ProblemReason.SEVERAL_TARGETS,
            f"the selector matches {candidates}; choose one with the annotation "
            f"activator.dev/target",
        )


def of_hosts(
    conflicts: Mapping[RouteKey, str], others: Iterable[str] = ()
) -> Iterator[ServiceProblem]:
    """Yield each rule that an older Service has, and each name of the cluster.

    Arguments:
        conflicts: the rules, each with the name of the older Service.
        others: names of other Services in the cluster.
    """
    for host in others:
        yield ServiceProblem(
            ProblemReason.HOST_CONFLICT,
            f"the host {host} is in the domain of the cluster, where each name belongs to its own "
            f"Service, so the annotation activator.dev/hosts does not count for it",
        )
    for key, other in conflicts.items():
        yield _conflict(key, f"the Service {other}, which is older or has that name")


def of_routes(conflicts: Mapping[RouteKey, str]) -> Iterator[ServiceProblem]:
    """Yield each rule of a route object that another one has, which is given by kind and name."""
    for key, other in conflicts.items():
        yield _conflict(key, f"{other}, which is older or has the later name")


def _conflict(key: RouteKey, owner: str) -> ServiceProblem:
    what = "rule" if key.path or key.headers else "host"
    text = f"the {what} {key} belongs to {owner}, and gets its requests"
    return ServiceProblem(ProblemReason.HOST_CONFLICT, text)


def of_ports(conflicts: Mapping[RouteKey, str]) -> Iterator[ServiceProblem]:
    """Yield each allotted port that an older slice has, of the other Service that is given."""
    for port, other in conflicts.items():
        yield ServiceProblem(
            ProblemReason.PORT_CONFLICT,
            f"port {port} is allotted to {other} too, whose slice is older: the activator listens "
            f"for that Service",
        )


def of_slices(port: BufferedPort, slices: Iterable[Slice]) -> Iterator[ServiceProblem]:
    """Yield that slices list pods, but none with the buffered port."""
    with_pods = [each for each in slices if each.endpoints]
    if with_pods and not any(port.name in each.ports for each in with_pods):
        found = several(repr(name) for each in with_pods for name in each.ports) or "none"
        if found == "none" and isinstance(port.target, str):
            found += f", so no container has a port named {port.target!r}, the targetPort"
        yield ServiceProblem(
            ProblemReason.NO_SUCH_PORT,
            f"no EndpointSlice has the port {port.name!r} (found: {found}), so no pod gets "
            f"requests",
        )


def of_own_ports(own: Mapping[str, str]) -> Iterator[ServiceProblem]:
    """Yield that slices list addresses of this activator.

    Arguments:
        own: these addresses, each with the setting that chooses the port.
    """
    if own:
        listed = several(f"{address} ({setting})" for address, setting in own.items())
        yield ServiceProblem(
            ProblemReason.OWN_PORT,
            f"{listed}: the activator itself listens there, so it gets none of these requests",
        )


def of_listen_port(service: PlainService) -> Iterator[ServiceProblem]:
    """Yield that a Service of a cluster asks for a port that it chooses itself."""
    if service.asks.tcp.listen_port:
        yield ServiceProblem(
            ProblemReason.LIMITED,
            "activator.dev/listen-port has no effect in a cluster, where the scaler allots the "
            "ports: use activator.dev/route front",
        )


def of_activators(service: str) -> ServiceProblem:
    """Return that this activator knows no other, so each of them fills the slots of all pods.

    Arguments:
        service: the Service of the activators.
    """
    return ServiceProblem(
        ProblemReason.LIMITED,
        f"container-concurrency counts for each activator on its own: no EndpointSlice of the "
        f"Service {service} lists a ready activator; --activators names the Service",
    )


def several(names: Iterable[str]) -> str:
    """Return the first names for a sentence, and the number of the others."""
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(known[:_SHOWN]) + more
