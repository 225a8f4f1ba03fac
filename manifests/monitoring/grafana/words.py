"""The parts that dashboards share: variables, selectors and panels."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Panel, Query, Variable

NAMESPACES = Variable(
    "namespace", "Namespace", "label_values(kn_revision_request_queued, k8s_namespace_name)"
)
_IN_NAMESPACE = 'kn_revision_request_queued{k8s_namespace_name=~"$namespace"}'
REVISIONS = Variable(
    "revision", "Revision or Service", f"label_values({_IN_NAMESPACE}, kn_revision_name)"
)
ONE_REVISION = Variable("revision", "Revision or Service", REVISIONS.query, multiple=False)
ONE_NAMESPACE = Variable("namespace", "Namespace", NAMESPACES.query, multiple=False)
INSTANCES = Variable("instance", "Activator", "label_values(activator_build_info, instance)")

#: Selects the chosen revisions.
CHOSEN = 'k8s_namespace_name=~"$namespace", kn_revision_name=~"$revision"'
BY_REVISION = "sum by (k8s_namespace_name, kn_revision_name)"
REVISION_NAME = "{{k8s_namespace_name}}/{{kn_revision_name}}"


def quantiles(buckets: str, *wanted: str) -> tuple[Query, ...]:
    """Return a query for each quantile of one histogram.

    Arguments:
        buckets: rates by ``le``.
        wanted: 0.5 and so on.
    """
    return tuple(
        Query(f"histogram_quantile({q}, {buckets})", f"p{float(q) * 100:g}") for q in wanted
    )


def rate(metric: str, by: str, more: str = CHOSEN) -> str:
    """Return a query for the rate of a counter, added up by labels."""
    return f"sum by ({by}) (rate({metric}{{{more}}}[$__rate_interval]))"


WAITING_BY_REASON = Panel(
    "Queued requests, by reason",
    "Why requests wait now. Each reason has a page with steps to take in docs/reasons.",
    (Query(f"sum by (reason) (activator_waiting_requests{{{CHOSEN}}})", "{{reason}}"),),
    stack=True,
)
OUTCOMES = Panel(
    "Requests, by outcome",
    "All outcomes except served, admitted, cancelled, page and peek are error responses of the "
    "activator itself: 504 for timed-out; 503 for queue-full, tenant-full, shed, wait-refused, "
    "draining and not-authorized; 401 or 403 for denied; 502 for upstream-failed; 431 for refused. "
    "The annotation activator.dev/asleep-status chooses the status for asleep. A waiting page is a "
    "503, and its peeks get 503 until a pod is free.",
    (Query(rate("activator_requests_total", "outcome"), "{{outcome}}"),),
    unit="reqps",
    stack=True,
    alerts=("ActivatorRequestsTimeOut", "ActivatorUpstreamFailed", "ActivatorQueueFull"),
)
REQUEUES = Panel(
    "Retries and requeues",
    "Requests that a pod did not process, by cause. Clients notice only the time. "
    "Many of them mean that pods end before they leave the Endpoints.",
    (Query(rate("activator_requeues_total", "cause"), "{{cause}}"),),
    unit="reqps",
)
PODS = Panel(
    "Pods, by state",
    "healthy: usable. probing: listed, but not usable. draining: no longer listed, "
    "with requests in flight. The numbers are those of the activator that has most "
    "pods.",
    (
        Query(
            f"sum by (state) (max by (k8s_namespace_name, kn_revision_name, state) "
            f"(activator_pods{{{CHOSEN}}}))",
            "{{state}}",
        ),
    ),
)
RESPONSES = Panel(
    "Responses, by status",
    "Responses that clients got, from pods and from the activator itself. Knative's own metric.",
    (
        Query(
            "sum by (http_response_status_code) "
            f"(revision:http_server_requests:rate5m{{{CHOSEN}}})",
            "{{http_response_status_code}}",
        ),
    ),
    unit="reqps",
    stack=True,
)
DURATIONS = Panel(
    "Duration of requests",
    "From a request's arrival to the end of its response, including the time in the "
    "queue. Knative's own metric, whose buckets end at 10 s.",
    quantiles(
        f"sum by (le) (revision:http_server_request_duration_seconds_bucket:rate5m{{{CHOSEN}}})",
        *("0.5", "0.9", "0.95", "0.99"),
    ),
    unit="s",
)
WAITS = Panel(
    "Time in the queue",
    "Of requests that were queued and then got a pod.",
    quantiles(
        f"sum by (le) (revision:activator_request_wait_seconds_bucket:rate5m{{{CHOSEN}}})",
        *("0.5", "0.95", "0.99"),
    ),
    unit="s",
)
COLD_STARTS_BY_OUTCOME = Panel(
    "Cold starts, by outcome",
    "Requests for a revision without a usable pod start a cold start. failed in a row: cold starts "
    "that failed at one revision, until a pod of it is usable.",
    (
        Query(
            f"sum by (outcome) (increase(activator_cold_starts_total{{{CHOSEN}}}[5m]))",
            "{{outcome}}",
        ),
        Query(f"max(activator_failed_cold_starts{{{CHOSEN}}})", "failed in a row"),
    ),
    alerts=("ActivatorColdStartsFail",),
)
