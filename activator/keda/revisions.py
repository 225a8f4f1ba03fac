"""Makes the throttler's values of a route object: its revision, its fallback and its route. Pure.

A route object is an HTTPScaledObject or an InterceptorRoute. Source: KEDA HTTP add-on,
interceptor/middleware/endpoint_resolver.go and interceptor/handler/upstream.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from activator.keda.objects import BODY_LABEL, SCALED_OBJECT, RequestRate, RouteObject, Target
from activator.objects.fields import root
from activator.plain.annotations import ReadinessPolicy
from activator.plain.problems import ProblemReason, ServiceProblem
from activator.plain.revisions import ProbeChoice, choose_probe, probe_spec
from activator.plain.service import BufferedPort, read_port
from activator.plain.workloads import ContainerProbe, PlainWorkload, Selector, selector_of
from throttler.model import (
    NO_TIMEOUT,
    AppProtocol,
    Policies,
    ProbeKind,
    ReadinessRule,
    Revision,
    RevisionID,
    RevisionKind,
    ServiceRoute,
)
from throttler.request_policies import InterceptorRules, RequestPolicies, StaticResponse

#: Seconds that a request waits if there is a fallback and no limit.
_BEFORE_FALLBACK: Final = 30.0
_H2C: Final = "kubernetes.io/h2c"
_AS_ADD_ON: Final = ProbeChoice(
    ContainerProbe(ProbeKind.TCP),
    ReadinessRule.KUBERNETES_POLICY,
    "Kubernetes must list the pod as ready, as for the KEDA HTTP add-on.",
)

#: The contents of ConfigMaps that have bodies, by name; None for a missing one.
Bodies = Mapping[str, Mapping[str, bytes] | None]


@dataclass(frozen=True, slots=True)
class InterceptorDefaults:
    """What the settings of the process say for all route objects; the defaults are the add-on's.

    Attributes:
        readiness, request, response_header: limits in seconds, see ``RouteTimeouts``; 0 is none.
        max_pending: limit of waiting requests of each object; 0 is none.
        cold_start_header: whether responses of pods get X-KEDA-HTTP-Cold-Start.
        watch_namespace: the only namespace whose objects count; empty for all namespaces.
    """

    readiness: float = 0.0
    request: float = 0.0
    response_header: float = 300.0
    max_pending: int = 0
    cold_start_header: bool = True
    watch_namespace: str = ""


class TargetService(NamedTuple):
    """The TCP ports of a Service, and the labels of its pods."""

    ports: tuple[BufferedPort, ...]
    selector: Selector


def parse_service(obj: object) -> TargetService | None:
    """Return the ports and the selector of any Service; None for one without pods by its type.

    The pods speak HTTP/1.1 unless ``appProtocol`` is kubernetes.io/h2c.

    Raises:
        ManifestError: a field is wrong.
    """
    spec = root(obj, "Service")["spec"]
    if spec["type"].text() == "ExternalName":
        return None
    ports = tuple(
        read_port(port)._replace(
            protocol=AppProtocol.H2C if port["appProtocol"].text() == _H2C else AppProtocol.HTTP1,
            tls=False,
        )
        for port in spec["ports"].items()
        if port["protocol"].text("TCP") == "TCP"
    )
    return TargetService(ports, selector_of(spec))


def port_of(target: Target, service: TargetService | None) -> BufferedPort | ServiceProblem:
    """Return the port of a target, or why requests cannot reach it.

    Arguments:
        service: None if there is no such Service.
    """
    if service is None:
        text = f"the Service {target.service} is missing, or has type ExternalName"
        return ServiceProblem(ProblemReason.NO_SUCH_SERVICE, text)
    for port in service.ports:
        if port.number == target.port or (not target.port and port.name == target.port_name):
            return port
    each = (f"{port.name or 'no name'}: {port.number}" for port in service.ports)
    found = ", ".join(each) or "none"
    wanted = target.port or repr(target.port_name)
    text = f"the Service {target.service} has no TCP port {wanted} (found: {found})"
    return ServiceProblem(ProblemReason.NO_SUCH_PORT, text)


def revision_of(
    id_: RevisionID,
    route: RouteObject,
    port: BufferedPort | ServiceProblem,
    bodies: Bodies,
    defaults: InterceptorDefaults,
    workload: PlainWorkload | None = None,
) -> Revision:
    """Return the throttler's record of a route object, or of its fallback.

    Arguments:
        id_: its kind decides which of both.
        port: of its Service; or why there is none.
        bodies: all ConfigMaps of ``route.config_maps``.
        workload: the object whose pods the Service has; None if it is unknown, or one of several.
    """
    limits, is_main = route.timeouts, id_.kind is RevisionKind.HTTP_ROUTE
    readiness = _given(limits.readiness, defaults.readiness)
    if route.fallback is not None:
        readiness = readiness or _BEFORE_FALLBACK
    rules = InterceptorRules(
        route.kind,
        str(route.target if is_main else route.fallback),
        _given(limits.request, defaults.request),
        cold_start_header=defaults.cold_start_header,
        problem=": ".join(port) if isinstance(port, ServiceProblem) else "",
    )
    if is_main:
        _, window, granularity = route.rate or RequestRate(0.0, 0.0, 1.0)
        rules = replace(
            rules,
            fallback=route.fallback is not None,
            placeholder=route.placeholder and _filled(route.placeholder, bodies),
            max_pending=route.max_pending or defaults.max_pending,
            overflow=route.overflow,
            static_routes=tuple(
                replace(each, response=_filled(each.response, bodies))
                for each in route.static_routes
            ),
            window=window,
            granularity=granularity,
        )
    requests = RequestPolicies(wait_seconds=readiness or NO_TIMEOUT, interceptor=rules)
    choice = _AS_ADD_ON
    if isinstance(port, BufferedPort) and workload is not None:
        choice = choose_probe(ReadinessPolicy.AUTO, None, workload, port.target)
    return Revision(
        id_,
        uid=route.uid,
        protocol=port.protocol if isinstance(port, BufferedPort) else AppProtocol.HTTP1,
        timeout=_given(limits.response_header, defaults.response_header) or NO_TIMEOUT,
        readiness=choice.readiness,
        probe=probe_spec(choice.probe),
        probe_why=choice.why,
        policies=Policies(requests=requests),
        behind_queue_proxy=False,
    )


def route_of(route: RouteObject) -> ServiceRoute:
    """Return which requests a route object gets."""
    return ServiceRoute(route.created, route.rules, pods=route.target.service)


def problems_of(route: RouteObject, bodies: Bodies, *, hides: bool) -> Iterator[ServiceProblem]:
    """Yield the problems of a route object itself.

    Arguments:
        bodies: as for ``revision_of``.
        hides: whether an HTTPScaledObject has the same name.
    """
    found = list(route.warnings)
    if hides:
        found.append(f"it counts instead of the {SCALED_OBJECT} of the same name")
    if not route.rules:
        found.append("it has no rules, so no request is for it")
    found += [
        f'the ConfigMap {name} is missing, or has no label {BODY_LABEL}: "true", so its '
        f"responses are errors with status 500"
        for name, files in sorted(bodies.items())
        if files is None
    ]
    return (ServiceProblem(ProblemReason.LIMITED, text) for text in found)


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _filled(response: StaticResponse, bodies: Bodies) -> StaticResponse:
    """Return a response with the contents of its ConfigMap."""
    if not response.config_map:
        return response
    return replace(response, files=bodies.get(response.config_map))
