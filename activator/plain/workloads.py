"""Reads Deployments and StatefulSets: replicas, labels, and how their pods are probed.

The probe is read from the workload, not from its pods: a mesh rewrites the probes of pods.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Final, Generic, TypeVar

from activator.objects.fields import Field, ObjectKey, identify, root, shared
from activator.plain.annotations import NamedTarget
from throttler.model import ProbeKind

# Reads the readiness probe of a container.
#
# Ignores ``successThreshold`` and ``initialDelaySeconds``: they delay kubelet's result, and a pod
# that responds well to its first probe can take requests. Sources: Probe in the Kubernetes API
# reference; pkg/kubelet/prober of Kubernetes.

#: Bytes of all header fields of a probe; kubelet has no limit of its own.
_MAX_FIELDS: Final = 8192


@dataclass(frozen=True, slots=True)
class ContainerProbe:
    """The readiness probe of a container.

    Attributes:
        kind: how kubelet checks the container; NONE is a command, which the activator cannot run.
        port: name or number; 0 for a command.
        host: the host that kubelet connects to instead of the pod; empty for the pod.
        path: the request target of an HTTP probe.
        fields: names and values of an HTTP probe's header fields.
        tls: whether kubelet probes by HTTPS. It does not verify certificates.
        service: the gRPC service.
        timeout: seconds.
    """

    kind: ProbeKind
    port: str | int = 0
    host: str = ""
    path: str = "/"
    fields: tuple[tuple[str, str], ...] = ()
    tls: bool = False
    service: str = ""
    timeout: float = 1.0


def container_probe(probe: Field) -> ContainerProbe | None:
    """Return the probe that a container's ``readinessProbe`` describes; None for none.

    Raises:
        ManifestError: a field is wrong.
    """
    if probe.value is None:
        return None
    timeout = float(probe["timeoutSeconds"].whole(default=1) or 1)
    if (http := probe["httpGet"]).value is not None:
        return ContainerProbe(
            ProbeKind.HTTP,
            _port(http["port"]),
            http["host"].text(),
            _path(http["path"]),
            _fields(http["httpHeaders"]),
            http["scheme"].text(default="HTTP").upper() == "HTTPS",
            timeout=timeout,
        )
    if (tcp := probe["tcpSocket"]).value is not None:
        host = tcp["host"].text()
        return ContainerProbe(ProbeKind.TCP, _port(tcp["port"]), host, timeout=timeout)
    if (grpc := probe["grpc"]).value is not None:
        port, service = _port(grpc["port"]), grpc["service"].text()
        return ContainerProbe(ProbeKind.GRPC, port, service=service, timeout=timeout)
    return ContainerProbe(ProbeKind.NONE, timeout=timeout)


def _port(field: Field) -> str | int:
    if isinstance(field.value, str):
        return field.text()
    return field.port()


def _path(field: Field) -> str:
    path = field.text(default="/") or "/"
    if not path.startswith("/"):
        path = f"/{path}"
    if not all("!" <= each <= "~" for each in path):
        field.expected("a path of visible ASCII characters")
    return path


def _fields(headers: Field) -> tuple[tuple[str, str], ...]:
    found = []
    for header in headers.items():
        name, value = header["name"].text(), header["value"].text()
        if not name or not all(each.isalnum() or each in "!#$%&'*+-.^_`|~" for each in name):
            header["name"].expected("the name of a header field")
        if not value.isascii() or not all(each >= " " and each != "\x7f" for each in value):
            header["value"].expected("a field value of visible ASCII characters")
        found.append((name, value))
    if sum(len(name) + len(value) + 4 for name, value in found) > _MAX_FIELDS:
        headers.fail(f"expected at most {_MAX_FIELDS} bytes of header fields")
    return tuple(found)


#: The kinds that a selector is matched with.
KINDS: Final = ("Deployment", "StatefulSet")

#: The kinds that ``activator.dev/target`` may name without group and version, in lower case.
SHORT_KINDS: Final = frozenset({"deployment", "statefulset", "replicaset", "replicationcontroller"})


@dataclass(frozen=True, slots=True)
class PodContainer:
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
class PlainWorkload:
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
    containers: tuple[PodContainer, ...]

    def owner_of(self, port: str | int) -> PodContainer | None:
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


def parse(obj: object, kind: str) -> PlainWorkload:
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
    return PlainWorkload(
        key,
        workload["metadata"]["uid"].text(),
        spec["replicas"].whole(default=1),
        labels.texts(),
        tuple(_containers(template["spec"])),
    )


def _containers(spec: Field) -> Iterable[PodContainer]:
    yield from map(_container, spec["containers"].items())
    for each in spec["initContainers"].items():
        if each["restartPolicy"].text() == "Always":  # a sidecar since Kubernetes 1.28
            yield _container(each)


def _container(container: Field) -> PodContainer:
    ports = {}
    for port in container["ports"].items():
        number = port["containerPort"].port()
        ports[port["name"].text() or str(number)] = number
    return PodContainer(
        container["name"].text(),
        ports,
        container_probe(container["readinessProbe"]),
        container["startupProbe"].value is not None,
    )


# Keeps values by key in little memory, for indexes of thousands of objects.

# Finds the workloads behind each Service, and the Services that a changed workload concerns.
#
# A change costs as much as the objects it concerns: both sides are indexed by their labels.

K = TypeVar("K")
V = TypeVar("V")
G = TypeVar("G")


class Index(Generic[K, V]):
    """Values by key. Nearly all keys have one value, and a dict for each would take 200 bytes."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[K, V | dict[V, None]] = {}

    def add(self, key: K, value: V) -> None:
        """Add a value; a known one is no error."""
        known = self._values.get(key)
        if known is None:
            self._values[key] = value
        elif isinstance(known, dict):
            known[value] = None
        elif known != value:
            self._values[key] = {known: None, value: None}

    def discard(self, key: K, value: V) -> None:
        """Remove a value; an unknown one is no error."""
        known = self._values.get(key)
        if isinstance(known, dict):
            known.pop(value, None)
            if len(known) == 1:
                self._values[key] = next(iter(known))
        elif known == value:
            del self._values[key]

    def get(self, key: K) -> Collection[V]:
        """Return the values of a key."""
        known = self._values.get(key)
        if known is None:
            return ()
        return known if isinstance(known, dict) else (known,)

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._values)


