"""Reads an annotated Service: its port, its pods-service, and whether it can be buffered.

A Service is refused with a reason if its type, its selector or its ports make it unusable. Other
problems are warnings. Source: ServiceSpec in the Kubernetes API reference.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple, final

from activator.objects import policies
from activator.objects.fields import (
    Field,
    ManifestError,
    ObjectKey,
    Problems,
    identify,
    root,
    shared,
)
from activator.plain.annotations import (
    ASLEEP,
    KNOWN,
    OF_CONNECTIONS,
    PREFIX,
    PROTOCOL,
    WAKER_WORDS,
    Annotations,
    Owner,
    Route,
    is_enabled,
)
from activator.plain.annotations import read as read_annotations
from activator.plain.workloads import Index, Selector, known_target, selector_of
from throttler.model import AppProtocol

#: The annotation that chooses the buffered port.
PORT: Final = f"{PREFIX}port"
PODS_SERVICE: Final = f"{PREFIX}pods-service"
_WORDS: Final = frozenset(PREFIX + name for name in WAKER_WORDS)
#: The words that may be wrong although the workload has fallen asleep: a correction counts at once.
_WAKING: Final = frozenset(PREFIX + name for name in ("wake-patch", "wake-url", "awake-condition"))
_CONCURRENCY: Final = f"{PREFIX}container-concurrency"
_MIN_SCALE: Final = f"{PREFIX}min-scale"

#: Names of ports that the activator takes by itself, in this order.
_NAMES: Final = ("http", "http1", "h2c", "http2", "grpc")
#: Protocols of ``appProtocol`` (Kubernetes' standard names, KEP-3726) and of port names.
_HTTP2: Final = frozenset({"kubernetes.io/h2c", "h2c", "http2", "grpc"})
_HTTP1: Final = frozenset({"", "http", "http1", "kubernetes.io/ws"})
_TLS: Final = frozenset({"https", "kubernetes.io/wss"})
#: Names of IANA's registry of services whose protocols are not HTTP; over TLS too.
_OPAQUE: Final = frozenset(
    (
        *("amqp", "amqps", "imap", "imaps", "ldap", "ldaps", "memcache", "mongodb", "mqtt"),
        *("ms-sql-s", "mysql", "nats", "pop3", "pop3s", "postgresql", "redis", "secure-mqtt"),
        *("smtp", "ssh", "submission", "submissions", "telnet"),
    )
)
#: Kubernetes' own proxies leave a Service with this label to another one.
PROXY_LABEL: Final = "service.kubernetes.io/service-proxy-name"
_POLICIES: Final = ("externalTrafficPolicy", "internalTrafficPolicy")
_CANNOT_LIMIT: Final = (
    f"route takeover cannot limit requests per pod, so {_CONCURRENCY} has no effect: clients "
    f"connect to ready pods past the activators; use route front, or remove the limit"
)


class Refusal(StrEnum):
    """Why a Service or an annotation is refused, where people need a word of its own for it.

    TAKEOVER_CANNOT_LIMIT: a limit of requests per pod with route ``takeover``; the limit alone is
    refused. WRONG_PODS_SERVICE: route ``front``, and no Service finds its pods.
    """

    TAKEOVER_CANNOT_LIMIT = "takeover-cannot-limit"
    WRONG_PODS_SERVICE = "wrong-pods-service"


class BufferedPort(NamedTuple):
    """The port whose requests are buffered.

    Attributes:
        name: as slices have it; empty for the one port without a name.
        number: clients connect to it.
        target: ``targetPort``: name or number of a port of the pods.
        protocol: what the pods speak there.
        tls: whether they speak it over TLS.
    """

    name: str
    number: int
    target: str | int
    protocol: AppProtocol
    tls: bool


@dataclass(frozen=True, slots=True)
class PlainService:
    """A Service that opts in.

    Attributes:
        uid: identity of the object.
        created: ``creationTimestamp``, in RFC 3339.
        selector: labels of its pods. With route ``front`` the pods-service has them.
        asks: what its annotations ask for.
        port: the buffered port; None if the Service is refused.
        refused: why it cannot be buffered; empty if it can.
        refusal: the word for that; None for the general one.
        warnings: sentences about what will not work as expected.
        local: the field that has traffic policy ``Local``; empty for none.
        selects_beside: whether it has route ``front`` and a selector of its own.
        words: the annotations that say how its workload sleeps and wakes, as JSON.
        mark: the asleep mark: such words, by which the workload sleeps; empty for none.
        leaving: whether its workload must wake, so that the mark can go.
        is_good: whether it has no safe default for a wrong annotation or field.
        families: types of its addresses, as EndpointSlices name them.
        proxy: the proxy that serves it instead of Kubernetes' own; empty for that one.
    """

    key: ObjectKey
    uid: str
    created: str
    selector: Selector
    asks: Annotations
    port: BufferedPort | None
    refused: str = ""
    warnings: tuple[str, ...] = ()
    families: tuple[str, ...] = ("IPv4",)
    proxy: str = ""
    is_good: bool = True
    local: str = ""
    refusal: Refusal | None = None
    selects_beside: bool = False
    words: str = "{}"
    mark: str = ""
    leaving: bool = False

    @property
    def is_front(self) -> bool:
        """Whether the scaler writes all its endpoints."""
        return self.asks.route is Route.FRONT

    @property
    def pods(self) -> ObjectKey:
        """The Service whose slices list its pods."""
        return self.key._replace(name=self.asks.pods_service) if self.is_front else self.key

    @property
    def workload(self) -> tuple[str, Selector, ObjectKey | None]:
        """Its namespace, selector and target, by which ``Matches`` finds the workload.

        No watch follows a target of another kind, and the selector may find other workloads.
        """
        target, namespace = self.asks.target, self.key.namespace
        if target is None:
            return namespace, self.selector, None
        return namespace, (), known_target(target, namespace)


_LEAVING: Final = (
    f"the workload sleeps by other annotations, which are in {ASLEEP}: it wakes by them first"
)


def awake(service: PlainService) -> PlainService:
    """Return a Service whose workload must wake, and stay awake, by the rules of the scaler."""
    asks = replace(service.asks.with_a_replica(), owner=Owner.SELF)
    return replace(service, asks=asks, leaving=True, refused="", refusal=None)


def leaving(obj: object, found: PlainService | None) -> PlainService | None:
    """Return a Service with an asleep mark that its annotations do not explain.

    Arguments:
        found: as the annotations have it; None if it does not opt in, or if they are wrong.

    Returns:
        The Service as its mark has it, so that the workload wakes; None for a Service without a
        mark, with a mark that cannot be read, or if it sleeps as the annotations say.
    """
    service = root(obj, "Service")
    annotations = service["metadata"]["annotations"]
    try:
        given = _given(annotations.at(ASLEEP).text())
        if given is None or (
            found is not None
            and not found.refused
            and _asleep_by(given) == _asleep_by(_given(found.words) or {})
        ):
            return None
        others = annotations.mapping().items()
        kept = {str(name): each for name, each in others if name not in _WORDS}
        kept |= given
        metadata = {**service["metadata"].mapping(), "annotations": kept}
        problems = Problems()
        field = Field(metadata, service.subject, "metadata")
        asks = read_annotations(field, problems, _since(field, service["spec"]["ports"]))
        if not problems.is_usable:
            return None
        as_marked = {**service.mapping(), "metadata": metadata}
        parsed = awake(_parse(as_marked, replace(asks, port="")))
        return replace(parsed, warnings=(*parsed.warnings, _LEAVING))
    except ManifestError:
        return None


def as_marked(service: PlainService) -> PlainService:
    """Return a Service with the waker of its mark, if the mark can be read."""
    if (given := _given(service.mark)) is None:
        return service
    marked = read_annotations(Field({"annotations": given}, "", ""), Problems())
    return replace(service, asks=replace(service.asks, waker=marked.waker), words=service.mark)


def _given(mark: str) -> dict[str, object] | None:
    """Return the annotations that a mark has; None if it cannot be read."""
    try:
        found = json.loads(mark)
    except (ValueError, RecursionError):
        return None
    is_object = isinstance(found, dict)
    return {f"{PREFIX}{name}": each for name, each in found.items()} if is_object else None


def _asleep_by(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the annotations by which a workload is asleep: without the ones that wake it."""
    return {name: each for name, each in given.items() if name not in _WAKING}


