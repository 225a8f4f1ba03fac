"""Reads HTTPScaledObjects and InterceptorRoutes of the KEDA HTTP add-on into one record.

The checks are those of the add-on's CRDs, since a folder has no API server. Pure. Sources: KEDA
HTTP add-on, operator/apis/http/v1alpha1 and v1beta1, pkg/routing/table.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, NamedTuple

from activator.objects.fields import Field, root, show
from activator.plain.route_table import without_port
from activator.settings.values import parse_duration
from throttler.request_policies import HeaderRule, RouteRule, StaticResponse, StaticRoute

GROUP: Final = "http.keda.sh"
SCALED_OBJECT: Final = "HTTPScaledObject"
ROUTE: Final = "InterceptorRoute"
#: The label of ConfigMaps that may be the body of a response; its value is ``true``.
BODY_LABEL: Final = "http.keda.sh/response-body"

_MAX_PORT: Final = 65_535
_LONGEST_BODY: Final = 32_768
#: Seconds that a request waits before it goes to a fallback, unless the object says another time.
_FALLBACK_AFTER: Final = 30
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: A field value that a message can have (RFC 9110 section 5.5).
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
#: Fields of a response that describe the message itself; the activator sets them.
_FRAMING: Final = frozenset(
    (
        *("connection", "content-length", "date", "keep-alive", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade"),
    )
)
#: Most unknown fields that a text names.
_SHOWN: Final = 5


class Target(NamedTuple):
    """A port of a Service in the namespace of the object: its number, or its name if that is 0."""

    service: str
    port: int
    port_name: str

    def __str__(self) -> str:
        return f"{self.service}:{self.port or self.port_name}"


class RequestRate(NamedTuple):
    """Requests per second that one pod is meant for, over a window in seconds."""

    target: float
    window: float
    granularity: float


class RouteTimeouts(NamedTuple):
    """Limits in seconds; 0 is none, and None is the setting of the process."""

    readiness: float | None = None
    request: float | None = None
    response_header: float | None = None


@dataclass(frozen=True, slots=True)
class RouteObject:
    """What an object asks for.

    Attributes:
        kind: ``SCALED_OBJECT`` or ``ROUTE``.
        created: ``creationTimestamp``, in RFC 3339.
        rules: which requests are for it; without any there is none.
        target: where they go.
        fallback: where they go when no pod is ready in time; None without one.
        placeholder: what they get while no pod is ready; None without one. The bodies of ConfigMaps
            are missing here, as in ``static_routes``.
        max_pending: limit of waiting requests; 0 for the setting of the process.
        overflow: whether requests beyond that limit get the placeholder, and the others wait.
        static_routes: the first that matches counts.
        concurrency: requests in flight that one pod is meant for; None if that is no metric.
        rate: the other metric; None if it is none.
        warnings: sentences about what has no effect.
    """

    kind: str
    uid: str
    created: str
    rules: tuple[RouteRule, ...]
    target: Target
    timeouts: RouteTimeouts = RouteTimeouts()  # noqa: RUF009  # a tuple, so all may share it
    fallback: Target | None = None
    placeholder: StaticResponse | None = None
    max_pending: int = 0
    overflow: bool = False
    static_routes: tuple[StaticRoute, ...] = ()
    concurrency: float | None = None
    rate: RequestRate | None = None
    warnings: tuple[str, ...] = ()

    @property
    def config_maps(self) -> frozenset[str]:
        """The names of the ConfigMaps that have bodies of its responses."""
        responses = *(each.response for each in self.static_routes), self.placeholder
        return frozenset(each.config_map for each in responses if each and each.config_map)


def parse_scaled_object(obj: object) -> RouteObject:
    """Return what an HTTPScaledObject asks for.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Raises:
        ManifestError: a field is wrong, or contradicts another one.
    """
    found = root(obj, SCALED_OBJECT)
    metadata, spec = found["metadata"], found["spec"]
    target, failover = spec["scaleTargetRef"], spec["coldStartTimeoutFailoverRef"]
    metric, timeouts = spec["scalingMetric"], spec["timeouts"]
    if metric["concurrency"].value is not None and metric["requestRate"].value is not None:
        metric.fail("has concurrency and requestRate: one of both can count")
    rate = _rate(metric["requestRate"], default=100)
    wait = _duration(timeouts["conditionWait"])
    fallback = None
    if failover.value is not None:
        fallback = _target(failover)
        wait = failover["timeoutSeconds"].whole(default=_FALLBACK_AFTER)
    pending = _count(spec["targetPendingRequests"], default=100)
    return RouteObject(
        SCALED_OBJECT,
        metadata["uid"].text(),
        metadata["creationTimestamp"].text(),
        (_rule(spec, spec["pathPrefixes"].items()),),
        _target(target),
        RouteTimeouts(wait or None, None, _duration(timeouts["responseHeader"]) or None),
        fallback,
        concurrency=None if rate else _count(metric["concurrency"]["targetValue"], default=pending),
        rate=rate,
        warnings=tuple(_about_hosts([spec])),
    )


def parse_route(obj: object) -> RouteObject:
    """Return what an InterceptorRoute asks for.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Raises:
        ManifestError: a field is wrong, or contradicts another one.
    """
    found = root(obj, ROUTE)
    metadata, spec = found["metadata"], found["spec"]
    metric, cold, timeouts = spec["scalingMetric"], spec["coldStart"], spec["timeouts"]
    concurrency, rate = metric["concurrency"], _rate(metric["requestRate"])
    if concurrency.value is None and rate is None:
        metric.fail("expected concurrency or requestRate, got neither")
    service, placeholder = cold["fallback"]["service"], cold["placeholder"]
    pending, overflow = cold["maxPendingRequests"], cold["overflow"]
    if cold.value is not None and not any(
        each.value is not None for each in (service, placeholder, pending)
    ):
        cold.fail("expected fallback, placeholder or maxPendingRequests, got none of them")
    if overflow.text("Reject") not in ("Reject", "Placeholder"):
        overflow.expected("Reject or Placeholder")
    if overflow.value == "Placeholder" and placeholder.value is None:
        overflow.fail("Placeholder needs a placeholder")
    rules = [each["rules"] for each in (spec, *spec["staticRoutes"].items())]
    warnings = list(_about_hosts(rule for each in rules for rule in each.items()))
    if spec["sessionPersistence"].value is not None:
        warnings.append(
            "spec.sessionPersistence has no effect: remove it, or annotate the Service with "
            "activator.dev/enabled and activator.dev/sticky, in place of this object"
        )
    return RouteObject(
        ROUTE,
        metadata["uid"].text(),
        metadata["creationTimestamp"].text(),
        _rules(spec["rules"]),
        _target(spec["target"]),
        RouteTimeouts(
            *(_duration(timeouts[name]) for name in ("readiness", "request", "responseHeader"))
        ),
        None if service.value is None else _target(service, "name"),
        None if placeholder.value is None else _static(placeholder["response"], 503),
        _count(pending, default=0),
        overflow.value == "Placeholder",
        tuple(map(_static_route, spec["staticRoutes"].items())),
        None if concurrency.value is None else _count(concurrency["targetValue"]),
        rate,
        tuple(warnings),
    )


def parse_body(obj: object) -> dict[str, bytes] | None:
    """Return the contents of a ConfigMap that may be the body of a response; None for others.

    Raises:
        ManifestError: a field is wrong.
    """
    found = root(obj, "ConfigMap")
    if found["metadata"]["labels"].at(BODY_LABEL).value != "true":
        return None
    data = found["data"]
    return {str(key): data.at(str(key)).text().encode() for key in data.mapping()}


PARSERS: Final[Mapping[str, Callable[[object], RouteObject]]] = {
    SCALED_OBJECT: parse_scaled_object,
    ROUTE: parse_route,
}


# -- unknown fields

_Fields = Mapping[str, Any]


def _names(text: str) -> _Fields:
    return dict.fromkeys(text.split())


_HEADER: Final = _names("name value")
_RULE: Final = {"hosts": None, "paths": _names("value"), "headers": _HEADER}
_RESPONSE: Final = {**_names("statusCode body headers"), "bodyFromConfigMap": _names("name key")}
_METRIC: Final = {
    "concurrency": _names("targetValue"),
    "requestRate": _names("targetValue window granularity"),
}
#: The fields of ``spec`` by kind, each with its own fields; None for any.
_FIELDS: Final[Mapping[str, _Fields]] = {
    SCALED_OBJECT: {
        **_names("hosts pathPrefixes targetPendingRequests scaledownPeriod initialCooldownPeriod"),
        "headers": _HEADER,
        "scaleTargetRef": _names("name apiVersion kind service port portName"),
        "coldStartTimeoutFailoverRef": _names("service port portName timeoutSeconds"),
        "replicas": _names("min max"),
        "scalingMetric": _METRIC,
        "timeouts": _names("conditionWait responseHeader"),
    },
    ROUTE: {
        "target": _names("service port portName"),
        "rules": _RULE,
        "scalingMetric": _METRIC,
        "coldStart": {
            **_names("maxPendingRequests overflow"),
            "fallback": {"service": _names("name port portName")},
            "placeholder": {"response": _RESPONSE},
        },
        "staticRoutes": {"rules": _RULE, "response": _RESPONSE, "responseMode": None},
        "timeouts": _names("readiness request responseHeader"),
        "sessionPersistence": None,
    },
}


def unknown_fields(obj: object, kind: str) -> str:
    """Return the fields that the CRD does not have: an API server would drop them.

    Arguments:
        obj: the object as decoded from JSON or YAML, valid or not.

    Returns:
        A sentence without a full stop; empty if each field is known.

    Raises:
        ManifestError: it is no object.
    """
    return "; ".join(islice(_unknown(root(obj, kind)["spec"], _FIELDS[kind]), _SHOWN))


def _unknown(field: Field, known: _Fields | None) -> Iterator[str]:
    if known is None:
        return
    for each in field.items() if isinstance(field.value, list) else (field,):
        for name in each.value if isinstance(each.value, dict) else ():
            if name in known:
                yield from _unknown(each[name], known[name])
                continue
            near = get_close_matches(str(name), known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"the field {show(f'{each.path}.{name}')} is unknown and has no effect{hint}"


# -- parts of objects


def _target(field: Field, service: str = "service") -> Target:
    """Return a port of a Service; exactly one of its number and its name must be given."""
    name, number, port_name = field[service], field["port"], field["portName"]
    if not name.text():
        name.expected("the name of a Service")
    if (number.value is None) is (port_name.value is None):
        field.fail("expected either port or portName")
    return Target(
        name.name(), number.whole(minimum=1, maximum=_MAX_PORT, default=0), port_name.text()
    )


def _hosts(field: Field) -> tuple[str, ...]:
    """Return hosts as the route table has them: without port, in lower case."""
    return tuple(
        without_port(each.text().strip().lower()).rstrip(".") or "*" for each in field.items()
    )


def _about_hosts(rules: Iterable[Field]) -> Iterator[str]:
    for host in (each for rule in rules for each in rule["hosts"].items()):
        text = host.text()
        if "/" in text or without_port(text) != text:
            effect = "no request fits" if "/" in text else "the port is ignored"
            yield f"{host.path} {show(text)}: a host has no scheme, port or path, so {effect}"


def _rule(field: Field, prefixes: Iterable[Field]) -> RouteRule:
    return RouteRule(
        _hosts(field["hosts"]),
        tuple(each.text().strip("/") for each in prefixes),
        tuple(map(_header, field["headers"].items())),
    )


def _header(field: Field) -> HeaderRule:
    name, value = field["name"], field["value"]
    if not _TOKEN.fullmatch(name.text()):
        name.expected("the name of a header field")
    if not _VALUE.fullmatch(value.text()):
        value.expected("the value of a header field")
    return HeaderRule(
        name.text().lower().encode(), None if value.value is None else value.text().encode()
    )


def _rules(field: Field) -> tuple[RouteRule, ...]:
    """Return the rules of an InterceptorRoute."""
    return tuple(_rule(each, map(_path, each["paths"].items())) for each in field.items())


def _path(field: Field) -> Field:
    if not field["value"].text():
        field["value"].expected("a path")
    return field["value"]


def _static_route(field: Field) -> StaticRoute:
    mode = field["responseMode"]
    if mode.text("WhenUnavailable") not in ("WhenUnavailable", "Always"):
        mode.expected("WhenUnavailable or Always")
    rules = _rules(field["rules"])
    if not rules:
        field["rules"].expected("at least one rule")
    return StaticRoute(rules, _static(field["response"], 200), mode.value == "Always")


def _static(field: Field, default: int) -> StaticResponse:
    if field.value is None:
        field.expected("a response")
    body, source, headers = field["body"], field["bodyFromConfigMap"], field["headers"]
    if body.value is not None and source.value is not None:
        field.fail("expected at most one of body and bodyFromConfigMap")
    if len(body.text()) > _LONGEST_BODY:
        body.fail(f"expected at most {_LONGEST_BODY} characters")
    lines = []
    for name in map(str, headers.mapping()):
        value = headers.at(name)
        if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value.text())):
            value.expected("a header field with a value in one line")
        if name.lower() not in _FRAMING:
            lines.append(f"\r\n{name}: {value.text().strip()}")
    config_map, key = source["name"], source["key"].text()
    if source.value is not None and not config_map.text():
        config_map.expected("the name of a ConfigMap")
    return StaticResponse(
        field["statusCode"].whole(minimum=100, maximum=599, default=default),
        "".join(lines).encode(),
        body.text().encode(),
        {} if source.value is None else None,
        key,
        source.value is not None and not key,
        config_map.text(),
    )


def _count(field: Field, default: int | None = None) -> int:
    """Return an integer from 1; without a default it must be given."""
    if field.value is None and default is None:
        field.expected("an integer from 1")
    return field.whole(minimum=1, default=default or 0)


def _rate(field: Field, default: int | None = None) -> RequestRate | None:
    if field.value is None:
        return None
    number = _count(field["targetValue"], default)
    window, granularity = (
        _duration(field[name]) or default
        for name, default in (("window", 60.0), ("granularity", 1.0))
    )
    if granularity > window:
        field["granularity"].expected("at most the window")
    return RequestRate(number, window, granularity)


def _duration(field: Field) -> float | None:
    """Return the seconds of a duration as Go writes it; None if it is missing."""
    if field.value is None:
        return None
    try:
        return parse_duration(field.text())
    except ValueError:
        field.expected("a duration such as 1m30s or 500ms")
