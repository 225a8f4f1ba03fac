"""The one table of metrics: name, type, labels, meaning. HELP texts and the reference come from it.

Decides names only; it must not know where a value comes from. The names without the prefix
``activator_`` are those of Knative's activator as its OpenTelemetry exporter writes them
(pkg/activator/handler/metrics.go, pkg/activator/stat_reporter.go and otelhttp).
``python -m activator.telemetry.families`` prints the reference's table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from activator.knative.names import METRIC_SCOPE
from activator.records.counters import DURATION_BOUNDS, LAG_BOUNDS, SIZE_BOUNDS, WAIT_BOUNDS


class Kind(Enum):
    """The type of a metric; the value is what Prometheus' TYPE line says."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: as scraped; a counter ends in ``_total``, a measured quantity in its base unit.
        labels: names of the labels, without ``le``.
        meaning: HELP text.
        bounds: upper bounds of a histogram's buckets.
        counts: what is counted, in the singular: OpenTelemetry's unit of what has none.
        updown: whether a gauge is a sum of what came and went, which OpenTelemetry tells apart.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    bounds: tuple[float, ...] = ()
    counts: str = ""
    updown: bool = False


#: Joinable with what Knative's other parts say of the revision.
REVISION = ("k8s_namespace_name", "kn_revision_name")
SERVICE = ("kn_service_name", "kn_configuration_name", "kn_revision_name", "k8s_namespace_name")
#: In Knative's process two instrumentations write http_client_*, told apart by this label, so
#: queries may name it. The exporter's otel_scope_version would be another program's, and is left
#: out.
SCOPE = ("otel_scope_name",)
HTTP = (
    *("http_request_method", "url_scheme", "server_address"),
    *("network_protocol_name", "network_protocol_version", "http_response_status_code"),
)
SERVER = (*SERVICE, *HTTP, *SCOPE)
CLIENT = (*SERVICE, *HTTP, "server_port", *SCOPE)

ACTIVATOR_SCOPE = METRIC_SCOPE
HTTP_SCOPE = "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

_G, _C, _H = Kind.GAUGE, Kind.COUNTER, Kind.HISTOGRAM

KN_CONCURRENCY = Family(
    "kn_revision_request_concurrency",
    _G,
    (*SERVICE, *SCOPE),
    "Concurrent requests of the revision, waiting and at pods, as told to the autoscaler.",
    counts="request",
)
KN_QUEUED = Family(
    "kn_revision_request_queued",
    _G,
    (*REVISION, *SCOPE),
    "Requests that wait for a pod now.",
    counts="request",
    updown=True,
)
KN_ACTIVE = Family(
    "kn_revision_request_active",
    _G,
    (*REVISION, *SCOPE),
    "Requests that are at pods now.",
    counts="request",
    updown=True,
)
SERVER_DURATION = Family(
    "http_server_request_duration_seconds",
    _H,
    SERVER,
    "Time from a request's arrival to the end of its answer.",
    DURATION_BOUNDS,
)
SERVER_REQUEST_SIZE = Family(
    "http_server_request_body_size_bytes",
    _H,
    SERVER,
    "Size of request bodies that clients sent; 0 where it was not announced.",
    SIZE_BOUNDS,
)
SERVER_RESPONSE_SIZE = Family(
    "http_server_response_body_size_bytes",
    _H,
    SERVER,
    "Size of response bodies that clients were sent; 0 where it was not announced.",
    SIZE_BOUNDS,
)
CLIENT_DURATION = Family(
    "http_client_request_duration_seconds",
    _H,
    CLIENT,
    "Time from sending a request to a pod to the head of its answer.",
    DURATION_BOUNDS,
)
CLIENT_REQUEST_SIZE = Family(
    "http_client_request_body_size_bytes",
    _H,
    CLIENT,
    "Size of request bodies that pods were sent; 0 where it was not announced.",
    SIZE_BOUNDS,
)
CONN_REACHABLE = Family(
    "kn_activator_stats_conn_reachable",
    _G,
    ("peer", *SCOPE),
    "Whether the autoscaler is connected; absent before the first connection.",
    counts="reachable",
)
CONN_ERRORS = Family(
    "kn_activator_stats_conn_errors_total",
    _C,
    ("peer", *SCOPE),
    "Connections to the autoscaler that were lost.",
    counts="error",
)

