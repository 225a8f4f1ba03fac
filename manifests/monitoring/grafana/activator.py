"""The activator itself: what it uses, what it knows, what it asks of pods."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Dashboard, Panel, Query, Row
from manifests.monitoring.grafana.words import INSTANCES, quantiles

_OF = 'instance=~"$instance"'


def _each(title: str, description: str, metric: str, unit: str = "short", **more: float) -> Panel:
    """A gauge of each activator."""
    query = Query(f"max by (instance) ({metric}{{{_OF}}})", "{{instance}}")
    return Panel(title, description, (query,), unit, **more)  # type: ignore[arg-type] # of Panel


def _rates(title: str, description: str, *metrics: tuple[str, str], unit: str = "ops") -> Panel:
    """Rates of counters; the second of a pair is the legend, by whose labels they are added up."""
    queries = []
    for metric, legend in metrics:
        label = legend.strip("{}") if legend.startswith("{{") else ""
        by = f" by ({label})" if label else ""
        queries.append(Query(f"sum{by} (rate({metric}{{{_OF}}}[$__rate_interval]))", legend))
    return Panel(title, description, (*queries,), unit)


CONDITION = Row(
    "Condition",
    (
        _each(
            "Ready",
            "1: requests come. 0 while it starts, without an autoscaler, and when it ends.",
            "activator_ready",
        ),
        _each(
            "Memory",
            "Resident. Beside it the bytes of waiting requests say whether queues are the cause.",
            "process_resident_memory_bytes",
            "bytes",
        ),
        Panel(
            "CPU",
            "Cores. One process uses one at most; near that, or near the container's limit, the "
            "event loop is late.",
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
            "How late timers come, and so every request. Beyond 0.1 s the container has too little "
            "CPU, or something holds the loop.",
            quantiles(
                f"sum by (le) (rate(activator_event_loop_lag_seconds_bucket{{{_OF}}}"
                "[$__rate_interval]))",
                *("0.5", "0.99", "1"),
            ),
            unit="s",
            warn=0.01,
            alarm=0.1,
        ),
        _each(
            "Open files",
            "Each connection uses one. A panel below shows the limit for traffic.",
            "process_open_fds",
        ),
        Panel(
            "Version",
            "Which version runs how often; two while a rollout lasts.",
            (Query(f"count by (version) (activator_build_info{{{_OF}}})", "{{version}}"),),
        ),
    ),
)

BUDGETS = Row(
    "Budgets",
    (
        Panel(
            "Waiting requests, of what may wait",
            "scope revision: the fullest queue, of its own limit. scope all: all together; a "
            "quarter is kept for revisions that use little, so 75 % is full for others.",
            (
                Query(
                    "max by (instance, scope) "
                    f"(activator:activator_queued_requests:limit_ratio{{{_OF}}})",
                    "{{instance}} {{scope}}",
                ),
            ),
            unit="percentunit",
            warn=0.6,
            alarm=0.8,
        ),
        Panel(
            "Bytes of waiting requests, of what may be held",
            "As beside it.",
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
        ),
        Panel(
            "Unread bytes, share of the limit",
            "Responses that clients do not read and requests that pods do not read. Above 50 % "
            "each may hold less; at 100 % the one without progress for longest ends.",
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
        ),
        Panel(
            "Connections to pods",
            "Open ones, and those that no request uses at the moment.",
            (
                Query(f"sum(activator_upstream_connections{{{_OF}}})", "open"),
                Query(f"sum(activator_upstream_idle_connections{{{_OF}}})", "idle"),
            ),
        ),
    ),
)

KNOWLEDGE = Row(
    "What it knows",
    (
        Panel(
            "Autoscaler",
            "Seconds since its last sign of life; about 4 at most while all is well. Without it "
            "nothing that sleeps is woken.",
            (
                Query(
                    f"max by (instance) (activator_autoscaler_link_age_seconds{{{_OF}}})",
                    "{{instance}}",
                ),
            ),
            unit="s",
            warn=10,
            alarm=30,
        ),
        Panel(
            "Autoscaler connected",
            "By activator, and how many connections were lost in a second. Knative's own metrics.",
            (
                Query(
                    f"min by (instance) (kn_activator_stats_conn_reachable{{{_OF}}})",
                    "{{instance}}",
                ),
                Query(
                    f"sum(rate(kn_activator_stats_conn_errors_total{{{_OF}}}[$__rate_interval]))",
                    "lost",
                ),
            ),
        ),
        Panel(
            "Age of watches",
            "Seconds since the API server last said anything; about 60 at most while all is well.",
            (Query(f"max by (kind) (activator_watch_age_seconds{{{_OF}}})", "{{kind}}"),),
            unit="s",
            warn=120,
            alarm=300,
        ),
        Panel(
            "Lost changes",
            "Objects of which a watch lost a change, found by comparing; and those that could not "
            "be mended.",
            (
                Query(f"sum by (kind) (increase(activator_drift_total{{{_OF}}}[1h]))", "{{kind}}"),
                Query(f"sum(activator_drifted_objects{{{_OF}}})", "left"),
            ),
            warn=1,
        ),
        Panel(
            "Objects",
            "What is in force, by kind; of the activator that has most.",
            (Query(f"max by (kind) (activator_objects{{{_OF}}})", "{{kind}}"),),
        ),
        Panel(
            "Objects that cannot be used",
            "By kind; the log says why.",
            (Query(f"max by (kind) (activator_rejected_objects{{{_OF}}})", "{{kind}}"),),
            warn=1,
        ),
        _rates(
            "Comparisons with fresh lists",
            "By result.",
            ("activator_self_checks_total", "{{result}}"),
        ),
        _rates(
            "Failures of the API server",
            "Requests to it that failed, by kind.",
            ("activator_watch_failures_total", "{{kind}}"),
        ),
    ),
)

PROBES = Row(
    "Probes",
    (
        _rates(
            "Probes",
            "Sent to pods, of all activators. Each pod is asked every few milliseconds while "
            "somebody waits for it.",
            ("activator_probes_total", "probes"),
        ),
        _rates(
            "Probes that failed",
            "By reason. Refusals are what a starting pod does; time-outs are a black hole.",
            ("activator_probe_failures_total", "{{reason}}"),
        ),
        _each(
            "Probes without an answer yet",
            "At their most (--max-probes) others have to wait.",
            "activator_probes_in_flight",
        ),
    ),
)

REFUSED = Row(
    "Refused and dropped",
    (
        _rates(
            "Requests that belong to nobody",
            "Answered 404, since no such revision is known, and 4xx, since they were malformed.",
            ("activator_unknown_revision_requests_total", "unknown revision"),
            ("activator_bad_requests_total", "malformed"),
            unit="reqps",
        ),
        _rates(
            "Log lines",
            "Lines of the request log, and dropped lines of all logs and other output.",
            ("activator_request_log_lines_total", "request log"),
            ("activator_log_lines_dropped_total", "dropped"),
        ),
        _rates(
            "Traces",
            "Requests whose spans a collector has taken.",
            ("activator_traces_exported_total", "exported"),
        ),
    ),
)

ACTIVATOR = Dashboard(
    "activator-self",
    "Activator / the activator itself",
    "What activators use, know and ask of pods. docs/how-to/dashboards.md reads it.",
    (INSTANCES,),
    (CONDITION, BUDGETS, KNOWLEDGE, PROBES, REFUSED),
)
