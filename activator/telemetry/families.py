"""Declares each metric once: name, type, labels and HELP text, for scrapes and the reference.

A new metric needs a declaration here, and one line in ``collection`` that gives its value: in
``Collection`` (per revision) or in ``Totals``. This module does not know where a value comes from.
A name without the prefix ``activator_`` is the name of a metric of Knative's activator, as its
OpenTelemetry exporter writes it. Sources: pkg/activator/handler/metrics.go,
pkg/activator/stat_reporter.go and otelhttp. ``python -m activator.telemetry.families`` prints the
table of docs/reference.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from activator.knative.words import METRIC_SCOPE
from activator.records.counters import DURATION_BOUNDS, LAG_BOUNDS, SIZE_BOUNDS, WAIT_BOUNDS


class MetricKind(Enum):
    """The type of a metric; the value is the word of Prometheus' TYPE line."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: name in a scrape. A counter ends in ``_total``, a measured quantity in its base unit.
        labels: names of the labels, without ``le``.
        meaning: HELP text.
        bounds: upper bounds of a histogram's buckets.
        counts: noun in the singular for the counted things. OpenTelemetry uses it as the unit of
            a metric without a unit.
        updown: whether a gauge is a sum of increments and decrements. OpenTelemetry has a type of
            its own for such a sum.
    """

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    meaning: str
    bounds: tuple[float, ...] = ()
    counts: str = ""
    updown: bool = False


#: Labels that join with the metrics of Knative's other components about the same revision.
REVISION = ("k8s_namespace_name", "kn_revision_name")
SERVICE = ("kn_service_name", "kn_configuration_name", "kn_revision_name", "k8s_namespace_name")
#: In Knative's process two instrumentations write http_client_*. This label distinguishes them, so
#: queries may name it. The exporter's otel_scope_version is left out: it is another program's.
SCOPE = ("otel_scope_name",)
HTTP = (
    *("http_request_method", "url_scheme", "server_address"),
    *("network_protocol_name", "network_protocol_version", "http_response_status_code"),
)
SERVER = (*SERVICE, *HTTP, *SCOPE)
CLIENT = (*SERVICE, *HTTP, "server_port", *SCOPE)

#: The methods that OpenTelemetry names (RFC 9110, RFC 5789).
_METHODS = ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
METHODS = {name.encode(): name for name in _METHODS}

ACTIVATOR_SCOPE = METRIC_SCOPE
HTTP_SCOPE = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"


def gauge(name: str, meaning: str, *labels: str, counts: str = "", updown: bool = False) -> Family:
    """Return a gauge."""
    return Family(name, MetricKind.GAUGE, labels, meaning, (), counts, updown)


def counter(name: str, meaning: str, *labels: str, counts: str = "") -> Family:
    """Return a counter."""
    return Family(name, MetricKind.COUNTER, labels, meaning, (), counts)


def histogram(name: str, meaning: str, bounds: tuple[float, ...], *labels: str) -> Family:
    """Return a histogram."""
    return Family(name, MetricKind.HISTOGRAM, labels, meaning, bounds)


KN_CONCURRENCY = gauge(
    "kn_revision_request_concurrency",
    "Concurrent requests of the revision, queued and in flight, as reported to the autoscaler.",
    *(*SERVICE, *SCOPE),
    counts="request",
)
KN_QUEUED = gauge(
    "kn_revision_request_queued",
    "Queued requests: no pod can take them.",
    *(*REVISION, *SCOPE),
    counts="request",
    updown=True,
)
KN_ACTIVE = gauge(
    "kn_revision_request_active",
    "Requests in flight at pods.",
    *(*REVISION, *SCOPE),
    counts="request",
    updown=True,
)
SERVER_DURATION = histogram(
    "http_server_request_duration_seconds",
    "Time from a request's arrival to the end of its response.",
    DURATION_BOUNDS,
    *SERVER,
)
SERVER_REQUEST_SIZE = histogram(
    "http_server_request_body_size_bytes",
    "Size of request bodies that clients sent; 0 for a body without an announced size.",
    SIZE_BOUNDS,
    *SERVER,
)
SERVER_RESPONSE_SIZE = histogram(
    "http_server_response_body_size_bytes",
    "Size of response bodies that clients received; 0 for a body without an announced size.",
    SIZE_BOUNDS,
    *SERVER,
)
CLIENT_DURATION = histogram(
    "http_client_request_duration_seconds",
    "Time from sending a request to a pod to the head of the response.",
    DURATION_BOUNDS,
    *CLIENT,
)
CLIENT_REQUEST_SIZE = histogram(
    "http_client_request_body_size_bytes",
    "Size of request bodies that pods received; 0 for a body without an announced size.",
    SIZE_BOUNDS,
    *CLIENT,
)
CONN_REACHABLE = gauge(
    "kn_activator_stats_conn_reachable",
    "1 while the peer, Knative's autoscaler or the scaler of Services, is connected, else 0. The "
    "autoscaler has no value before the first connection.",
    *("peer", *SCOPE),
    counts="reachable",
)
CONN_ERRORS = counter(
    "kn_activator_stats_conn_errors_total",
    "Lost connections to the same peers.",
    *("peer", *SCOPE),
    counts="error",
)
WAITING = gauge(
    "activator_waiting_requests",
    "Queued requests, by the reason for the wait; absent while the queue is empty.",
    *(*REVISION, "reason"),
)
WAIT = histogram(
    "activator_request_wait_seconds",
    "Time in the queue of requests that then got a pod.",
    WAIT_BOUNDS,
    *REVISION,
)
REQUESTS = counter(
    "activator_requests_total",
    "Ended requests, and connections of protocol `tcp`, by outcome: served, timed-out, cancelled, "
    "admitted, queue-full, tenant-full, shed, upstream-failed, refused, draining, asleep, denied, "
    "not-authorized, page, wait-refused or peek.",
    *(*REVISION, "outcome"),
)
REQUEUES = counter(
    "activator_requeues_total",
    "Retries and requeues of requests that had a pod, by cause: connect-failed, connect-"
    "timeout, tls-failed, connection-closed, connection-lost, untouched or application-"
    "lost.",
    *(*REVISION, "cause"),
)
OLDEST_WAITER = gauge(
    "activator_oldest_waiter_seconds",
    "Wait of the first request in the queue; 0 while it is empty.",
    *REVISION,
)
QUEUE_BYTES = gauge("activator_queue_bytes", "Bytes of queued requests in memory.", *REVISION)
QUEUED_BY_CLASS = gauge(
    "activator_queued_requests_by_class",
    "Queued requests, by the class in which they arrived: high, normal or low; only with classes.",
    *(*REVISION, "class"),
)
QUEUE_FLOWS = gauge(
    "activator_queue_flows",
    "Flows with queued requests; only with fair queuing.",
    *REVISION,
)
QUEUED_BY_MODE = gauge(
    "activator_queued_requests_by_mode",
    "Queued requests, by what their clients get meanwhile: hold, page, heartbeat or refuse; only "
    "with `activator.dev/while-waiting`.",
    *(*REVISION, "mode"),
)
EARLY_HEADS = counter(
    "activator_early_heads_total",
    "Event streams that the activator began before a pod responded; only with "
    "`activator.dev/while-waiting`.",
    *REVISION,
)
WAKE_LEASE = gauge(
    "activator_wake_lease_seconds",
    "Time for which open waiting pages and refused clients still count as one concurrent request; "
    "only with `activator.dev/while-waiting`.",
    *REVISION,
)
QUEUE_LIMIT = gauge(
    "activator_queued_requests_limit",
    "Limit of queued requests, by scope: revision for each one, all for the activator.",
    "scope",
)
QUEUE_BYTES_LIMIT = gauge(
    "activator_queue_bytes_limit",
    "Limit of the bytes of queued requests in memory, by the same scopes.",
    "scope",
)
UNFINISHED_HEADS = gauge(
    "activator_unfinished_header_bytes", "Bytes of in-progress request heads in memory."
)
UNFINISHED_HEADS_LIMIT = gauge(
    "activator_unfinished_header_bytes_limit",
    "Limit of these bytes.",
)
UNREAD = gauge(
    "activator_unread_bytes",
    "Bytes in memory of responses that clients do not read, and of requests that pods do not read.",
)
UNREAD_LIMIT = gauge(
    "activator_unread_bytes_limit",
    "Limit of these bytes.",
)
UNREAD_ENDED = counter(
    "activator_unread_ended_total",
    "Connections and streams that ended at that limit, by the peer that did not read: client or "
    "pod.",
    "peer",
)
TIMEOUT = gauge(
    "activator_revision_timeout_seconds",
    "Time from a request's arrival until its response must begin: the shorter of timeoutSeconds "
    "and responseStartTimeoutSeconds.",
    *REVISION,
)
TRAFFIC_FILES = gauge(
    "activator_traffic_files",
    "Open files of traffic, by use: clients or pods.",
    "use",
)
TRAFFIC_FILES_LIMIT = gauge("activator_traffic_files_limit", "Limit of the open files of traffic.")
TRAFFIC_FILES_WAITING = gauge(
    "activator_traffic_files_waiting", "Connections to pods that wait for a free file."
)
TURNED_AWAY = counter(
    "activator_turned_away_clients_total",
    "Client connections that got 503 because no file was free.",
)
ADAPTIVE_LIMIT = gauge(
    "activator_adaptive_limit",
    "Sum over all pods of the limit that adaptive concurrency computes, also with observe.",
    *REVISION,
    counts="request",
)
STICKY = counter(
    "activator_sticky_requests_total",
    "Requests with a sticky key, by result: kept, hashed or overflowed when assigned; waited each "
    "time one begins to wait for its pod.",
    *(*REVISION, "result"),
    counts="request",
)
LEFT_ZONE = counter(
    "activator_requests_outside_zone_total",
    "Requests to pods outside of the activator's own zone, without hash and sticky.",
    *REVISION,
    counts="request",
)
PODS = gauge(
    "activator_pods",
    "Known pods of the revision, by state.",
    *(*REVISION, "state"),
)
CAPACITY = gauge(
    "activator_revision_capacity",
    "Requests that usable pods can have in flight at once; +Inf without a limit.",
    *REVISION,
)
WITH_ROOM = gauge(
    "activator_pods_with_room",
    "Usable pods with a free slot for a queued request. Above 0 while requests are queued, it is "
    "a fault of the activator.",
    *REVISION,
)
COLD_STARTS = counter(
    "activator_cold_starts_total",
    "Ended cold starts, by outcome: served, or that of the last queued request.",
    *(*REVISION, "outcome"),
)
FAILED_STARTS = gauge(
    "activator_failed_cold_starts",
    "Cold starts that failed in a row, at most 10; 0 once a pod is usable.",
    *REVISION,
)
COLD_START = histogram(
    "activator_cold_start_seconds",
    "Duration of served cold starts: from the first request that found no usable pod to the "
    "first byte of a response.",
    WAIT_BOUNDS,
)
COLD_START_PHASES = histogram(
    "activator_cold_start_phase_seconds",
    "Duration of each phase of served cold starts, by the event at its end: stat-sent, address, "
    "probe, probe-passed, dispatched or first-byte.",
    WAIT_BOUNDS,
    "phase",
)
PROBE_AHEAD = histogram(
    "activator_probe_ahead_seconds",
    "Time for which its own probe let the activator use a pod before Kubernetes listed it as "
    "ready.",
    WAIT_BOUNDS,
)
CLUSTER_IP = gauge(
    "activator_cluster_ip_in_use",
    "1 while requests go to the private Service's ClusterIP, because pods are unreachable by "
    "their own addresses.",
    *REVISION,
)
PROBES = counter("activator_probes_total", "Probes sent to pods.")
PROBE_FAILURES = counter(
    "activator_probe_failures_total", "Probes that failed, by reason.", "reason"
)
PROBES_IN_FLIGHT = gauge("activator_probes_in_flight", "Probes that have no response yet.")
UPSTREAM = gauge("activator_upstream_connections", "Open connections to pods.")
UPSTREAM_IDLE = gauge(
    "activator_upstream_idle_connections", "Open HTTP/1 connections to pods that carry no request."
)
UNKNOWN_REVISION = counter(
    "activator_unknown_revision_requests_total",
    "Requests for revisions that do not exist; each gets 404.",
)
BAD_REQUESTS = counter(
    "activator_bad_requests_total", "Malformed requests; each gets a 4xx status."
)
OBJECTS = gauge("activator_objects", "Kubernetes objects in force, by kind.", "kind")
REJECTED_OBJECTS = gauge(
    "activator_rejected_objects",
    "Kubernetes objects that the activator cannot use, by kind; the log gives the errors.",
    "kind",
)
WATCH_FAILURES = counter(
    "activator_watch_failures_total",
    "Failed requests to the API server, by kind of objects.",
    "kind",
)
WATCH_AGE = gauge(
    "activator_watch_age_seconds",
    "Time since the API server last sent anything about a kind of objects; usually at most 60 s.",
    "kind",
)
BUILD_INFO = gauge(
    "activator_build_info", "Always 1; the label is the version that runs.", "version"
)
READY = gauge("activator_ready", "1 while the activator reports ready, else 0.")
DRAINING = gauge("activator_draining", "1 since the activator began to drain.")
LOOP_LAG = histogram(
    "activator_event_loop_lag_seconds",
    "Delay of the event loop's timers, and so of requests; measured once a second.",
    LAG_BOUNDS,
)
GC_PAUSE = histogram(
    "activator_gc_pause_seconds",
    "Time of each check for reference cycles, which stops all requests.",
    LAG_BOUNDS,
)
AUTOSCALER_AGE = gauge(
    "activator_autoscaler_link_age_seconds",
    "Time since the last sign of life of the autoscaler; usually at most 4 s.",
)
MANIFESTS_AGE = gauge(
    "activator_manifests_age_seconds",
    "Time since the activator last read the folder of manifests; usually at most 5 s.",
)
SELF_CHECKS = counter(
    "activator_self_checks_total",
    "Comparisons of the state of one kind of objects with a fresh list, by result: equal, "
    "drifted, failed or skipped.",
    "result",
)
DRIFT = counter(
    "activator_drift_total",
    "Objects with a missed event, corrected by a self-check.",
    "kind",
)
DRIFT_LEFT = gauge(
    "activator_drifted_objects",
    "Objects with a missed event that the last self-check could not correct.",
    "kind",
)
CONFIG_ERRORS = gauge(
    "activator_config_errors",
    "Unusable keys of a ConfigMap; the log gives each error and the value in force.",
    "config_map",
)
CERTIFICATE_EXPIRY = gauge(
    "activator_certificate_expiry_timestamp_seconds",
    "When the certificate of a listener expires, in seconds since 1970.",
    "listener",
)
REQUEST_LOG_LINES = counter("activator_request_log_lines_total", "Lines made for the request log.")
REQUEST_LOG_FAILURES = counter(
    "activator_request_log_failures_total",
    "Lines of the request log that only report a template that did not fit the request.",
)
LOG_LINES_DROPPED = counter(
    "activator_log_lines_dropped_total",
    "Dropped lines of all output, by sink: stdout or stderr.",
    "sink",
)
TRACES_EXPORTED = counter(
    "activator_traces_exported_total", "Traced requests whose spans a collector has accepted."
)
TRACES_DROPPED = counter(
    "activator_traces_dropped_total",
    "Traced requests whose spans were dropped, by cause: queue-full or export-failed.",
    "cause",
)
METRIC_PUSHES = counter(
    "activator_metric_pushes_total",
    "Pushes of metrics to a collector, by result: sent or failed.",
    "result",
)
AUTHORIZATION_CHECKS = counter(
    "activator_authorization_checks_total",
    "Decisions of authorization servers, by result: allowed, denied, failed or cached.",
    "result",
)
AUTHORIZATION_WAITING = gauge(
    "activator_authorization_waiting_requests",
    "Requests that wait for such a decision.",
)
#: The labels of the metrics of the KEDA HTTP add-on, which have its names.
ROUTE = ("route_name", "route_namespace")
ADD_ON_REQUESTS = counter(
    "interceptor_request_count_total",
    "Ended requests of an object of the KEDA HTTP add-on; without names, requests for unknown "
    "hosts.",
    *("code", "method", *ROUTE),
    counts="request",
)
ADD_ON_DURATION = histogram(
    "interceptor_request_duration_seconds",
    "Time from a request's arrival to the end of its response, for an object of the KEDA HTTP "
    "add-on.",
    DURATION_BOUNDS,
    *("code", "method", *ROUTE),
)
ADD_ON_CONCURRENCY = gauge(
    "interceptor_request_concurrency",
    "Requests of an object of the KEDA HTTP add-on, queued and in flight.",
    *ROUTE,
    counts="request",
    updown=True,
)
ADD_ON_REJECTIONS = counter(
    "interceptor_cold_start_rejections_total",
    "Requests of an object of the KEDA HTTP add-on, rejected because too many waited.",
    *ROUTE,
    counts="request",
)
ADD_ON_PENDING = gauge(
    "interceptor_pending_request_count",
    "interceptor_request_concurrency, by the name of version 0.12 of the add-on.",
    "host",
    counts="request",
    updown=True,
)
TARGET_INFO = gauge(
    "target_info",
    "Always 1; the labels identify this activator.",
    *("service_name", "service_version", "k8s_namespace_name", "k8s_pod_name"),
)


def _alias(family: Family, name: str, labels: tuple[str, ...] | None = None) -> Family:
    meaning = f"Deprecated alias of {family.name}."
    labels = family.labels if labels is None else labels
    return replace(family, name=name, labels=labels, meaning=meaning)


#: Old names, deprecated in 0.2: version 0.4 no longer exports them (docs/releases.md).
OLD_COLD_STARTS = _alias(COLD_STARTS, "activator_wake_ups_total")
OLD_COLD_START = _alias(COLD_START, "activator_wake_up_seconds")
OLD_COLD_START_PHASES = _alias(COLD_START_PHASES, "activator_wake_up_phase_seconds")
OLD_QUEUED = _alias(KN_QUEUED, "activator_queued_requests", labels=REVISION)
OLD_ACTIVE = _alias(KN_ACTIVE, "activator_active_requests", labels=REVISION)

#: All metrics that this module declares, in the order of their declarations.
FAMILIES = tuple(value for value in list(globals().values()) if isinstance(value, Family))


def markdown(families: Iterable[Family]) -> str:
    """Return the reference's table."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
        lines.append(f"| `{family.name}` | {family.kind.value} | {labels} | {family.meaning} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown(FAMILIES))
