"""Makes the throttler's values of a plain Service: its revision, its endpoints and its route.

Also chooses how the activator probes its pods: as kubelet does, only sooner. Kubelet probes every
10 s by default, so Kubernetes lists a pod up to 10 s after it is ready.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from activator.knative.words import KUBELET_AGENT
from activator.objects.fields import ObjectKey
from activator.plain.annotations import ChosenProbe, ReadinessPolicy
from activator.plain.route_table import names_of_others
from activator.plain.service import BufferedPort, PlainService
from activator.plain.slices import DRAINING, NOT_READY, READY, Allotment
from activator.plain.slices import ListedPod as Pod
from activator.plain.workloads import ContainerProbe, PlainWorkload, PodContainer
from throttler.model import (
    NO_TIMEOUT,
    AppProtocol,
    Endpoint,
    ListedEndpoints,
    ProbeKind,
    ProbeSpec,
    ReadinessRule,
    Revision,
    RevisionID,
    RevisionKind,
    ServiceRoute,
)
from throttler.request_policies import RouteRule

_TCP: Final = ContainerProbe(ProbeKind.TCP)


class ProbeChoice(NamedTuple):
    """The probe of a Service's pods.

    Attributes:
        probe: how the activator probes a pod, on the port of the requests whatever ``port`` says;
            None if it does not.
        readiness: the rule that makes a pod usable.
        why: sentences for ``activator explain``.
    """

    probe: ContainerProbe | None
    readiness: ReadinessRule
    why: str


def choose_probe(
    policy: ReadinessPolicy,
    annotation: ChosenProbe | None,
    workload: PlainWorkload | None,
    target_port: str | int,
    *,
    tls: bool = False,
) -> ProbeChoice:
    """Return the probe of a Service's pods.

    Arguments:
        policy: the readiness policy.
        annotation: the probe that the Service's annotation asks for, if it does.
        workload: the object whose pods the Service has; None if there is none, or several.
        target_port: ``targetPort`` of the Service's port: the name or number of a pod's port.
        tls: whether the pods serve TLS on that port; a probe of the annotation does the same.
    """
    if annotation is not None and annotation.kind is ProbeKind.NONE:
        why = "The annotation asks for no probe: Kubernetes decides alone."
        return ProbeChoice(None, ReadinessRule.NO_PROBE, why)
    container = workload.owner_of(target_port) if workload is not None else None
    if annotation is not None:
        probe, why = _annotated(annotation, tls=tls), "The annotation asks for this probe."
    else:
        probe, why = _of_container(workload, container, target_port)
    if policy is ReadinessPolicy.PROBE:
        return ProbeChoice(probe, ReadinessRule.PROBE, why)
    if policy is ReadinessPolicy.KUBERNETES:
        why = f"{why} The readiness policy also requires Kubernetes' list."
        return ProbeChoice(probe, ReadinessRule.KUBERNETES_POLICY, why)
    rule, unseen = (ReadinessRule.PROBE, "") if workload is None else _unseen(workload, container)
    return ProbeChoice(probe, rule, f"{why} {unseen}".rstrip())


def _annotated(annotation: ChosenProbe, *, tls: bool) -> ContainerProbe:
    kind, argument = annotation
    if kind is ProbeKind.HTTP:
        return ContainerProbe(kind, path=argument, tls=tls)
    return ContainerProbe(kind, service=argument, tls=tls and kind is ProbeKind.GRPC)


def _of_container(
    workload: PlainWorkload | None, container: PodContainer | None, target_port: str | int
) -> tuple[ContainerProbe, str]:
    """Return the readiness probe of the container if the activator can run it; else TCP."""
    if workload is None:
        return _TCP, "The workload is unknown, so the probe is a TCP connect."
    if container is None or (isinstance(target_port, str) and target_port not in container.ports):
        return _TCP, f"No container declares port {target_port}, so the probe is a TCP connect."
    probe, name = container.probe, container.name
    if probe is None:
        return _TCP, f"Container {name} has no readiness probe, so the probe is a TCP connect."
    if probe.kind is ProbeKind.NONE:
        return _TCP, f"The readiness probe of container {name} is a command."
    number = container.ports.get(str(target_port), target_port)
    if container.ports.get(str(probe.port), probe.port) != number:
        return _TCP, f"The readiness probe of container {name} is on another port."
    if probe.host and probe.kind is ProbeKind.TCP:
        return _TCP, f"The readiness probe of container {name} has a host of its own."
    return probe, f"This is the readiness probe of container {name}."


def _unseen(workload: PlainWorkload, container: PodContainer | None) -> tuple[ReadinessRule, str]:
    """Return the rule for a check of Kubernetes that the activator cannot make, and a sentence."""
    listed = "Kubernetes must list the pod as ready"
    for each in workload.containers:
        if each.has_startup_probe:
            why = f"{listed}: container {each.name} has a startup probe."
            return ReadinessRule.STARTUP_PROBE, why
        if each.probe is None:
            continue
        if each is not container:
            why = f"{listed}: container {each.name} has a readiness probe of its own."
            return ReadinessRule.SIDECAR_READINESS_PROBE, why
        if each.probe.kind is ProbeKind.NONE:
            why = f"{listed}, since only kubelet can run the command."
            return ReadinessRule.EXEC_READINESS_PROBE, why
    return ReadinessRule.PROBE, ""


#: Fields of kubelet's probes, unless the container's probe has its own (pkg/probe/http/request.go).
_KUBELET_FIELDS: Final = (("User-Agent", f"{KUBELET_AGENT.decode()}1"), ("Accept", "*/*"))


def revision_id(key: ObjectKey) -> RevisionID:
    """Return the identity of a Service in the throttler, from the key of the Service."""
    return RevisionID(key.namespace, key.name, RevisionKind.SERVICE)


def revision_of(
    service: PlainService, port: BufferedPort, workload: PlainWorkload | None
) -> Revision:
    """Return the throttler's record of a Service.

    Arguments:
        port: its buffered port.
        workload: the object whose pods it has; None if there is none, or several.
    """
    asks = service.asks
    choice = choose_probe(asks.readiness, asks.probe, workload, port.target, tls=port.tls)
    why = choice.why
    if service.is_front:
        why = f"{why} Service {service.pods.name} lists the pods."
    return Revision(
        revision_id(service.key),
        uid=service.uid,
        container_concurrency=asks.container_concurrency,
        protocol=port.protocol,
        timeout=asks.timeouts.total or NO_TIMEOUT,
        response_start_timeout=asks.timeouts.response_start,
        idle_timeout=asks.timeouts.idle,
        readiness=choice.readiness,
        probe=probe_spec(choice.probe),
        probe_why=why,
        policies=asks.policies,
        behind_queue_proxy=False,
        tls=port.tls,
        asleep=bool(service.mark),
    )


def probe_spec(probe: ContainerProbe | None) -> ProbeSpec:
    """Return the activator's probe for a probe of kubelet; None is no probe."""
    if probe is None:
        return ProbeSpec(ProbeKind.NONE)
    kind = probe.kind
    if kind is not ProbeKind.HTTP:
        service = probe.service.encode("ascii")
        return ProbeSpec(kind, timeout=probe.timeout, tls=probe.tls, service=service)
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
    )


