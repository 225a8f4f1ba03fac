"""Reads the ConfigMap ``config-observability``: request log, metrics, traces and profiling.

Decides which keys contradict each other. Knows neither the template engine nor an exporter.
Knative's counterparts: pkg/observability/config.go, and in knative.dev/pkg
observability/{metrics,tracing,runtime}/config.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from activator.knative.configmaps.following import ConfigMapReader, Read, excerpt
from activator.settings.values import BOOLEAN, TEXT, Kind, choice, duration

ENABLE_REQUEST_LOG: Final = "logging.enable-request-log"
REQUEST_LOG_TEMPLATE: Final = "logging.request-log-template"
ENABLE_PROBE_REQUEST_LOG: Final = "logging.enable-probe-request-log"
METRICS_PROTOCOL: Final = "metrics-protocol"
METRICS_ENDPOINT: Final = "metrics-endpoint"
METRICS_EXPORT_INTERVAL: Final = "metrics-export-interval"
TRACING_PROTOCOL: Final = "tracing-protocol"
TRACING_ENDPOINT: Final = "tracing-endpoint"
TRACING_SAMPLING_RATE: Final = "tracing-sampling-rate"
RUNTIME_PROFILING: Final = "runtime-profiling"
RUNTIME_EXPORT_INTERVAL: Final = "runtime-export-interval"

NONE: Final = "none"
PROMETHEUS: Final = "prometheus"
STDOUT: Final = "stdout"
GRPC: Final = "grpc"
HTTP_PROTOBUF: Final = "http/protobuf"
OTLP: Final = (HTTP_PROTOBUF, GRPC)

#: Knative's template, to the blank: log pipelines that were built for Knative expect it.
DEFAULT_TEMPLATE: Final = (
    '{"httpRequest": {"requestMethod": "{{.Request.Method}}", '
    '"requestUrl": "{{js .Request.RequestURI}}", '
    '"requestSize": "{{.Request.ContentLength}}", '
    '"status": {{.Response.Code}}, '
    '"responseSize": "{{.Response.Size}}", '
    '"userAgent": "{{js .Request.UserAgent}}", '
    '"remoteIp": "{{js .Request.RemoteAddr}}", '
    '"serverIp": "{{.Revision.PodIP}}", '
    '"referer": "{{js .Request.Referer}}", '
    '"latency": "{{.Response.Latency}}s", '
    '"protocol": "{{.Request.Proto}}"}, '
    '"traceId": "{{.TraceID}}"}'
)


@dataclass(frozen=True, slots=True)
class RequestLogConfig:
    """Whether each request is logged, and the Go template of its line."""

    enabled: bool = False
    template: str = DEFAULT_TEMPLATE


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The destination of metrics, in addition to the Prometheus port, which is always open.

    Attributes:
        protocol: none, prometheus, http/protobuf or grpc.
        endpoint: the collector; not empty for the last two, empty for the first.
        export_interval: seconds between two exports; 0 for the exporter's own default.
    """

    protocol: str = NONE
    endpoint: str = ""
    export_interval: float = 0.0


