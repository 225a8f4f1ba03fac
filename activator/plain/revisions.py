"""Makes the throttler's values of a plain Service: its revision, its endpoints and its route."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from activator.knative.words import KUBELET_AGENT
from activator.objects.fields import ObjectKey
from activator.plain.allotments import Allotment
from activator.plain.hosts import names_of_others
from activator.plain.probe_choice import choose
from activator.plain.service import PlainService, Port
from activator.plain.slices import Condition
from activator.plain.slices import Endpoint as Pod
from activator.plain.workloads import ContainerProbe, Handler, Workload
from throttler.model import (
    NO_TIMEOUT,
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    ProbeKind,
    ProbeSpec,
    Revision,
    RevisionID,
    RevisionKind,
    Route,
)

_KINDS: Final[Mapping[Handler, ProbeKind]] = {
    Handler.HTTP: ProbeKind.HTTP,
    Handler.TCP: ProbeKind.TCP,
    Handler.GRPC: ProbeKind.GRPC,
}
#: Least seconds between two probes of a pod. A health page of an application may be expensive.
_INTERVALS: Final[Mapping[ProbeKind, float]] = {
    ProbeKind.HTTP: 0.05,
    ProbeKind.TCP: 0.005,
    ProbeKind.GRPC: 0.005,
}
# Names of this module: a member of an enum is slow to find.
_READY: Final = Condition.READY
_NOT_READY: Final = Condition.NOT_READY
_DRAINING: Final = Condition.DRAINING
#: Fields of kubelet's probes, unless the container's probe has its own (pkg/probe/http/request.go).
_KUBELET_FIELDS: Final = (
    ("User-Agent", f"{KUBELET_AGENT.decode()}1"),
    ("Accept", "*/*"),
)


def revision_id(key: ObjectKey) -> RevisionID:
    """Return the identity of a Service in the throttler, from the key of the Service."""
    return RevisionID(key.namespace, key.name, RevisionKind.SERVICE)


def revision_of(service: PlainService, port: Port, workload: Workload | None) -> Revision:
    """Return the throttler's record of a Service.

    Arguments:
        port: its buffered port.
        workload: the object whose pods it has; None if there is none, or several.
    """
    asks = service.asks
    choice = choose(asks.readiness, asks.probe, workload, port.target, tls=port.tls)
    why = choice.why
    if service.is_front:
        why = f"{why} Service {service.pods.name} lists the pods."
    return Revision(
        revision_id(service.key),
        uid=service.uid,
        container_concurrency=asks.container_concurrency,
        protocol=port.protocol,
        timeout=asks.timeout or NO_TIMEOUT,
        response_start_timeout=asks.response_start_timeout,
        idle_timeout=asks.idle_timeout,
        readiness=choice.readiness,
        probe=probe_spec(choice.probe),
        probe_why=why,
        policies=asks.policies,
        behind_queue_proxy=False,
        tls=port.tls,
    )


def probe_spec(probe: ContainerProbe | None) -> ProbeSpec:
    """Return the activator's probe for a probe of kubelet; None is no probe."""
    if probe is None:
        return ProbeSpec(ProbeKind.NONE)
    kind = _KINDS[probe.handler]
    if kind is not ProbeKind.HTTP:
        return ProbeSpec(
            kind,
            timeout=probe.timeout,
            tls=probe.tls,
            service=probe.service.encode("ascii"),
            interval=_INTERVALS[kind],
        )
    fields = list(probe.fields)
    hosts = [value for name, value in fields if name.lower() == "host"]
    given = {name.lower() for name, _ in fields}
    fields += [field for field in _KUBELET_FIELDS if field[0].lower() not in given]
    return ProbeSpec(
        kind,
        path=probe.path.encode("ascii"),
        fields="".join(
            f"{name}: {value}\r\n" for name, value in fields if name.lower() != "host"
        ).encode("ascii"),
        host=(hosts[-1] if hosts else probe.host).encode("ascii"),
        timeout=probe.timeout,
        tls=probe.tls,
        interval=_INTERVALS[kind],
    )


def endpoints_of(
    pods: Mapping[str, Pod], port: Port, own: Container[str] = ()
) -> Mapping[AppProtocol, ListedEndpoints]:
    """Return the endpoints behind the buffered port, by the protocol of that port.

    Arguments:
        pods: by ``ip:port``, over all slices of the Service that Kubernetes wrote.
        own: addresses that lead back to this activator; they are left out.
    """
    ready: list[Endpoint] = []
    not_ready: list[Endpoint] = []
    draining: list[Endpoint] = []
    for address, pod in pods.items():
        if address in own:
            continue
        condition = pod.condition
        if condition is _READY:
            ready.append(Endpoint(address, pod.uid))
        elif condition is _NOT_READY:
            not_ready.append(Endpoint(address, pod.uid))
        elif condition is _DRAINING:
            draining.append(Endpoint(address, pod.uid))
    return {
        port.protocol: ListedEndpoints(frozenset(ready), frozenset(not_ready), frozenset(draining))
    }


def route_of(
    service: PlainService, allotments: Iterable[Allotment], port: int, cluster_domain: str
) -> Route:
    """Return how requests reach a Service. Names in the cluster belong to their own Service alone.

    Arguments:
        allotments: its takeover slices.
        port: the port on which the activator listens for it alone; 0 for none.
        cluster_domain: the suffix of its name in the cluster.
    """
    name = f"{service.key.name}.{service.key.namespace}"
    own = (name, f"{name}.svc", f"{name}.svc.{cluster_domain}")
    hosts = dict.fromkeys((*own, *service.asks.hosts))
    for other in names_of_others(hosts, str(revision_id(service.key)), cluster_domain):
        del hosts[other]
    reconnect = bool(port) and all(each.is_empty for each in allotments)
    return Route(service.created, tuple(hosts), port, reconnect, service.pods.name)
