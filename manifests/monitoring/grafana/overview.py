"""The dashboard of all revisions: which requests wait, where, since when and why."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Dashboard, Panel, Query, Row
from manifests.monitoring.grafana.words import (
    BY_REVISION,
    CHOSEN,
    COLD_STARTS_BY_OUTCOME,
    DURATIONS,
    NAMESPACES,
    OUTCOMES,
    PODS,
    REQUEUES,
    RESPONSES,
    REVISION_NAME,
    REVISIONS,
    WAITING_BY_REASON,
    WAITS,
    quantiles,
    rate,
)

_FAILED = f'{CHOSEN}, outcome!~"served|admitted|cancelled|page|peek"'


def _stat(
    title: str,
    description: str,
    expr: str,
    unit: str = "short",
    alerts: tuple[str, ...] = (),
    **more: float,
) -> Panel:
    """Return a small panel with one number; ``more``: its thresholds."""
    size = {"kind": "stat", "width": 4, "height": 4, "alerts": alerts}
    return Panel(title, description, (Query(expr),), unit, **size, **more)  # type: ignore[arg-type] # of Panel


NOW = Row(
    "Now",
    (
        _stat(
            "Queued requests",
            "Requests that wait for a pod now.",
            f"sum(kn_revision_request_queued{{{CHOSEN}}})",
            warn=1,
        ),
        _stat(
            "Oldest queued request",
            "Time that the first request of any queue has waited.",
            f"max(activator_oldest_waiter_seconds{{{CHOSEN}}})",
            "s",
            warn=10,
            alarm=60,
        ),
        _stat(
            "Nearest to its time-out",
            "The largest part of its time-out that any queued request has used. At 100 % it gets "
            "504.",
            f"max(revision:activator_oldest_waiter:timeout_ratio{{{CHOSEN}}})",
            "percentunit",
            ("ActivatorRequestsWaitLong",),
            warn=0.25,
            alarm=0.5,
        ),
        _stat(
            "Requests",
            "Requests that end, per second.",
            f"sum(rate(activator_requests_total{{{CHOSEN}}}[$__rate_interval]))",
            "reqps",
        ),
        _stat(
            "Errors from the activator",
            "Error responses of the activator itself, 502 to 504, per second.",
            f"sum(rate(activator_requests_total{{{_FAILED}}}[$__rate_interval]))",
            "reqps",
            alarm=0.001,
        ),
        _stat(
            "Activators ready",
            "Number of activators that report ready.",
            "sum(activator_ready)",
            alerts=("ActivatorNoneReady",),
        ),
    ),
)

QUEUES = Row(
    "Queues",
    (
        Panel(
            "Queued requests, by revision or Service",
            "Requests that wait for a pod, by revision or Service.",
            (Query(f"{BY_REVISION} (kn_revision_request_queued{{{CHOSEN}}})", REVISION_NAME),),
            stack=True,
        ),
        WAITING_BY_REASON,
        Panel(
            "Oldest queued request, by revision or Service",
            "A line that rises without a fall shows a queue that does not move.",
            (
                Query(
                    "max by (k8s_namespace_name, kn_revision_name) "
                    f"(activator_oldest_waiter_seconds{{{CHOSEN}}})",
                    REVISION_NAME,
                ),
            ),
            unit="s",
        ),
        Panel(
            "Revisions and Services with requests",
            "The 20 revisions and Services with most queued requests.",
            (
                Query(
                    f"topk(20, {BY_REVISION} (kn_revision_request_queued{{{CHOSEN}}}))", "queued"
                ),
                Query(f"{BY_REVISION} (kn_revision_request_active{{{CHOSEN}}})", "in flight"),
                Query(f"{BY_REVISION} (activator_revision_capacity{{{CHOSEN}}})", "capacity"),
                Query(f"{BY_REVISION} (activator_queue_bytes{{{CHOSEN}}})", "bytes"),
            ),
            kind="table",
            width=24,
        ),
    ),
)

REQUESTS = Row(
    "Requests",
    (
        OUTCOMES,
        RESPONSES,
        DURATIONS,
        WAITS,
        Panel(
            "Requests in flight",
            "Requests that are in flight at pods.",
            (Query(f"{BY_REVISION} (kn_revision_request_active{{{CHOSEN}}})", REVISION_NAME),),
            stack=True,
        ),
        Panel(
            "Capacity used",
            "Requests in flight, as a share of the capacity. At 100 % the next request is "
            "queued. Without containerConcurrency the share is always 0.",
            (
                Query(
                    f"{BY_REVISION} (kn_revision_request_active{{{CHOSEN}}}) / "
                    f"({BY_REVISION} (activator_revision_capacity{{{CHOSEN}}}) > 0)",
                    REVISION_NAME,
                ),
            ),
            unit="percentunit",
            warn=0.8,
            alarm=1,
        ),
        REQUEUES,
        PODS,
    ),
)

COLD_STARTS = Row(
    "Cold starts",
    (
        COLD_STARTS_BY_OUTCOME,
        Panel(
            "Duration of cold starts",
            "Of served cold starts, over all revisions: from the first request without a usable "
            "pod to the first byte of a response. Beyond 30 s many clients give up.",
            quantiles(
                "sum by (le) (rate(activator_cold_start_seconds_bucket[$__rate_interval]))",
                *("0.5", "0.95"),
            ),
            unit="s",
            warn=10,
            alarm=30,
        ),
        Panel(
            "Phases of cold starts",
            "Mean duration of each phase, over all revisions. The legend names the event "
            "that ends a phase. stat-sent: the autoscaler got the report. address: "
            "Kubernetes listed a pod. probe: the activator sent a probe. probe-passed: the "
            "probe passed. dispatched: the pod got a request. first-byte: its response "
            "began.",
            (
                Query(
                    f"{rate('activator_cold_start_phase_seconds_sum', 'phase', '')} / "
                    f"({rate('activator_cold_start_phase_seconds_count', 'phase', '')} > 0)",
                    "{{phase}}",
                ),
            ),
            unit="s",
            stack=True,
        ),
        Panel(
            "Lead of the activator's probe",
            "Mean time for which the activator used a pod before Kubernetes listed it as "
            "ready, over all revisions.",
            (
                Query(
                    "sum(rate(activator_probe_ahead_seconds_sum[$__rate_interval])) / "
                    "(sum(rate(activator_probe_ahead_seconds_count[$__rate_interval])) > 0)",
                    "ahead of Kubernetes",
                ),
            ),
            unit="s",
        ),
    ),
)

OVERVIEW = Dashboard(
    "activator-overview",
    "Activator / overview",
    "Which requests wait, where, since when and why. docs/how-to/dashboards.md explains it.",
    (NAMESPACES, REVISIONS),
    (NOW, QUEUES, REQUESTS, COLD_STARTS),
)