class Groups(Generic[K, V, G]):
    """Values by key, each in one group: objects, and the Service or workload of each."""

    def __init__(self) -> None:
        self._values: dict[K, tuple[G, V]] = {}
        self._keys = Index[G, K]()

    def put(self, key: K, group: G, value: V) -> Iterable[G]:
        """Add or replace a value; return the groups that have changed."""
        if self._values.get(key) == (group, value):
            return ()
        before = self.remove(key)
        self._values[key] = group, value
        self._keys.add(group, key)
        return dict.fromkeys((*before, group))

    def remove(self, key: K) -> Iterable[G]:
        """Remove a value; return the groups that have changed."""
        if (known := self._values.pop(key, None)) is None:
            return ()
        self._keys.discard(known[0], key)
        return (known[0],)

    def of(self, group: G) -> Sequence[tuple[K, V]]:
        """Return the keys and values of a group."""
        return [(key, self._values[key][1]) for key in self._keys.get(group)]


NO_LABELS: Final[Mapping[str, str]] = {}
Name = TypeVar("Name", bound=Hashable)
W = TypeVar("W")

_GROUP: Final = "apps"
#: Kinds of workloads by their spelling in ``target``, which ignores case.
_KINDS: Final = {kind.lower(): kind for kind in KINDS}


#: Namespace, name and value of a label.
Label = tuple[str, str, str]
#: Names and values of labels.
Selector = tuple[tuple[str, str], ...]


