"""The dashboard of the activators themselves: process, limits, state of the cluster, probes."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Dashboard, Panel, Query, Row
from manifests.monitoring.grafana.words import INSTANCES, quantiles

_OF = 'instance=~"$instance"'


def _each(title: str, description: str, metric: str, unit: str = "short", **more: float) -> Panel:
    """Return a panel with one gauge of each activator; ``more``: its thresholds."""
    query = Query(f"max by (instance) ({metric}{{{_OF}}})", "{{instance}}")
    return Panel(title, description, (query,), unit, **more)  # type: ignore[arg-type] # of Panel


def _rates(title: str, description: str, *metrics: tuple[str, str], unit: str = "ops") -> Panel:
    """Return a panel with rates of counters.

    Arguments:
        metrics: name and legend; a legend ``{{label}}`` adds the series up by that label.
    """
    queries = []
    for metric, legend in metrics:
        label = legend.strip("{}") if legend.startswith("{{") else ""
        by = f" by ({label})" if label else ""
        queries.append(Query(f"sum{by} (rate({metric}{{{_OF}}}[$__rate_interval]))", legend))
    return Panel(title, description, (*queries,), unit)


CONDITION = Row(
    "Condition",
    (
        Panel(
            "Ready",
            "1: the activator serves requests. 0 during the start, without an autoscaler, "
            "and during shutdown. draining: 1 from the beginning of the shutdown on.",
            (
                Query(f"max by (instance) (activator_ready{{{_OF}}})", "{{instance}}"),
                Query(f"max by (instance) (activator_draining{{{_OF}}})", "{{instance}} draining"),
            ),
            alerts=("ActivatorNotReady", "ActivatorNoneReady"),
        ),
        _each(
            "Memory",
            "Resident memory. The bytes of queued requests show whether queues are the cause.",
            "process_resident_memory_bytes",
            "bytes",
        ),
        Panel(
            "CPU",
            "Cores. One process uses at most one. Near 1, or near the container's limit, "
            "the event loop is late.",
            (
                Query(
                    f"sum by (instance) (rate(process_cpu_seconds_total{{{_OF}}}"
                    "[$__rate_interval]))",
                    "{{instance}}",
                ),
            ),
            warn=0.7,
            alarm=0.9,
        ),
        Panel(
            "Lag of the event loop",
            "Delay of timers, which each request has too. Above 0.1 s the container has too "
            "little CPU, or a long computation blocks the loop.",
            quantiles(
                f"sum by (le) (rate(activator_event_loop_lag_seconds_bucket{{{_OF}}}"
                "[$__rate_interval]))",
                *("0.5", "0.99", "1"),
            ),
            unit="s",
            warn=0.01,
            alarm=0.1,
            alerts=("ActivatorEventLoopLate",),
        ),
        _each(
            "Open files",
            "Each connection uses one. A panel below shows the limit for traffic.",
            "process_open_fds",
        ),
        Panel(
            "Version",
            "Number of activators by version; two versions during a rollout.",
            (Query(f"count by (version) (activator_build_info{{{_OF}}})", "{{version}}"),),
        ),
    ),
)

BUDGETS = Row(
    "Budgets",
    (
        Panel(
            "Queued requests, share of the limit",
            "scope revision: the fullest queue, compared with its own limit. scope all: all "
            "queues together. A quarter of that is reserved for revisions with few "
            "requests, so 75 % is full for others.",
            (
                Query(
                    "max by (instance, scope) "
                    f"(activator:kn_revision_request_queued:limit_ratio{{{_OF}}})",
                    "{{instance}} {{scope}}",
                ),
            ),
            unit="percentunit",
            warn=0.6,
            alarm=0.8,
            alerts=("ActivatorBudgetNearlyUsed",),
        ),
        Panel(
            "Bytes of queued requests, share of the limit",
            "Scopes as in the panel of queued requests.",
            (
                Query(
                    "max by (instance, scope) "
                    f"(activator:activator_queue_bytes:limit_ratio{{{_OF}}})",
                    "{{instance}} {{scope}}",
                ),
            ),
            unit="percentunit",
            warn=0.6,
            alarm=0.8,
            alerts=("ActivatorBudgetNearlyUsed",),
        ),
        Panel(
            "Unread bytes, share of the limit",
            "Bytes that clients or pods do not read. Above 50 %, each connection may have "
            "less. At 100 %, the one without progress for longest ends.",
            (
                Query(
                    f"max by (instance) (activator_unread_bytes{{{_OF}}} "
                    f"/ activator_unread_bytes_limit{{{_OF}}})",
                    "{{instance}}",
                ),
            ),
            unit="percentunit",
            warn=0.5,
            alarm=0.9,
        ),
        Panel(
            "Files of traffic, share of the limit",
            "Client connections, and busy connections to pods. When clients have 75 %, new clients "
            "get 503.",
            (
                Query(
                    f"(sum by (instance) (activator_traffic_files{{{_OF}}}) - on (instance) "
                    f"activator_upstream_idle_connections{{{_OF}}}) / on (instance) "
                    f"activator_traffic_files_limit{{{_OF}}}",
                    "{{instance}}",
                ),
            ),
            unit="percentunit",
            warn=0.7,
            alarm=0.9,
            alerts=("ActivatorOpenFilesNearlyUsed",),
        ),
        _each(
            "Connections to pods that wait for a file",
            "More than 0: the limit of open files delays requests. Raise the limit, or run more "
            "activators.",
            "activator_traffic_files_waiting",
            warn=1,
        ),
        _rates(
            "Clients and streams that a limit ended",
            "no free file: new clients that got 503. client and pod: connections and streams "
            "whose peer read nothing while unread bytes were at their limit.",
            ("activator_turned_away_clients_total", "no free file"),
            ("activator_unread_ended_total", "{{peer}}"),
        ),
        Panel(
            "Bytes of request heads, share of the limit",
            "Heads that clients have begun and not ended. At 100 % a head that needs more gets "
            "503. With little traffic, a high share is a sign of clients that send slowly on "
            "purpose.",
            (
                Query(
                    f"max by (instance) (activator_unfinished_header_bytes{{{_OF}}} "
                    f"/ activator_unfinished_header_bytes_limit{{{_OF}}})",
                    "{{instance}}",
                ),
            ),
            unit="percentunit",
            warn=0.5,
            alarm=0.9,
        ),
        Panel(
            "Connections to pods",
            "Open connections, and open connections without a request.",
            (
                Query(f"sum(activator_upstream_connections{{{_OF}}})", "open"),
                Query(f"sum(activator_upstream_idle_connections{{{_OF}}})", "idle"),
            ),
        ),
    ),
)

STATE = Row(
    "State of the cluster",
    (
        Panel(
            "Autoscaler",
            "Time since the autoscaler's last sign of life; normally at most 4 s. Without "
            "the autoscaler, no revision scales up from zero.",
            (
                Query(
                    f"max by (instance) (activator_autoscaler_link_age_seconds{{{_OF}}})",
                    "{{instance}}",
                ),
            ),
            unit="s",
            warn=10,
            alarm=30,
            alerts=("ActivatorAutoscalerUnreachable",),
        ),
        Panel(
            "Autoscaler and scaler connected",
            "1 for each activator with a connection, and lost connections per second. "
            "Knative's own metrics, with the scaler of annotated Services as a second peer.",
            (
                Query(
                    f"min by (peer, instance) (kn_activator_stats_conn_reachable{{{_OF}}})",
                    "{{peer}} {{instance}}",
                ),
                Query(
                    "sum by (peer) "
                    f"(rate(kn_activator_stats_conn_errors_total{{{_OF}}}[$__rate_interval]))",
                    "{{peer}} lost",
                ),
            ),
            alerts=("ActivatorAutoscalerUnreachable", "ActivatorScalerUnreachable"),
        ),
        Panel(
            "Age of watches",
            "Time since the API server last sent anything; normally at most 60 s.",
            (Query(f"max by (kind) (activator_watch_age_seconds{{{_OF}}})", "{{kind}}"),),
            unit="s",
            warn=120,
            alarm=300,
            alerts=("ActivatorWatchStale",),
        ),
        Panel(
            "Missed events",
            "Objects with a missed event, found by self-checks; left: objects that the last "
            "self-check could not correct.",
            (
                Query(f"sum by (kind) (increase(activator_drift_total{{{_OF}}}[1h]))", "{{kind}}"),
                Query(f"sum(activator_drifted_objects{{{_OF}}})", "left"),
            ),
            warn=1,
            alerts=("ActivatorDrift",),
        ),
        Panel(
            "Time until a certificate expires",
            "By listener; below 0 it has expired. Without encryption there is none.",
            (
                Query(
                    "min by (listener) "
                    f"(activator_certificate_expiry_timestamp_seconds{{{_OF}}} - time())",
                    "{{listener}}",
                ),
            ),
            unit="s",
            alerts=("ActivatorCertificateExpires",),
        ),
        Panel(
            "Objects",
            "Objects in force, by kind, of the activator that has most.",
            (Query(f"max by (kind) (activator_objects{{{_OF}}})", "{{kind}}"),),
        ),
        Panel(
            "Unusable objects",
            "By kind; the log gives the errors.",
            (Query(f"max by (kind) (activator_rejected_objects{{{_OF}}})", "{{kind}}"),),
            warn=1,
        ),
        Panel(
            "Unusable keys of ConfigMaps",
            "By ConfigMap; the log gives each error and the value in force.",
            (Query(f"max by (config_map) (activator_config_errors{{{_OF}}})", "{{config_map}}"),),
            warn=1,
        ),
        _rates(
            "Self-checks",
            "Comparisons with fresh lists of objects, by result.",
            ("activator_self_checks_total", "{{result}}"),
        ),
        _rates(
            "Failed requests to the API server",
            "By kind of the requested objects.",
            ("activator_watch_failures_total", "{{kind}}"),
        ),
    ),
)

PROBES = Row(
    "Probes",
    (
        _rates(
            "Probes",
            "Probes to pods, of all activators. While requests wait, the activator probes "
            "each pod every few milliseconds.",
            ("activator_probes_total", "probes"),
        ),
        _rates(
            "Failed probes",
            "By reason. A starting pod refuses connections; time-outs mean that a pod or "
            "the network is silent.",
            ("activator_probe_failures_total", "{{reason}}"),
        ),
        _each(
            "Probes in flight",
            "Probes without a response yet. At the limit (--max-probes), further probes wait.",
            "activator_probes_in_flight",
        ),
    ),
)

REFUSED = Row(
    "Refused requests, logs and traces",
    (
        _rates(
            "Refused requests",
            "Requests that get 404 for an unknown revision, or 4xx because they are malformed.",
            ("activator_unknown_revision_requests_total", "unknown revision"),
            ("activator_bad_requests_total", "malformed"),
            unit="reqps",
        ),
        _rates(
            "Log lines",
            "Lines of the request log, those for which its template did not fit the request, and "
            "dropped lines of all logs and other output.",
            ("activator_request_log_lines_total", "request log"),
            ("activator_request_log_failures_total", "template failed"),
            ("activator_log_lines_dropped_total", "dropped"),
        ),
        _rates(
            "Traces",
            "Traced requests whose spans a collector has accepted, and those whose spans were "
            "dropped, by cause.",
            ("activator_traces_exported_total", "exported"),
            ("activator_traces_dropped_total", "{{cause}}"),
        ),
        _rates(
            "Pushes of metrics",
            "Pushes to a collector, by result; 0 without one.",
            ("activator_metric_pushes_total", "{{result}}"),
        ),
    ),
)

AUTHORIZATION = Row(
    "Authorization",
    (
        _rates(
            "Decisions of authorization servers",
            "By result. cached decisions cost no sub-request. failed: the server did not respond "
            "in time, or not with a usable response.",
            ("activator_authorization_checks_total", "{{result}}"),
        ),
        _each(
            "Requests that wait for a decision",
            "They are in no queue. A line that rises means that an authorization server is slow.",
            "activator_authorization_waiting_requests",
        ),
    ),
)

ACTIVATOR = Dashboard(
    "activator-self",
    "Activator / the activator itself",
    "Process, limits, state of the cluster and probes of activators. docs/how-to/dashboards.md "
    "explains it.",
    (INSTANCES,),
    (CONDITION, BUDGETS, STATE, PROBES, AUTHORIZATION, REFUSED),
)
