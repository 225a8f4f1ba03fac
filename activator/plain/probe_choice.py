"""Chooses how the activator probes the pods of a Service: as kubelet does, only sooner.

Kubelet probes every 10 s by default, so Kubernetes lists a pod up to 10 s after it is ready.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from activator.plain.annotations import ChosenProbe, ProbeWord, ReadinessPolicy
from activator.plain.probes import ContainerProbe, Handler
from activator.plain.workloads import Container, Workload

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
        kubernetes_too: whether Kubernetes must also list a pod as ready.
        why: sentences for ``activator explain``.
    """

    probe: ContainerProbe | None
    kubernetes_too: bool
    why: str


def choose(
    policy: ReadinessPolicy,
    annotation: ChosenProbe | None,
    workload: Workload | None,
    target_port: str | int,
) -> Choice:
    """Return the probe of a Service's pods.

    Arguments:
        policy: the readiness policy.
        annotation: the probe that the Service's annotation asks for, if it does.
        workload: the object whose pods the Service has; None if there is none, or several.
        target_port: ``targetPort`` of the Service's port: the name or number of a pod's port.
    """
    if annotation is not None and annotation.word is ProbeWord.NONE:
        return Choice(None, True, "The annotation asks for no probe: Kubernetes decides alone.")
    container = workload.owner_of(target_port) if workload is not None else None
    if annotation is not None:
        probe, why = _annotated(annotation), "The annotation asks for this probe."
    else:
        probe, why = _of_container(workload, container, target_port)
    if policy is ReadinessPolicy.PROBE:
        return Choice(probe, False, why)
    if policy is ReadinessPolicy.KUBERNETES:
        return Choice(probe, True, f"{why} The readiness policy also requires Kubernetes' list.")
    unseen = _unseen(workload, container) if workload is not None else ""
    return Choice(probe, bool(unseen), f"{why} {unseen}".rstrip())


def _annotated(annotation: ChosenProbe) -> ContainerProbe:
    handler, argument = _HANDLERS[annotation.word], annotation.argument
    if handler is Handler.GRPC:
        return ContainerProbe(handler, service=argument)
    return ContainerProbe(handler, path=argument or "/")


def _of_container(
    workload: Workload | None, container: Container | None, target_port: str | int
) -> tuple[ContainerProbe, str]:
    """Return the readiness probe of the container if the activator can run it; else TCP."""
    if workload is None:
        return _TCP, "The workload is unknown, so the probe is a TCP connect."
    if container is None:
        return _TCP, f"No container declares port {target_port}, so the probe is a TCP connect."
    probe, name = container.probe, container.name
    if probe is None:
        return _TCP, f"Container {name} has no readiness probe, so the probe is a TCP connect."
    if probe.handler is Handler.EXEC:
        return _TCP, f"The readiness probe of container {name} is a command."
    if probe.host:
        return _TCP, f"The readiness probe of container {name} has a host of its own."
    number = container.ports.get(str(target_port), target_port)
    if container.ports.get(str(probe.port), probe.port) != number:
        return _TCP, f"The readiness probe of container {name} is on another port."
    return probe, f"This is the readiness probe of container {name}."


def _unseen(workload: Workload, container: Container | None) -> str:
    """Return which check of Kubernetes the activator cannot make itself; empty if none."""
    for each in workload.containers:
        if each.has_startup_probe:
            return (
                f"Kubernetes must list the pod as ready: container {each.name} has a startup probe."
            )
        if each.probe is None:
            continue
        if each is not container:
            return (
                f"Kubernetes must list the pod as ready: container {each.name} has a readiness "
                f"probe of its own."
            )
        if each.probe.handler is Handler.EXEC:
            return "Kubernetes must list the pod as ready, since only kubelet can run the command."
    return ""