QUEUED = Family("activator_queued_requests", _G, REVISION, "Requests that wait for a pod now.")
WAITING = Family(
    "activator_waiting_requests",
    _G,
    (*REVISION, "reason"),
    "Requests that wait for a pod now, by why they do; absent where none waits.",
)
ACTIVE = Family("activator_active_requests", _G, REVISION, "Requests that are at pods now.")
WAIT = Family(
    "activator_request_wait_seconds",
    _H,
    REVISION,
    "Time in the queue, of requests that had to wait and got a pod.",
    WAIT_BOUNDS,
)
REQUESTS = Family(
    "activator_requests_total",
    _C,
    (*REVISION, "outcome"),
    "Requests that have ended, by how: served, timed-out, cancelled, queue-full, shed, "
    "upstream-failed or draining.",
)
REQUEUES = Family(
    "activator_requeues_total",
    _C,
    (*REVISION, "cause"),
    "Requests that were given to a pod once more, by why: connect-failed, connect-timeout, "
    "tls-failed, connection-closed, connection-lost, untouched or application-lost.",
)
WAKE_UPS = Family(
    "activator_wake_ups_total",
    _C,
    (*REVISION, "outcome"),
    "Wake-ups that have ended, by how: served, or how the last request that waited ended.",
)
WAKE_UP = Family(
    "activator_wake_up_seconds",
    _H,
    (),
    "Time from the first request that waited while no pod was usable to the first byte of an "
    "answer, of wake-ups that were served.",
    WAIT_BOUNDS,
)
WAKE_UP_PHASES = Family(
    "activator_wake_up_phase_seconds",
    _H,
    ("phase",),
    "Time from one phase of a wake-up to the next, by the one that it ended with: stat-sent, "
    "address, probe, probe-passed, dispatched or first-byte; of wake-ups that were served.",
    WAIT_BOUNDS,
)
PROBE_AHEAD = Family(
    "activator_probe_ahead_seconds",
    _H,
    (),
    "Time for which pods were in use by our own probe before Kubernetes listed them as ready.",
    WAIT_BOUNDS,
)
OLDEST_WAITER = Family(
    "activator_oldest_waiter_seconds",
    _G,
    REVISION,
    "How long the first request in the queue has waited; 0 when none waits.",
)
QUEUE_BYTES = Family(
    "activator_queue_bytes", _G, REVISION, "Bytes of waiting requests that are held in memory."
)
TIMEOUT = Family(
    "activator_revision_timeout_seconds",
    _G,
    REVISION,
    "Time from a request's arrival within which its answer must begin: the shorter of "
    "timeoutSeconds and responseStartTimeoutSeconds.",
)
PODS = Family("activator_pods", _G, (*REVISION, "state"), "Pods that are known, by state.")
CAPACITY = Family(
    "activator_revision_capacity",
    _G,
    REVISION,
    "Requests that the usable pods can have at a time; +Inf without a limit.",
)
WITH_ROOM = Family(
    "activator_pods_with_room",
    _G,
    REVISION,
    "Usable pods that could take one more request now; 0 while requests wait, or the activator has "
    "a fault.",
)

