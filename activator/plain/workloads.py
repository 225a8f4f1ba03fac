"""Reads Deployments and StatefulSets: replicas, labels and probes of their pods.

The probe is read from the workload, not from its pods: a mesh rewrites the probes of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from activator.objects.fields import Field, ObjectKey, identify, root
from activator.plain.probes import ContainerProbe, container_probe

#: The kinds that a selector is matched with.
KINDS: Final = ("Deployment", "StatefulSet")

#: The kinds that ``activator.dev/target`` may name without group and version, in lower case.
SHORT_KINDS: Final = frozenset({"deployment", "statefulset", "replicaset", "replicationcontroller"})

_MAX_REPLICAS: Final = 2**31 - 1
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a workload's pods.

    Attributes:
        ports: numbers by name; a port without a name has its number as name.
        probe: its readiness probe; None if it has none.
        has_startup_probe: whether Kubernetes waits for another probe first.
    """

    name: str
    ports: Mapping[str, int]
    probe: ContainerProbe | None
    has_startup_probe: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """An object that has pods.

    Attributes:
        uid: identity of the object.
        replicas: how many it asks for; absent is 1, as the API server fills in.
        labels: the labels of its pod template. Pods may have more.
        containers: of its pod template, without the init containers that end.
    """

    key: ObjectKey
    uid: str
    replicas: int
    labels: Mapping[str, str]
    containers: tuple[Container, ...]

    def owner_of(self, port: str | int) -> Container | None:
        """Return the container behind a port of the pods.

        Arguments:
            port: name or number, as ``targetPort`` of a Service has it.

        Returns:
            None if several containers may have it: none of them declares the port.
        """
        for container in self.containers:
            if port in container.ports or port in container.ports.values():
                return container
        return self.containers[0] if len(self.containers) == 1 else None


def parse(obj: object, kind: str) -> Workload:
    """Return what a Deployment or a StatefulSet describes.

    Arguments:
        obj: the object as decoded from JSON or YAML.
        kind: its kind; list items do not repeat it.

    Raises:
        ManifestError: a field is wrong.
    """
    key = identify(obj, kind)
    workload = root(obj, kind)
    spec = workload["spec"]
    template = spec["template"]
    labels = template["metadata"]["labels"]
    return Workload(
        key,
        workload["metadata"]["uid"].text(),
        spec["replicas"].whole(minimum=0, maximum=_MAX_REPLICAS, default=1),
        {str(name): labels.at(str(name)).text() for name in labels.mapping()},
        tuple(_containers(template["spec"])),
    )


def _containers(spec: Field) -> Iterable[Container]:
    yield from map(_container, spec["containers"].items())
    for each in spec["initContainers"].items():
        if each["restartPolicy"].text() == "Always":  # a sidecar since Kubernetes 1.28
            yield _container(each)


def _container(container: Field) -> Container:
    ports = {}
    for port in container["ports"].items():
        number = port["containerPort"].whole(minimum=1, maximum=_MAX_PORT, default=0)
        ports[port["name"].text() or str(number)] = number
    return Container(
        container["name"].text(),
        ports,
        container_probe(container["readinessProbe"]),
        container["startupProbe"].value is not None,
    )


def matches(selector: Mapping[str, str], workload: Workload) -> bool:
    """Return whether a Service's selector matches the pods that a workload makes."""
    labels = workload.labels
    return bool(selector) and all(labels.get(name) == value for name, value in selector.items())