def parse(obj: object) -> PlainService | None:
    """Return what a Service asks for; None if it does not opt in.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Raises:
        ManifestError: it opts in, and a field or annotations are wrong. The text names each wrong
            annotation. The error has the Service with safe defaults if only annotations are wrong,
            but neither ``target``, ``port`` nor ``pods-service``.
    """
    service = root(obj, "Service")
    metadata = service["metadata"]
    if not is_enabled(metadata):
        return None
    problems = Problems()
    since = ""
    with suppress(ManifestError):  # that of _parse
        since = _since(metadata, service["spec"]["ports"])
    asks = read_annotations(metadata, problems, since)
    return problems.settle(problems.read(lambda: _parse(obj, asks)))


def _parse(obj: object, asks: Annotations) -> PlainService:
    service = root(obj, "Service")
    metadata, spec = service["metadata"], service["spec"]
    warnings = _warnings(metadata, spec, asks)
    if asks.route is Route.TAKEOVER and asks.container_concurrency:
        # Only the limit is refused: a refused Service has no endpoints while it sleeps.
        asks = replace(asks, container_concurrency=0)
        warnings.append(_CANNOT_LIMIT)
    refusal, refused = _refused(service, asks)
    annotation = metadata["annotations"].at(PORT)
    port, unclear = (None, "") if refused else _port(spec["ports"], asks, annotation)
    if port is not None and port.tls and asks.route.has_slices:
        port, unclear = None, _needs(asks, "a port without TLS", _TLS_WHY)
    is_front = asks.route is Route.FRONT
    return PlainService(
        identify(obj, "Service"),
        metadata["uid"].text(),
        metadata["creationTimestamp"].text(),
        () if is_front else selector_of(spec),
        asks,
        port,
        refused or unclear,
        (*warnings, *(_about_protocol(spec["ports"], port) if port is not None else ())),
        tuple(family.text() for family in spec["ipFamilies"].items())
        or ("IPv6" if ":" in spec["clusterIP"].text() else "IPv4",),
        metadata["labels"].at(PROXY_LABEL).text(),
        local=_local(spec),
        refusal=refusal,
        selects_beside=is_front and bool(spec["selector"].mapping()),
        words=_words(metadata["annotations"]),
        mark=metadata["annotations"].at(ASLEEP).text(),
    )


