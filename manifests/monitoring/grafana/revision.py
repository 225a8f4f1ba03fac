"""One revision: its queue, its pods, its requests."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Dashboard, Panel, Query, Row
from manifests.monitoring.grafana.words import (
    ANSWERS,
    CHOSEN,
    COLD_STARTS_BY_OUTCOME,
    DURATIONS,
    ONE_NAMESPACE,
    ONE_REVISION,
    OUTCOMES,
    PODS,
    REQUEUES,
    WAITING_BY_REASON,
    WAITS,
    quantiles,
    rate,
)

QUEUE = Row(
    "Queue",
    (
        WAITING_BY_REASON,
        Panel(
            "Oldest waiter",
            "Beside the time within which an answer must begin: where the two meet is a 504.",
            (
                Query(f"max(activator_oldest_waiter_seconds{{{CHOSEN}}})", "oldest waiter"),
                Query(f"min(activator_revision_timeout_seconds{{{CHOSEN}}})", "time-out"),
            ),
            unit="s",
        ),
        Panel(
            "Waiting, by activator",
            "Each activator has a queue of its own.",
            (Query(f"sum by (instance) (activator_queued_requests{{{CHOSEN}}})", "{{instance}}"),),
            stack=True,
        ),
        WAITS,
        Panel(
            "Waits as a heat map",
            "How many requests left the queue after how long. Two bands are cold starts above the "
            "moments of a busy revision.",
            (Query(rate("activator_request_wait_seconds_bucket", "le")),),
            kind="heatmap",
        ),
        Panel(
            "Bytes held",
            "Of waiting requests, in memory. Beyond the limit of one revision their bodies are no "
            "longer read.",
            (
                Query(f"sum by (instance) (activator_queue_bytes{{{CHOSEN}}})", "{{instance}}"),
                Query('min(activator_queue_bytes_limit{scope="revision"})', "limit"),
            ),
            unit="bytes",
        ),
    ),
)

PODS_ROW = Row(
    "Pods",
    (
        PODS,
        Panel(
            "Capacity",
            "Requests at pods, and how many may be there at a time (none shown where there is no "
            "limit). With room left nothing waits.",
            (
                Query(f"sum(activator_active_requests{{{CHOSEN}}})", "at pods"),
                Query(f"sum(activator_revision_capacity{{{CHOSEN}}}) < +Inf", "capacity"),
                Query(f"sum(activator_pods_with_room{{{CHOSEN}}})", "pods with room"),
            ),
        ),
        Panel(
            "Requests, by pod",
            "How evenly the load is spread.",
            (
                Query(
                    rate(
                        "http_client_request_duration_seconds_count", "server_address, server_port"
                    ),
                    "{{server_address}}:{{server_port}}",
                ),
            ),
            unit="reqps",
        ),
        Panel(
            "Time to the head of the answer, by pod",
            "95th percentile. One pod that is slower than the others is one to look at.",
            (
                Query(
                    "histogram_quantile(0.95, "
                    + rate(
                        "http_client_request_duration_seconds_bucket",
                        "le, server_address, server_port",
                    )
                    + ")",
                    "{{server_address}}:{{server_port}}",
                ),
            ),
            unit="s",
        ),
        REQUEUES,
        Panel(
            "By way of the ClusterIP",
            "1 while pods cannot be reached by their own addresses.",
            (Query(f"max(activator_cluster_ip_in_use{{{CHOSEN}}})", "ClusterIP in use"),),
        ),
    ),
)

REQUESTS = Row(
    "Requests",
    (
        OUTCOMES,
        ANSWERS,
        DURATIONS,
        Panel(
            "As the autoscaler is told",
            "Concurrent requests, waiting and at pods: what the autoscaler scales by. Knative's "
            "own metric.",
            (Query(f"sum(kn_revision_request_concurrency{{{CHOSEN}}})", "concurrency"),),
        ),
        COLD_STARTS_BY_OUTCOME,
        Panel(
            "Time of the application",
            "From sending a request to a pod to the head of its answer: what is left of the time "
            "of requests without the activator's part.",
            quantiles(
                rate("http_client_request_duration_seconds_bucket", "le"),
                *("0.5", "0.95", "0.99"),
            ),
            unit="s",
        ),
    ),
)

REVISION = Dashboard(
    "activator-revision",
    "Activator / one revision",
    "One revision's queue, pods and requests. docs/how-to/dashboards.md reads it.",
    (ONE_NAMESPACE, ONE_REVISION),
    (QUEUE, PODS_ROW, REQUESTS),
)