def known_target(target: NamedTarget, namespace: str) -> ObjectKey | None:
    """Return the key of a named target; None for a kind that the activator does not read."""
    kind = _KINDS.get(target.kind.lower())
    if kind is None or target.group not in ("", _GROUP):
        return None
    return ObjectKey(kind, namespace, target.name)


class Matches(Generic[Name, W]):
    """The workloads of all namespaces, and the Services that ask for them.

    ``W`` is what is known of a workload.
    """

    def __init__(self) -> None:
        self._workloads: dict[ObjectKey, tuple[W, tuple[Label, ...]]] = {}
        self._labelled = Index[Label, ObjectKey]()
        # The target of each Service, or the label of its selector by which it is found.
        self._wishes: dict[Name, ObjectKey | Label] = {}
        self._selecting = Index[Label, Name]()
        self._naming = Index[ObjectKey, Name]()

    def follow(
        self, name: Name, namespace: str, selector: Selector, target: ObjectKey | None
    ) -> None:
        """Add a Service, or replace its wish.

        Arguments:
            name: identifies the Service.
            selector: labels of its pods.
            target: the workload that it names; None to find workloads by the selector.
        """
        self.unfollow(name)
        if target is not None:
            self._wishes[name] = target
            self._naming.add(target, name)
        elif labels := labels_of(namespace, selector):
            # The rarest label: many Services may share one such as app.kubernetes.io/part-of.
            found_by = min(labels, key=lambda label: len(self._selecting.get(label)))
            self._wishes[name] = found_by
            self._selecting.add(found_by, name)

    def unfollow(self, name: Name) -> None:
        """Remove a Service; an unknown one is no error."""
        wish = self._wishes.pop(name, None)
        if isinstance(wish, ObjectKey):
            self._naming.discard(wish, name)
        elif wish is not None:
            self._selecting.discard(wish, name)

    def put(
        self, key: ObjectKey, workload: W | None, labels: Mapping[str, str] = NO_LABELS
    ) -> Iterable[Name]:
        """Replace a workload; None if it is deleted.

        Arguments:
            labels: of its pod template.

        Returns:
            The Services that the change may concern; none for an equal workload.
        """
        old, before = self._workloads.get(key, (None, ()))
        after = labels_of(key.namespace, labels.items())
        if (old, before) == (workload, after):
            return ()
        if before != after:
            for label in before:
                self._labelled.discard(label, key)
            for label in after:
                self._labelled.add(label, key)
        if workload is None:
            del self._workloads[key]
        else:
            self._workloads[key] = workload, after
        found = dict.fromkeys(self._naming.get(key))
        for label in (*before, *after):
            found |= dict.fromkeys(self._selecting.get(label))
        return found

    def get(self, key: ObjectKey) -> W | None:
        """Return a workload; None for an unknown one."""
        return self._workloads.get(key, (None,))[0]

    def matching(self, labels: Collection[Label]) -> Sequence[ObjectKey]:
        """Return the workloads whose pods have all of some labels; none for no label. Sorted."""
        candidates = min(map(self._labelled.get, labels), key=len, default=())
        return sorted(
            key for key in candidates if all(each in self._workloads[key][1] for each in labels)
        )

    def find(self, namespace: str, selector: Selector, target: ObjectKey | None) -> list[W]:
        """Return the workloads of a Service, sorted by kind and name; arguments of ``follow``."""
        keys = self.matching(labels_of(namespace, selector)) if target is None else [target]
        return [self._workloads[key][0] for key in keys if key in self._workloads]


def selector_of(spec: Field) -> Selector:
    """Return the selector of a Service. Raises ``ManifestError``."""
    pairs = spec["selector"].texts().items()
    found: Selector = shared(tuple((intern(name), intern(value)) for name, value in pairs))
    return found


def labels_of(namespace: str, labels: Iterable[tuple[str, str]]) -> tuple[Label, ...]:
    """Return labels with their namespace. A cluster has thousands of equal texts: each once."""
    return tuple((namespace, intern(name), intern(value)) for name, value in labels)