def _words(annotations: Field) -> str:
    words = {name: annotations.at(f"{PREFIX}{name}").text() for name in WAKER_WORDS}
    return json.dumps({name: text for name, text in words.items() if text}, separators=(",", ":"))


def _local(spec: Field) -> str:
    """Return the first field that has traffic policy ``Local``; empty for none."""
    return next((policy for policy in _POLICIES if spec[policy].text() == "Local"), "")


_TLS_WHY: Final = (
    "appProtocol names TLS: clients would send the activator a handshake, and it has no "
    "certificate of the Service"
)
_HEADLESS_WHY: Final = "the Service is headless: clients connect to the port of the pods"


def _needs(asks: Annotations, what: str, why: str) -> str:
    return f"route {asks.route.value} needs {what}, and {why}; use route shared"


def _refused(service: Field, asks: Annotations) -> tuple[Refusal | None, str]:
    """Return why a Service cannot be buffered, and the word for it."""
    spec, name = service["spec"], service["metadata"]["name"].text()
    if spec["type"].text() == "ExternalName":
        return None, "type ExternalName has no pods to balance over"
    if asks.route is not Route.FRONT and not spec["selector"].mapping():
        return None, (
            f"the Service has no selector, so no workload belongs to it; only {PREFIX}route front "
            f"with {PODS_SERVICE} needs none"
        )
    if asks.route.has_slices and spec["clusterIP"].text() == "None":
        return None, _needs(asks, "a ClusterIP", _HEADLESS_WHY)
    if asks.route is Route.FRONT and asks.pods_service in ("", name):
        found = "which names the Service itself" if asks.pods_service else "which is missing"
        return Refusal.WRONG_PODS_SERVICE, (
            f"route front needs the annotation {PODS_SERVICE}, {found}: name another Service, "
            f"whose selector finds the pods"
        )
    return None, _refused_tcp(asks) if asks.tcp.chosen else ""


def _refused_tcp(asks: Annotations) -> str:
    """Return why a TCP Service cannot be buffered; empty if it can."""
    sleeps = asks.scale.min_scale == 0
    if asks.route is Route.SHARED and not asks.tcp.listen_port:
        return (
            f"{PROTOCOL} tcp needs {PREFIX}route front, or {PREFIX}listen-port where activator "
            f"local runs, and the route is shared: a connection names no host, so on the shared "
            f"port nothing names its Service"
        )
    if asks.route is Route.TAKEOVER and sleeps:
        return (
            f"{PROTOCOL} tcp with {PREFIX}route takeover needs {_MIN_SCALE} of at least 1: clients "
            f"connect to ready pods past the activators, so nothing would count the connections "
            f"of a pod that is to end; use route front"
        )
    if asks.tcp.is_direct and sleeps:
        return (
            f"{PREFIX}warm-path direct needs {_MIN_SCALE} of at least 1: clients connect to ready "
            f"pods past the activators, so nothing would count the connections of a pod that is "
            f"to end"
        )
    return ""