@dataclass(frozen=True, slots=True)
class TracingConfig:
    """The destination of traces.

    Attributes:
        protocol: none, stdout, http/protobuf or grpc.
        endpoint: the collector; not empty for the last two, empty for the others.
        sampling_rate: share of traced requests, from 0 to 1.
    """

    protocol: str = NONE
    endpoint: str = ""
    sampling_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class ObservabilityConfig:
    """The values of the ConfigMap.

    Attributes:
        profiling: whether the profiling port serves profiles.
        runtime_export_interval: seconds between two reads of the runtime's own figures.
    """

    request_log: RequestLogConfig = field(default_factory=RequestLogConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    tracing: TracingConfig = field(default_factory=TracingConfig)
    profiling: bool = False
    runtime_export_interval: float = 15.0


_INTERVAL: Final = duration(zero=True)
_METRICS_PROTOCOL: Final = choice(NONE, PROMETHEUS, *OTLP)
_TRACING_PROTOCOL: Final = choice(NONE, STDOUT, *OTLP)
_PROFILING: Final = choice("enabled", "disabled")
_RATE_TEXT: Final = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_LISTEN_ADDRESS: Final = re.compile(r"[^:\s]*:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")


def _rate(text: str) -> float:
    # float() alone would also accept nan, blanks and underscores.
    if len(text) > 100 or not _RATE_TEXT.fullmatch(text) or not 0 <= float(text) <= 1:
        raise ValueError(f"not a share: {text!r}")
    return float(text)


_RATE: Final = Kind(_rate, "a number from 0 to 1", "SHARE")

CheckTemplate = Callable[[str], object]
"""Raises ``ValueError``, with the position and the reason, for an unusable template."""


def observability_reader(check_template: CheckTemplate) -> Read[ObservabilityConfig]:
    """Return a reader of the ConfigMap's keys (activator.knative.configmaps.following.Read).

    Arguments:
        check_template: raises ``ValueError`` for an unusable template.
    """
    return partial(_read, check_template)


def _read(
    check_template: CheckTemplate, reader: ConfigMapReader, last_good: ObservabilityConfig
) -> ObservabilityConfig:
    # Only checked for its form: the activator never logs probes.
    reader.settle(reader.read(ENABLE_PROBE_REQUEST_LOG, BOOLEAN, False), False)
    profiling = reader.read(RUNTIME_PROFILING, _PROFILING, "disabled") == "enabled"
    in_force = "enabled" if last_good.profiling else "disabled"
    profiling = reader.settle(profiling, last_good.profiling, in_force)
    interval = reader.read(RUNTIME_EXPORT_INTERVAL, _INTERVAL, 15.0)
    return ObservabilityConfig(
        _request_log(check_template, reader, last_good.request_log),
        _metrics(reader, last_good.metrics),
        _tracing(reader, last_good.tracing),
        profiling,
        reader.settle(interval, last_good.runtime_export_interval),
    )


def _request_log(
    check_template: CheckTemplate, reader: ConfigMapReader, last_good: RequestLogConfig
) -> RequestLogConfig:
    enabled = reader.read(ENABLE_REQUEST_LOG, BOOLEAN, False)
    template = reader.read(REQUEST_LOG_TEMPLATE, TEXT, DEFAULT_TEMPLATE)
    if enabled and not template:
        reader.refuse(REQUEST_LOG_TEMPLATE, f"{ENABLE_REQUEST_LOG} is true, but this is empty")
    try:
        check_template(template)
    except ValueError as error:
        reader.refuse(REQUEST_LOG_TEMPLATE, f"{excerpt(template)} cannot be used: {error}")
    stays = "the previous template stays in force"
    stays = stays if last_good.enabled else "the request log stays off"
    return reader.settle(RequestLogConfig(enabled, template), last_good, stays=stays)


def _metrics(reader: ConfigMapReader, last_good: MetricsConfig) -> MetricsConfig:
    protocol = reader.read(METRICS_PROTOCOL, _METRICS_PROTOCOL, NONE)
    interval = reader.read(METRICS_EXPORT_INTERVAL, _INTERVAL, 0.0)
    endpoint = _endpoint(reader, METRICS_PROTOCOL, METRICS_ENDPOINT, protocol)
    if protocol == PROMETHEUS and endpoint and not _LISTEN_ADDRESS.fullmatch(endpoint):
        reader.refuse(METRICS_ENDPOINT, f"{endpoint!r} cannot be used: accepted is HOST:PORT")
    return reader.settle(MetricsConfig(protocol, endpoint, interval), last_good, _at(last_good))


def _tracing(reader: ConfigMapReader, last_good: TracingConfig) -> TracingConfig:
    protocol = reader.read(TRACING_PROTOCOL, _TRACING_PROTOCOL, NONE)
    rate = reader.read(TRACING_SAMPLING_RATE, _RATE, 0.0)
    endpoint = _endpoint(reader, TRACING_PROTOCOL, TRACING_ENDPOINT, protocol)
    return reader.settle(TracingConfig(protocol, endpoint, rate), last_good, _at(last_good))


def _endpoint(reader: ConfigMapReader, protocol_key: str, endpoint_key: str, protocol: str) -> str:
    """Return the endpoint; empty for a protocol without one.

    So an operator turns traces off by one word, and the endpoint may stay in the ConfigMap.
    """
    endpoint = reader.read(endpoint_key, TEXT, "")
    if protocol in OTLP and not endpoint:
        reader.refuse(endpoint_key, f"{protocol_key} is {protocol}, which needs an endpoint")
    return "" if protocol in (NONE, STDOUT) else endpoint


def _at(config: MetricsConfig | TracingConfig) -> str:
    return f"{config.protocol} {config.endpoint}".rstrip()