def endpoints_of(
    pods: Mapping[str, Pod], port: BufferedPort, own: Container[str] = ()
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
        if condition is READY:
            ready.append(Endpoint(address, pod.uid))
        elif condition is NOT_READY:
            not_ready.append(Endpoint(address, pod.uid))
        elif condition is DRAINING:
            draining.append(Endpoint(address, pod.uid))
    zones = {address: pod.zone for address, pod in pods.items() if pod.zone}
    listed = frozenset(ready), frozenset(not_ready), frozenset(draining)
    return {port.protocol: ListedEndpoints(*listed, zones=zones)}


def route_of(
    service: PlainService, allotments: Sequence[Allotment], port: int, cluster_domain: str
) -> ServiceRoute:
    """Return how requests reach a Service. Names in the cluster belong to their own Service alone.

    Arguments:
        allotments: its takeover slices.
        port: the port on which the activator listens for it alone; 0 for none.
        cluster_domain: the suffix of its name in the cluster.
    """
    # A listen-port of the folder mode has no allotment, and leads to this activator alone.
    reconnect = bool(port and allotments) and all(each.is_empty for each in allotments)
    if service.asks.tcp.chosen:
        return ServiceRoute(service.created, (), port, reconnect, service.pods.name, is_tcp=True)
    name = f"{service.key.name}.{service.key.namespace}"
    own = (name, f"{name}.svc", f"{name}.svc.{cluster_domain}")
    asks = service.asks
    others = names_of_others(asks.hosts, str(revision_id(service.key)), cluster_domain)
    hosts = tuple(each for each in asks.hosts if each not in (*own, *others))
    if asks.paths or asks.headers:
        rules: tuple[RouteRule, ...] = (RouteRule(own), RouteRule(hosts, asks.paths, asks.headers))
    else:
        rules = (RouteRule((*own, *hosts)),)
    return ServiceRoute(service.created, rules, port, reconnect, service.pods.name)