def _since(metadata: Field, ports: Field) -> str:
    """Return why the port of a Service has protocol TCP; empty if it does not say so."""
    name = metadata["annotations"].at(PORT).text()
    found = [
        port["appProtocol"].text()
        for port in ports.items()
        if not name or name in (port["name"].text(), str(port["port"].value))
    ]
    is_opaque = len(found) == 1 and found[0] in _OPAQUE
    return f"since appProtocol {found[0]} sets {PROTOCOL} to tcp" if is_opaque else ""


def _port(ports: Field, asks: Annotations, annotation: Field) -> tuple[BufferedPort | None, str]:
    """Return the buffered port; or None, and why none can be chosen.

    Raises:
        ManifestError: the annotation names no port of the Service.
    """
    wanted, names = asks.port, () if asks.tcp.chosen else _NAMES
    tcp = [port for port in ports.items() if port["protocol"].text(default="TCP") == "TCP"]
    known = [port["name"].text() or str(port["port"].value) for port in tcp]
    if not tcp:
        return None, "the Service has no TCP port"
    if wanted:
        found = [port for port in tcp if wanted in (port["name"].text(), str(port["port"].value))]
        if not found:
            annotation.expected(f"a TCP port of the Service, which has {', '.join(known)}")
        problem = ""
    elif len(tcp) == 1:
        found, problem = tcp, ""
    else:
        found = [port for name in names for port in tcp if port["name"].text() == name]
        problem = (
            f"none of the ports {', '.join(known)} is named {', '.join(_NAMES)}: choose one with "
            f"the annotation {PORT}"
        )
        if asks.tcp.chosen:
            listed = ", ".join(known)
            problem = f"of the ports {listed}, choose one with the annotation {PORT}"
    if not found:
        return None, problem
    chosen = read_port(found[0])
    if asks.tcp.chosen:  # TLS of the client passes as it comes too
        chosen = chosen._replace(protocol=AppProtocol.TCP, tls=False)
    return chosen, ""


def read_port(port: Field) -> BufferedPort:
    """Return a port of a Service.

    Raises:
        ManifestError: a field is wrong.
    """
    number = port["port"].port()
    target = port["targetPort"]
    name, app_protocol = port["name"].text(), port["appProtocol"].text()
    is_http2 = (app_protocol or name) in _HTTP2
    return BufferedPort(
        name,
        number,
        target.text() if isinstance(target.value, str) else target.port(default=number),
        AppProtocol.H2C if is_http2 else AppProtocol.HTTP1,
        app_protocol in _TLS,
    )


def word_of(warning: str, general: str) -> str:
    """Return the word for a warning about a Service; most have the general one."""
    return Refusal.TAKEOVER_CANNOT_LIMIT.value if warning == _CANNOT_LIMIT else general


def _warnings(metadata: Field, spec: Field, asks: Annotations) -> list[str]:
    found = policies.without_readers(metadata["annotations"], KNOWN)
    limit = asks.container_concurrency
    if text := policies.without_effect(asks.policies, limit, _CONCURRENCY):
        found.append(text)
    if asks.route.has_slices and (policy := _local(spec)):
        found.append(
            f"{policy} Local with route {asks.route.value}: a node without an activator refuses "
            f"the connections of a sleeping service, so the last pod stays while one of its nodes "
            f"has no activator"
        )
    if asks.route is Route.TAKEOVER and asks.policies.concern_each:
        given = metadata["annotations"].mapping()
        names = ", ".join(name for name in policies.OF_EACH if given.get(name))
        found.append(
            f"route takeover with {names}: clients connect to ready pods past the activators, so "
            f"that has no effect there; use route front"
        )
    if (asks.paths or asks.headers) and not asks.hosts:
        found.append(f"{PREFIX}paths and {PREFIX}headers have no effect without {PREFIX}hosts")
    if not asks.tcp.chosen:
        given = metadata["annotations"].mapping()
        if idle := [PREFIX + name for name in OF_CONNECTIONS if given.get(PREFIX + name)]:
            found.append(f"no effect without {PROTOCOL} tcp: {', '.join(idle)}")
    if asks.pods_service and asks.route is not Route.FRONT:
        found.append(f"the annotation {PODS_SERVICE} has no effect without route front")
    return found


