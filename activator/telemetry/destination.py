"""Decides where traces and metrics are sent, from the ConfigMap and the environment.

The module sends nothing, and knows none of OpenTelemetry's packages. Sources:
knative.dev/pkg/observability (endpointFor), OpenTelemetry's specification of
OTEL_EXPORTER_OTLP_ENDPOINT, and Go's WithEndpointURL.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from urllib.parse import urlsplit

HTTP = "http/protobuf"
GRPC = "grpc"
STDOUT = "stdout"


class Signal(Enum):
    """A kind of telemetry; the value is the last part of its path over HTTP."""

    TRACES = "traces"
    METRICS = "metrics"


@dataclass(frozen=True, slots=True)
class Identity:
    """The resource attributes of the process."""

    service_name: str
    namespace: str
    pod_name: str


@dataclass(frozen=True, slots=True)
class Destination:
    """The collector, or stdout.

    Attributes:
        protocol: http/protobuf, grpc or stdout.
        url: with scheme and, for HTTP, the whole path; empty for stdout.
    """

    protocol: str
    url: str = ""

    def __str__(self) -> str:
        return f"{self.url} ({self.protocol})" if self.url else self.protocol


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The endpoints of the environment, which wins over the ConfigMap; empty where not set.

    Attributes:
        general: OTEL_EXPORTER_OTLP_ENDPOINT, to which HTTP adds the signal's path.
        traces, metrics: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and …_METRICS_ENDPOINT, used
            unchanged.
    """

    general: str = ""
    traces: str = ""
    metrics: str = ""

    def destination(self, signal: Signal, protocol: str, configured: str) -> Destination:
        """Return the destination of a signal.

        Arguments:
            protocol: the ConfigMap's protocol.
            configured: the ConfigMap's endpoint: a URL, or ``host:port``, which means https as
                in Knative. HTTP's usual path is added to a URL without a path.
        """
        if protocol == STDOUT:
            return Destination(STDOUT)
        own = self.traces if signal is Signal.TRACES else self.metrics
        path = f"/v1/{signal.value}"
        if own:
            return Destination(protocol, with_scheme(own))
        if self.general:
            base = with_scheme(self.general)
            return Destination(protocol, base if protocol == GRPC else base.rstrip("/") + path)
        url = with_scheme(configured)
        bare = protocol == HTTP and not urlsplit(url).path
        return Destination(protocol, url + path if bare else url)


def with_scheme(endpoint: str) -> str:
    """Return a URL; ``host:port`` alone means https."""
    return endpoint if "://" in endpoint else f"https://{endpoint}"
