"""The dashboard of one revision: its queue, its pods, its requests."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Dashboard, Panel, Query, Row
from manifests.monitoring.grafana.words import (
    CHOSEN,
    COLD_STARTS_BY_OUTCOME,
    DURATIONS,
    ONE_NAMESPACE,
    ONE_REVISION,
    OUTCOMES,
    PODS,
    REQUEUES,
    RESPONSES,
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
            "Oldest queued request",
            "Compared with the time-out: a request that reaches the time-out gets 504.",
            (
                Query(f"max(activator_oldest_waiter_seconds{{{CHOSEN}}})", "oldest queued request"),
                Query(f"min(activator_revision_timeout_seconds{{{CHOSEN}}})", "time-out"),
            ),
            unit="s",
        ),
        Panel(
            "Queued requests, by activator",
            "Each activator has its own queue.",
            (Query(f"sum by (instance) (kn_revision_request_queued{{{CHOSEN}}})", "{{instance}}"),),
            stack=True,
        ),
        WAITS,
        Panel(
            "Time in the queue, as a heat map",
            "Number of requests by their time in the queue. Two bands mean cold starts "
            "(long) and a busy revision (short).",
            (Query(rate("activator_request_wait_seconds_bucket", "le")),),
            kind="heatmap",
        ),
        Panel(
            "Bytes of queued requests",
            "Bytes of queued requests in memory. Above the limit of a revision, the "
            "activator reads no more of their bodies.",
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
            "Requests in flight, and the capacity (absent without a limit). While a pod has "
            "a free slot, no request is queued.",
            (
                Query(f"sum(kn_revision_request_active{{{CHOSEN}}})", "in flight"),
                Query(f"sum(activator_revision_capacity{{{CHOSEN}}}) < +Inf", "capacity"),
                Query(f"sum(activator_pods_with_room{{{CHOSEN}}})", "pods with a free slot"),
            ),
            alerts=("ActivatorQueueBesideFreePods",),
        ),
        Panel(
            "Requests, by pod",
            "Shows how evenly the load is spread.",
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
            "Time to the first byte, by pod",
            "95th percentile of the time until a response begins. Examine a pod that is "
            "slower than the others.",
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
            "Requests through the ClusterIP",
            "1 while the activator cannot reach pods by their own addresses.",
            (Query(f"max(activator_cluster_ip_in_use{{{CHOSEN}}})", "ClusterIP in use"),),
        ),
    ),
)

#: Outcomes that only a policy has.
_BY_POLICY = 'outcome=~"page|peek|wait-refused|asleep|tenant-full|shed|denied|not-authorized"'

POLICIES = Row(
    "Policies that annotations choose",
    (
        Panel(
            "Queued requests, by class",
            "By the class in which they arrived; empty without activator.dev/priority. If class "
            "high is long, its requests wait for each other.",
            (
                Query(
                    f"sum by (class) (activator_queued_requests_by_class{{{CHOSEN}}})", "{{class}}"
                ),
            ),
            stack=True,
        ),
        Panel(
            "Flows with queued requests",
            "Empty without activator.dev/fair-by. One flow beside a long queue means that one "
            "tenant sends more than the pods serve.",
            (
                Query(
                    f"sum by (instance) (activator_queue_flows{{{CHOSEN}}})",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Sticky requests, by result",
            "kept and hashed went to their own pod. overflowed went to another pod, because their "
            "own was full; waited: each wait for the own pod.",
            (Query(rate("activator_sticky_requests_total", "result"), "{{result}}"),),
            unit="reqps",
        ),
        Panel(
            "Adaptive limit",
            "Requests in flight that response times allow at all pods, and those in flight. "
            "A limit that falls means that responses become slower.",
            (
                Query(f"sum(activator_adaptive_limit{{{CHOSEN}}})", "limit"),
                Query(
                    f"sum(kn_revision_request_active{{{CHOSEN}}}) "
                    f"and sum(activator_adaptive_limit{{{CHOSEN}}})",
                    "in flight",
                ),
            ),
        ),
        Panel(
            "Queued requests, by response to their clients",
            "hold: the client waits. page: it shows a waiting page. heartbeat: it has an event "
            "stream. refuse: it gets 503. Empty without activator.dev/while-waiting.",
            (Query(f"sum by (mode) (activator_queued_requests_by_mode{{{CHOSEN}}})", "{{mode}}"),),
            stack=True,
        ),
        Panel(
            "Event streams that began before a pod responded",
            "Empty without activator.dev/while-waiting. Their clients have status 200, whatever "
            "the pod responds later.",
            (
                Query(
                    f"sum(rate(activator_early_heads_total{{{CHOSEN}}}[$__rate_interval]))",
                    "streams",
                ),
            ),
            unit="reqps",
        ),
        Panel(
            "Open waiting pages and refused clients",
            "Time for which they still count as one concurrent request. At 0 they no longer keep "
            "the revision awake. Empty without activator.dev/while-waiting.",
            (Query(f"max(activator_wake_lease_seconds{{{CHOSEN}}})", "time left"),),
            unit="s",
        ),
        Panel(
            "Requests that a policy ended",
            "By outcome. page, peek and wait-refused: activator.dev/while-waiting. asleep: the "
            "rules activator.dev/wake-… did not let the request start a pod. shed and "
            "tenant-full: the queue was long. denied and not-authorized: the authorization server.",
            (
                Query(
                    rate("activator_requests_total", "outcome", f"{CHOSEN}, {_BY_POLICY}"),
                    "{{outcome}}",
                ),
            ),
            unit="reqps",
            stack=True,
        ),
    ),
)

REQUESTS = Row(
    "Requests",
    (
        OUTCOMES,
        RESPONSES,
        DURATIONS,
        Panel(
            "Load reported to the autoscaler",
            "Concurrent requests, queued and in flight. The autoscaler calculates the scale "
            "from them. Knative's own metric.",
            (Query(f"sum(kn_revision_request_concurrency{{{CHOSEN}}})", "concurrency"),),
        ),
        COLD_STARTS_BY_OUTCOME,
        Panel(
            "Response time of the application",
            "Time from sending a request to a pod to the head of the response: the duration "
            "of requests without the activator's part.",
            quantiles(
                rate("http_client_request_duration_seconds_bucket", "le"),
                *("0.5", "0.95", "0.99"),
            ),
            unit="s",
        ),
        Panel(
            "Size of bodies",
            "Bytes per second, of bodies with an announced size. Large bodies use the network "
            "and CPU of activators. Knative's own metrics.",
            tuple(
                Query(
                    f"sum(rate(http_{name}_body_size_bytes_sum{{{CHOSEN}}}[$__rate_interval]))",
                    legend,
                )
                for name, legend in (
                    ("server_request", "from clients"),
                    ("client_request", "to pods"),
                    ("server_response", "to clients"),
                )
            ),
            unit="binBps",
        ),
    ),
)

REVISION = Dashboard(
    "activator-revision",
    "Activator / one revision",
    "One revision's queue, pods and requests. docs/how-to/dashboards.md explains it.",
    (ONE_NAMESPACE, ONE_REVISION),
    (QUEUE, PODS_ROW, REQUESTS, POLICIES),
)