def _about_protocol(ports: Field, chosen: BufferedPort) -> Sequence[str]:
    if chosen.protocol is AppProtocol.TCP:
        return ()
    for port in ports.items():
        protocol = port["appProtocol"].text()
        if port["name"].text() == chosen.name and protocol not in _HTTP2 | _HTTP1 | _TLS:
            return [
                f"appProtocol {protocol} is unknown: the pods are taken to speak HTTP/1.1; for a "
                f"protocol other than HTTP, set {PROTOCOL} to tcp"
            ]
    return ()


# Joins a Service of route ``front`` with its pods-service, whose selector finds the pods. Pure.
#
# Source: ServiceSpec in the Kubernetes API reference. The pods-service may be headless, and it
# need not opt in, so each Service of a cluster is read as one that may be it.


class Selecting(NamedTuple):
    """What a Service selects; tuples, since a cluster has thousands of Services.

    Attributes:
        selector: labels of its pods.
        targets: ``targetPort`` of its TCP ports, by name.
        unfit: why it can be no pods-service, as the end of a sentence; empty if it can.
    """

    selector: Selector = ()
    targets: tuple[tuple[str, str | int], ...] = ()
    unfit: str = ""


def parse_pods_service(obj: object) -> Selecting:
    """Return what any Service selects, also one that does not opt in; a broken one is unfit."""
    try:
        service = root(obj, "Service")
        metadata, spec = service["metadata"], service["spec"]
        if spec["type"].text() == "ExternalName":
            return Selecting(unfit="which has type ExternalName")
        route = metadata["annotations"].at(f"{PREFIX}route").text()
        if is_enabled(metadata) and route == Route.FRONT.value:
            return Selecting(unfit="which has route front itself")
        selector = selector_of(spec)
        targets = tuple((port.name, port.target) for port in map(read_port, spec["ports"].items()))
        return Selecting(selector, shared(targets), "" if selector else "which has no selector")
    except ManifestError as error:
        return Selecting(unfit=f"which cannot be read: {error}")


@final
class Fronts:
    """What each Service selects, and the Services with route ``front`` that it stands behind.

    Attributes:
        of: the fronts of each pods-service.
    """

    def __init__(self) -> None:
        self._selecting: dict[ObjectKey, Selecting] = {}
        self.of = Index[ObjectKey, ObjectKey]()

    def select(self, key: ObjectKey, selecting: Selecting | None) -> Collection[ObjectKey]:
        """Replace what a Service selects, None if it is deleted; return the fronts concerned."""
        before = self._selecting.pop(key, None)
        if selecting is not None:
            self._selecting[key] = selecting
        return () if selecting == before else tuple(self.of.get(key))

    def move(self, key: ObjectKey, before: PlainService | None, now: PlainService | None) -> None:
        """Replace a Service that opts in; None for one that does not."""
        for service, change in ((before, self.of.discard), (now, self.of.add)):
            if service is not None and service.is_front:
                change(service.pods, key)

    def resolve(self, service: PlainService) -> PlainService:
        """Return a Service; a front has the selector and the pods' port of its pods-service.

        A front is refused if its pods-service is not usable; the text says why.
        """
        if not service.is_front or service.port is None:
            return service
        selecting = self._selecting.get(service.pods)
        if problem := _problem(service.port, selecting):
            text = f"{PODS_SERVICE} names {service.pods.name}, {problem}"
            return replace(service, port=None, refused=text, refusal=Refusal.WRONG_PODS_SERVICE)
        assert selecting is not None
        port = service.port._replace(target=dict(selecting.targets)[service.port.name])
        return replace(service, selector=selecting.selector, port=port)


def _problem(port: BufferedPort, selecting: Selecting | None) -> str:
    """Return why a pods-service is not usable, as the end of a sentence; empty if it is."""
    if selecting is None:
        return "and there is no such Service in the namespace: create it, with the pods' selector"
    if selecting.unfit:
        return f"{selecting.unfit}: name a Service whose selector finds the pods"
    names = [name for name, _ in selecting.targets]
    if port.name in names:
        return ""
    known = ", ".join(map(repr, names)) or "none"
    return (
        f"which has no port with the name {port.name!r} of the buffered port (it has: {known}): "
        f"give both ports one name"
    )
