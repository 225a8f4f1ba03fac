"""Whether requests wait, where, since when and why: of all revisions."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Dashboard, Panel, Query, Row
from manifests.monitoring.grafana.words import (
    ANSWERS,
    BY_REVISION,
    CHOSEN,
    COLD_STARTS_BY_OUTCOME,
    DURATIONS,
    NAMESPACES,
    OUTCOMES,
    PODS,
    REQUEUES,
    REVISION_NAME,
    REVISIONS,
    WAITING_BY_REASON,
    WAITS,
    rate,
)

_FAILED = f'{CHOSEN}, outcome!~"served|cancelled"'

NOW = Row(
    "Now",
    (
        Panel(
            "Waiting",
            "Requests that wait for a pod now.",
            (Query(f"sum(kn_revision_request_queued{{{CHOSEN}}})"),),
            kind="stat",
            width=4,
            height=4,
            warn=1,
        ),
        Panel(
            "Oldest waiter",
            "How long the first request in any queue has waited.",
            (Query(f"max(activator_oldest_waiter_seconds{{{CHOSEN}}})"),),
            unit="s",
            kind="stat",
            width=4,
            height=4,
            warn=10,
            alarm=60,
        ),
        Panel(
            "Nearest to its time-out",
            "How much of the time that it may take the request has used up that has used most. At "
            "100 % it is answered 504.",
            (Query(f"max(revision:activator_oldest_waiter:timeout_ratio{{{CHOSEN}}})"),),
            unit="percentunit",
            kind="stat",
            width=4,
            height=4,
            warn=0.25,
            alarm=0.5,
        ),
        Panel(
            "Requests",
            "All that end, in a second.",
            (Query(f"sum(rate(activator_requests_total{{{CHOSEN}}}[$__rate_interval]))"),),
            unit="reqps",
            kind="stat",
            width=4,
            height=4,
        ),
        Panel(
            "Not served",
            "Those that the activator answered itself, 502 to 504, in a second.",
            (Query(f"sum(rate(activator_requests_total{{{_FAILED}}}[$__rate_interval]))"),),
            unit="reqps",
            kind="stat",
            width=4,
            height=4,
            alarm=0.001,
        ),
        Panel(
            "Activators ready",
            "How many take requests.",
            (Query("sum(activator_ready)"),),
            kind="stat",
            width=4,
            height=4,
        ),
    ),
)

QUEUES = Row(
    "Queues",
    (
        Panel(
            "Waiting, by revision",
            "Whose requests wait.",
            (Query(f"{BY_REVISION} (kn_revision_request_queued{{{CHOSEN}}})", REVISION_NAME),),
            stack=True,
        ),
        WAITING_BY_REASON,
        Panel(
            "Oldest waiter, by revision",
            "A line that climbs without a fall is a queue that does not move.",
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
            "Revisions that have requests",
            "Those with most in the queue first.",
            (
                Query(
                    f"topk(20, {BY_REVISION} (activator_queued_requests{{{CHOSEN}}}))", "waiting"
                ),
                Query(f"{BY_REVISION} (activator_active_requests{{{CHOSEN}}})", "at pods"),
                Query(f"{BY_REVISION} (activator_revision_capacity{{{CHOSEN}}})", "capacity"),
                Query(f"{BY_REVISION} (activator_queue_bytes{{{CHOSEN}}})", "bytes held"),
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
        ANSWERS,
        DURATIONS,
        WAITS,
        Panel(
            "At pods",
            "Requests that pods have now.",
            (Query(f"{BY_REVISION} (kn_revision_request_active{{{CHOSEN}}})", REVISION_NAME),),
            stack=True,
        ),
        Panel(
            "Capacity used",
            "Requests at pods, of those that they may have at a time. At 100 % the next one waits; "
            "without containerConcurrency it is always 0.",
            (
                Query(
                    f"{BY_REVISION} (activator_active_requests{{{CHOSEN}}}) / "
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
            "Where their time goes",
            "The mean of each phase, of all revisions, named by what it ended with. stat-sent: the "
            "autoscaler was told. address: a pod was made and listed. probe, probe-passed: it was "
            "asked, and answered. dispatched: it got a request. first-byte: it began to answer.",
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
            "Won by our own probe",
            "For how long pods were in use before Kubernetes listed them as ready, in the mean of "
            "all revisions.",
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
    "Whether requests wait, where, since when and why. docs/how-to/dashboards.md reads it.",
    (NAMESPACES, REVISIONS),
    (NOW, QUEUES, REQUESTS, COLD_STARTS),
)
