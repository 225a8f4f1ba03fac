"""Chooses how the activator probes the pods of a Service: as kubelet does, only sooner.

Kubelet probes every 10 s by default, so Kubernetes lists a pod up to 10 s after it is ready.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from activator.plain.annotations import ChosenProbe, ProbeWord, ReadinessPolicy
from activator.plain.workloads import Container, ContainerProbe, Handler, Workload
from throttler.model import ReadinessRule

_TCP: Final = ContainerProbe(Handler.TCP)
_HANDLERS: Final = {
    ProbeWord.HTTP: Handler.HTTP,
    ProbeWord.TCP: Handler.TCP,
    ProbeWord.GRPC: Handler.GRPC,
}


class Choice(NamedTuple):
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


def choose(
    policy: ReadinessPolicy,
    annotation: ChosenProbe | None,
    workload: Workload | None,
    target_port: str | int,
    *,
    tls: bool = False,
) -> Choice:
    """Return the probe of a Service's pods.

    Arguments:
        policy: the readiness policy.
        annotation: the probe that the Service's annotation asks for, if it does.
        workload: the object whose pods the Service has; None if there is none, or several.
        target_port: ``targetPort`` of the Service's port: the name or number of a pod's port.
        tls: whether the pods serve TLS on that port; a probe of the annotation does the same.
    """
    if annotation is not None and annotation.word is ProbeWord.NONE:
        why = "The annotation asks for no probe: Kubernetes decides alone."
        return Choice(None, ReadinessRule.NO_PROBE, why)
    container = workload.owner_of(target_port) if workload is not None else None
    if annotation is not None:
        probe, why = _annotated(annotation, tls=tls), "The annotation asks for this probe."
    else:
        probe, why = _of_container(workload, container, target_port)
    if policy is ReadinessPolicy.PROBE:
        return Choice(probe, ReadinessRule.PROBE, why)
    if policy is ReadinessPolicy.KUBERNETES:
        why = f"{why} The readiness policy also requires Kubernetes' list."
        return Choice(probe, ReadinessRule.KUBERNETES_POLICY, why)
    rule, unseen = (ReadinessRule.PROBE, "") if workload is None else _unseen(workload, container)
    return Choice(probe, rule, f"{why} {unseen}".rstrip())


def _annotated(annotation: ChosenProbe, *, tls: bool) -> ContainerProbe:
    handler, argument = _HANDLERS[annotation.word], annotation.argument
    match handler:
        case Handler.GRPC:
            return ContainerProbe(handler, service=argument, tls=tls)
        case Handler.HTTP:
            return ContainerProbe(handler, path=argument, tls=tls)
        case _:
            return ContainerProbe(handler)


def _of_container(
    workload: Workload | None, container: Container | None, target_port: str | int
) -> tuple[ContainerProbe, str]:
    """Return the readiness probe of the container if the activator can run it; else TCP."""
    if workload is None:
        return _TCP, "The workload is unknown, so the probe is a TCP connect."
    if container is None or (isinstance(target_port, str) and target_port not in container.ports):
        return _TCP, f"No container declares port {target_port}, so the probe is a TCP connect."
    probe, name = container.probe, container.name
    if probe is None:
        return _TCP, f"Container {name} has no readiness probe, so the probe is a TCP connect."
    if probe.handler is Handler.EXEC:
        return _TCP, f"The readiness probe of container {name} is a command."
    number = container.ports.get(str(target_port), target_port)
    if container.ports.get(str(probe.port), probe.port) != number:
        return _TCP, f"The readiness probe of container {name} is on another port."
    if probe.host and probe.handler is Handler.TCP:
        return _TCP, f"The readiness probe of container {name} has a host of its own."
    return probe, f"This is the readiness probe of container {name}."


def _unseen(workload: Workload, container: Container | None) -> tuple[ReadinessRule, str]:
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
        if each.probe.handler is Handler.EXEC:
            why = f"{listed}, since only kubelet can run the command."
            return ReadinessRule.EXEC_READINESS_PROBE, why
    return ReadinessRule.PROBE, ""