CLUSTER_IP = Family(
    "activator_cluster_ip_in_use",
    _G,
    REVISION,
    "1 while requests go to the ClusterIP since pods cannot be reached by their own addresses.",
)
PROBES = Family("activator_probes_total", _C, (), "Probes that were sent to pods.")
PROBE_FAILURES = Family(
    "activator_probe_failures_total", _C, ("reason",), "Probes that failed, by reason."
)
PROBES_IN_FLIGHT = Family("activator_probes_in_flight", _G, (), "Probes that have no answer yet.")
UPSTREAM = Family("activator_upstream_connections", _G, (), "Open connections to pods.")
UPSTREAM_IDLE = Family(
    "activator_upstream_idle_connections", _G, (), "Open connections to pods that no request uses."
)
UNKNOWN_REVISION = Family(
    "activator_unknown_revision_requests_total",
    _C,
    (),
    "Requests for revisions that do not exist; answered 404.",
)
BAD_REQUESTS = Family(
    "activator_bad_requests_total", _C, (), "Requests that were malformed; answered 4xx."
)
OBJECTS = Family(
    "activator_objects", _G, ("kind",), "Kubernetes objects that are in force, by kind."
)
REJECTED_OBJECTS = Family(
    "activator_rejected_objects",
    _G,
    ("kind",),
    "Kubernetes objects that cannot be used as they are now, by kind; the log says why.",
)
WATCH_FAILURES = Family(
    "activator_watch_failures_total",
    _C,
    ("kind",),
    "Requests to the API server that failed, by the kind of objects they were for.",
)
WATCH_AGE = Family(
    "activator_watch_age_seconds",
    _G,
    ("kind",),
    "Time since the API server last said anything of a kind of objects; about 60 s at most while "
    "all is well.",
)
AUTOSCALER_AGE = Family(
    "activator_autoscaler_link_age_seconds",
    _G,
    (),
    "Time since the autoscaler last gave a sign of life; about 4 s at most while all is well.",
)
MANIFESTS_AGE = Family(
    "activator_manifests_age_seconds",
    _G,
    (),
    "Time since the folder of manifests was last looked at; about 5 s at most while all is well.",
)
SELF_CHECKS = Family(
    "activator_self_checks_total",
    _C,
    ("result",),
    "Comparisons of what is known of one kind of objects with a fresh list, by result: equal, "
    "drifted, failed or skipped.",
)
DRIFT = Family(
    "activator_drift_total",
    _C,
    ("kind",),
    "Objects of which a change was lost without a sign, found by a self-check and mended.",
)
DRIFT_LEFT = Family(
    "activator_drifted_objects",
    _G,
    ("kind",),
    "Objects that the last self-check could not mend.",
)
CONFIG_ERRORS = Family(
    "activator_config_errors",
    _G,
    ("config_map",),
    "Keys of a ConfigMap that cannot be used as they are now; the log says why, and what is in "
    "force.",
)
REQUEST_LOG_LINES = Family(
    "activator_request_log_lines_total", _C, (), "Lines that were made for the request log."
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
    "Dropped lines of all logs and other output, by sink that did not accept them: stdout or "
    "stderr.",
)
TRACES_EXPORTED = Family(
    "activator_traces_exported_total", _C, (), "Traced requests whose spans a collector has taken."
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
TARGET_INFO = Family(
    "target_info",
    _G,
    ("service_name", "service_version", "k8s_namespace_name", "k8s_pod_name"),
    "Always 1; says who we are, as OpenTelemetry's resource.",
)
READY = Family("activator_ready", _G, (), "1 while readiness says yes.")
DRAINING = Family(
    "activator_draining", _G, (), "1 once the activator was told to end: it is not ready any more."
)
LOOP_LAG = Family(
    "activator_event_loop_lag_seconds",
    _H,
    (),
    "How late timers of the event loop came, measured once a second; requests are as late.",
    LAG_BOUNDS,
)
QUEUE_LIMIT = Family(
    "activator_queued_requests_limit",
    _G,
    ("scope",),
    "Requests that may wait, of one revision and of all: scope revision or all.",
)
QUEUE_BYTES_LIMIT = Family(
    "activator_queue_bytes_limit",
    _G,
    ("scope",),
    "Bytes of waiting requests that may be held in memory, by scope as well.",
)
UNFINISHED_HEADS = Family(
    "activator_unfinished_header_bytes",
    _G,
    (),
    "Bytes of request headers that have not come to their end.",
)
UNFINISHED_HEADS_LIMIT = Family(
    "activator_unfinished_header_bytes_limit",
    _G,
    (),
    "Bytes of unfinished request headers that may be held in memory.",
)
UNREAD = Family(
    "activator_unread_bytes",
    _G,
    (),
    "Bytes of responses that clients do not read and of requests that pods do not read.",
)
UNREAD_LIMIT = Family(
    "activator_unread_bytes_limit", _G, (), "Unread bytes that may be held in memory."
)
UNREAD_ENDED = Family(
    "activator_unread_ended_total",
    _C,
    ("peer",),
    "Connections and streams that ended because unread bytes reached their limit, by the peer that "
    "did not read: client or pod.",
)
TRAFFIC_FILES = Family(
    "activator_traffic_files",
    _G,
    ("use",),
    "Open files of traffic, by use: clients, or pods for connections to pods.",
)
TRAFFIC_FILES_LIMIT = Family(
    "activator_traffic_files_limit", _G, (), "Open files that traffic may have."
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
BUILD_INFO = Family("activator_build_info", _G, ("version",), "Always 1; says which version runs.")

FAMILIES = (
    *(KN_CONCURRENCY, KN_QUEUED, KN_ACTIVE),
    *(SERVER_DURATION, SERVER_REQUEST_SIZE, SERVER_RESPONSE_SIZE),
    *(CLIENT_DURATION, CLIENT_REQUEST_SIZE, CONN_REACHABLE, CONN_ERRORS),
    *(QUEUED, WAITING, ACTIVE, WAIT, REQUESTS, REQUEUES, OLDEST_WAITER, QUEUE_BYTES),
    *(QUEUE_LIMIT, QUEUE_BYTES_LIMIT, UNFINISHED_HEADS, UNFINISHED_HEADS_LIMIT),
    *(UNREAD, UNREAD_LIMIT, UNREAD_ENDED, TIMEOUT),
    *(TRAFFIC_FILES, TRAFFIC_FILES_LIMIT, TRAFFIC_FILES_WAITING, TURNED_AWAY),
    *(PODS, CAPACITY, WITH_ROOM, WAKE_UPS, WAKE_UP, WAKE_UP_PHASES, PROBE_AHEAD),
    *(CLUSTER_IP, PROBES, PROBE_FAILURES, PROBES_IN_FLIGHT, UPSTREAM, UPSTREAM_IDLE),
    *(UNKNOWN_REVISION, BAD_REQUESTS),
    *(OBJECTS, REJECTED_OBJECTS, WATCH_FAILURES, WATCH_AGE),
    *(BUILD_INFO, READY, DRAINING, LOOP_LAG),
    *(AUTOSCALER_AGE, MANIFESTS_AGE, SELF_CHECKS, DRIFT, DRIFT_LEFT),
    *(CONFIG_ERRORS, REQUEST_LOG_LINES, REQUEST_LOG_FAILURES, LOG_LINES_DROPPED),
    *(TRACES_EXPORTED, TRACES_DROPPED, METRIC_PUSHES, TARGET_INFO),
)


def markdown(families: Iterable[Family]) -> str:
    """Return the reference's table."""
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
        lines.append(f"| `{family.name}` | {family.kind.value} | {labels} | {family.meaning} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown(FAMILIES))
