"""Declares each metric once: name, type, labels and HELP text, for scrapes and the reference.

A new metric needs a declaration here, and one line in ``collection`` (per revision) or ``totals``
that gives its value. This module does not know where a value comes from. A name without the prefix
``activator_`` is the name of a metric of Knative's activator, as its OpenTelemetry exporter writes
it. Sources: pkg/activator/handler/metrics.go, pkg/activator/stat_reporter.go and otelhttp.
``python -m activator.telemetry.families`` prints the table of docs/reference.md.
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

ACTIVATOR_SCOPE = METRIC_SCOPE
HTTP_SCOPE = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM

KN_CONCURRENCY = Family(
    "kn_revision_request_concurrency",
    _G,
    (*SERVICE, *SCOPE),
    "Concurrent requests of the revision, queued and in flight, as reported to the autoscaler.",
    counts="request",
)
KN_QUEUED = Family(
    "kn_revision_request_queued",
    _G,
    (*REVISION, *SCOPE),
    "Requests that are queued because no pod can take them.",
    counts="request",
    updown=True,
)
KN_ACTIVE = Family(
    "kn_revision_request_active",
    _G,
    (*REVISION, *SCOPE),
    "Requests that are in flight at pods.",
    counts="request",
    updown=True,
)
SERVER_DURATION = Family(
    "http_server_request_duration_seconds",
    _H,
    SERVER,
    "Time from a request's arrival to the end of its response.",
    DURATION_BOUNDS,
)
SERVER_REQUEST_SIZE = Family(
    "http_server_request_body_size_bytes",
    _H,
    SERVER,
    "Size of request bodies that clients sent; 0 for a body without an announced size.",
    SIZE_BOUNDS,
)
SERVER_RESPONSE_SIZE = Family(
    "http_server_response_body_size_bytes",
    _H,
    SERVER,
    "Size of response bodies that clients received; 0 for a body without an announced size.",
    SIZE_BOUNDS,
)
CLIENT_DURATION = Family(
    "http_client_request_duration_seconds",
    _H,
    CLIENT,
    "Time from sending a request to a pod to the head of the response.",
    DURATION_BOUNDS,
)
CLIENT_REQUEST_SIZE = Family(
    "http_client_request_body_size_bytes",
    _H,
    CLIENT,
    "Size of request bodies that pods received; 0 for a body without an announced size.",
    SIZE_BOUNDS,
)
CONN_REACHABLE = Family(
    "kn_activator_stats_conn_reachable",
    _G,
    ("peer", *SCOPE),
    "1 while the peer is connected, else 0. Peers are Knative's autoscaler and the scaler of "
    "Services. Knative's autoscaler has no value before the first connection.",
    counts="reachable",
)
CONN_ERRORS = Family(
    "kn_activator_stats_conn_errors_total",
    _C,
    ("peer", *SCOPE),
    "Connections to the peer that were lost. Peers are Knative's autoscaler and the scaler of "
    "Services.",
    counts="error",
)
WAITING = Family(
    "activator_waiting_requests",
    _G,
    (*REVISION, "reason"),
    "Requests that are queued, by the reason for the wait; absent while the queue is empty.",
)
WAIT = Family(
    "activator_request_wait_seconds",
    _H,
    REVISION,
    "Time in the queue, of requests that were queued and then got a pod.",
    WAIT_BOUNDS,
)
REQUESTS = Family(
    "activator_requests_total",
    _C,
    (*REVISION, "outcome"),
    "Requests that have ended, by outcome: served, timed-out, cancelled, admitted, queue-full, "
    "tenant-full, shed, upstream-failed, refused, draining, asleep, denied, not-authorized, page, "
    "wait-refused or peek.",
)
REQUEUES = Family(
    "activator_requeues_total",
    _C,
    (*REVISION, "cause"),
    "Retries and requeues of requests that had a pod, by cause: connect-failed, connect-"
    "timeout, tls-failed, connection-closed, connection-lost, untouched or application-"
    "lost.",
)
OLDEST_WAITER = Family(
    "activator_oldest_waiter_seconds",
    _G,
    REVISION,
    "Time that the first request in the queue has waited; 0 while the queue is empty.",
)
QUEUE_BYTES = Family("activator_queue_bytes", _G, REVISION, "Bytes of queued requests in memory.")
QUEUED_BY_CLASS = Family(
    "activator_queued_requests_by_class",
    _G,
    (*REVISION, "class"),
    "Requests that are queued, by the class in which they arrived: high, normal or low; absent "
    "for a revision without classes.",
)
QUEUE_FLOWS = Family(
    "activator_queue_flows",
    _G,
    REVISION,
    "Flows that have queued requests; absent for a revision without fair queuing.",
)
QUEUED_BY_MODE = Family(
    "activator_queued_requests_by_mode",
    _G,
    (*REVISION, "mode"),
    "Requests that are queued, by what their clients get in the meantime: hold, page, heartbeat or "
    "refuse; absent for a revision without `activator.dev/while-waiting`.",
)
EARLY_HEADS = Family(
    "activator_early_heads_total",
    _C,
    REVISION,
    "Event streams that the activator began before a pod responded; absent for a revision without "
    "`activator.dev/while-waiting`.",
)
WAKE_LEASE = Family(
    "activator_wake_lease_seconds",
    _G,
    REVISION,
    "Time for which open waiting pages and refused clients still count as one concurrent request; "
    "absent for a revision without `activator.dev/while-waiting`.",
)
QUEUE_LIMIT = Family(
    "activator_queued_requests_limit",
    _G,
    ("scope",),
    "Limit of queued requests, by scope: revision for each revision, all for the whole activator.",
)
QUEUE_BYTES_LIMIT = Family(
    "activator_queue_bytes_limit",
    _G,
    ("scope",),
    "Limit of the bytes of queued requests in memory, by scope: revision for each revision, "
    "all for the whole activator.",
)
UNFINISHED_HEADS = Family(
    "activator_unfinished_header_bytes",
    _G,
    (),
    "Bytes of in-progress request heads in memory.",
)
UNFINISHED_HEADS_LIMIT = Family(
    "activator_unfinished_header_bytes_limit",
    _G,
    (),
    "Limit of the bytes of in-progress request heads in memory.",
)
UNREAD = Family(
    "activator_unread_bytes",
    _G,
    (),
    "Bytes in memory of responses that clients do not read, and of requests that pods do not read.",
)
UNREAD_LIMIT = Family(
    "activator_unread_bytes_limit",
    _G,
    (),
    "Limit of the bytes in memory that clients and pods do not read.",
)
UNREAD_ENDED = Family(
    "activator_unread_ended_total",
    _C,
    ("peer",),
    "Connections and streams that ended because unread bytes reached their limit, by the "
    "peer that did not read: client or pod.",
)
TIMEOUT = Family(
    "activator_revision_timeout_seconds",
    _G,
    REVISION,
    "Time from a request's arrival within which its response must begin: the shorter of "
    "timeoutSeconds and responseStartTimeoutSeconds.",
)
TRAFFIC_FILES = Family(
    "activator_traffic_files",
    _G,
    ("use",),
    "Open files of traffic, by use: clients for connections of clients, pods for "
    "connections to pods.",
)
TRAFFIC_FILES_LIMIT = Family(
    "activator_traffic_files_limit", _G, (), "Limit of the open files of traffic."
)
TRAFFIC_FILES_WAITING = Family(
    "activator_traffic_files_waiting",
    _G,
    (),
    "Connections to pods that wait for a free file.",
)
TURNED_AWAY = Family(
    "activator_turned_away_clients_total",
    _C,
    (),
    "Client connections that got 503 because no file was free.",
)
ADAPTIVE_LIMIT = Family(
    "activator_adaptive_limit",
    _G,
    REVISION,
    "Sum over all pods of the limit of requests in flight that adaptive concurrency computes; "
    "mode observe computes it too, and does not apply it.",
    counts="request",
)
STICKY = Family(
    "activator_sticky_requests_total",
    _C,
    (*REVISION, "result"),
    "Requests with a sticky key, by result: kept, hashed or overflowed when assigned; waited each "
    "time a request begins to wait for its own pod.",
    counts="request",
)
PODS = Family(
    "activator_pods",
    _G,
    (*REVISION, "state"),
    "Pods of the revision that the activator knows, by state.",
)
CAPACITY = Family(
    "activator_revision_capacity",
    _G,
    REVISION,
    "Requests that the usable pods of the revision can have in flight at once; +Inf without "
    "a limit.",
)
WITH_ROOM = Family(
    "activator_pods_with_room",
    _G,
    REVISION,
    "Usable pods with a free slot that a queued request may use. A value above 0 while "
    "requests are queued is a fault of the activator.",
)
COLD_STARTS = Family(
    "activator_cold_starts_total",
    _C,
    (*REVISION, "outcome"),
    "Cold starts that have ended, by outcome: served, or the outcome of the last queued request.",
)
FAILED_STARTS = Family(
    "activator_failed_cold_starts",
    _G,
    REVISION,
    "Cold starts that failed in a row, at most 10; 0 as soon as a pod becomes usable.",
)
COLD_START = Family(
    "activator_cold_start_seconds",
    _H,
    (),
    "Duration of served cold starts: from the first request that found no usable pod to the "
    "first byte of a response.",
    WAIT_BOUNDS,
)
COLD_START_PHASES = Family(
    "activator_cold_start_phase_seconds",
    _H,
    ("phase",),
    "Duration of each phase of served cold starts, by the event that ends the phase: stat-"
    "sent, address, probe, probe-passed, dispatched or first-byte.",
    WAIT_BOUNDS,
)
PROBE_AHEAD = Family(
    "activator_probe_ahead_seconds",
    _H,
    (),
    "Time for which the activator used a pod because of its own probe before Kubernetes "
    "listed the pod as ready.",
    WAIT_BOUNDS,
)
CLUSTER_IP = Family(
    "activator_cluster_ip_in_use",
    _G,
    REVISION,
    "1 while requests go to the ClusterIP of the private Service because the activator "
    "cannot reach pods by their own addresses.",
)
PROBES = Family("activator_probes_total", _C, (), "Probes that the activator has sent to pods.")
PROBE_FAILURES = Family(
    "activator_probe_failures_total", _C, ("reason",), "Probes that failed, by reason."
)
PROBES_IN_FLIGHT = Family("activator_probes_in_flight", _G, (), "Probes that have no response yet.")
UPSTREAM = Family("activator_upstream_connections", _G, (), "Open connections to pods.")
UPSTREAM_IDLE = Family(
    "activator_upstream_idle_connections",
    _G,
    (),
    "Open HTTP/1 connections to pods that carry no request.",
)
UNKNOWN_REVISION = Family(
    "activator_unknown_revision_requests_total",
    _C,
    (),
    "Requests for revisions that do not exist; each gets 404.",
)
BAD_REQUESTS = Family(
    "activator_bad_requests_total", _C, (), "Malformed requests; each gets a 4xx status."
)
OBJECTS = Family("activator_objects", _G, ("kind",), "Kubernetes objects in force, by kind.")
REJECTED_OBJECTS = Family(
    "activator_rejected_objects",
    _G,
    ("kind",),
    "Kubernetes objects that the activator cannot use in their present form, by kind; the "
    "log gives the errors.",
)
WATCH_FAILURES = Family(
    "activator_watch_failures_total",
    _C,
    ("kind",),
    "Requests to the API server that failed, by kind of the requested objects.",
)
WATCH_AGE = Family(
    "activator_watch_age_seconds",
    _G,
    ("kind",),
    "Time since the API server last sent anything about a kind of objects; at most about 60 "
    "s while the watch works.",
)
BUILD_INFO = Family(
    "activator_build_info", _G, ("version",), "Always 1; the label is the version that runs."
)
READY = Family("activator_ready", _G, (), "1 while the activator reports ready, else 0.")
DRAINING = Family(
    "activator_draining", _G, (), "1 since the activator began to drain; it is not ready any more."
)
LOOP_LAG = Family(
    "activator_event_loop_lag_seconds",
    _H,
    (),
    "Delay of the event loop's timers, measured once a second; requests have the same delay.",
    LAG_BOUNDS,
)
AUTOSCALER_AGE = Family(
    "activator_autoscaler_link_age_seconds",
    _G,
    (),
    "Time since the last sign of life of the autoscaler; at most about 4 s while the "
    "connection works.",
)
MANIFESTS_AGE = Family(
    "activator_manifests_age_seconds",
    _G,
    (),
    "Time since the activator last read the folder of manifests; at most about 5 s while "
    "the folder is readable.",
)
SELF_CHECKS = Family(
    "activator_self_checks_total",
    _C,
    ("result",),
    "Comparisons of the activator's state of one kind of objects with a fresh list, by "
    "result: equal, drifted, failed or skipped.",
)
DRIFT = Family(
    "activator_drift_total",
    _C,
    ("kind",),
    "Objects with a missed event that a self-check found and corrected.",
)
DRIFT_LEFT = Family(
    "activator_drifted_objects",
    _G,
    ("kind",),
    "Objects with a missed event that the last self-check found but could not correct.",
)
CONFIG_ERRORS = Family(
    "activator_config_errors",
    _G,
    ("config_map",),
    "Keys of a ConfigMap that the activator cannot use; the log gives each error and the "
    "value in force.",
)
CERTIFICATE_EXPIRY = Family(
    "activator_certificate_expiry_timestamp_seconds",
    _G,
    ("listener",),
    "Time at which the certificate of a listener expires, in seconds since 1970.",
)
REQUEST_LOG_LINES = Family(
    "activator_request_log_lines_total",
    _C,
    (),
    "Lines that the activator made for the request log.",
)
REQUEST_LOG_FAILURES = Family(
    "activator_request_log_failures_total",
    _C,
    (),
    "Lines of the request log that only report that the template did not fit the request.",
)
LOG_LINES_DROPPED = Family(
    "activator_log_lines_dropped_total",
    _C,
    ("sink",),
    "Dropped lines of all logs and other output, by the sink that did not accept them: "
    "stdout or stderr.",
)
TRACES_EXPORTED = Family(
    "activator_traces_exported_total",
    _C,
    (),
    "Traced requests whose spans a collector has accepted.",
)
TRACES_DROPPED = Family(
    "activator_traces_dropped_total",
    _C,
    ("cause",),
    "Traced requests whose spans were dropped, by cause: queue-full or export-failed.",
)
METRIC_PUSHES = Family(
    "activator_metric_pushes_total",
    _C,
    ("result",),
    "Pushes of metrics to a collector, by result: sent or failed.",
)
AUTHORIZATION_CHECKS = Family(
    "activator_authorization_checks_total",
    _C,
    ("result",),
    "Decisions of authorization servers about requests, by result: allowed, denied, failed or "
    "cached.",
)
AUTHORIZATION_WAITING = Family(
    "activator_authorization_waiting_requests",
    _G,
    (),
    "Requests that wait for the decision of an authorization server.",
)
TARGET_INFO = Family(
    "target_info",
    _G,
    ("service_name", "service_version", "k8s_namespace_name", "k8s_pod_name"),
    "Always 1; the labels identify this activator, as OpenTelemetry's resource.",
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
