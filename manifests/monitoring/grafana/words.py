"""What the dashboards have in common: choices and the panels of cold starts."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Panel, Query, Variable

NAMESPACES = Variable(
    "namespace", "Namespace", "label_values(activator_queued_requests, k8s_namespace_name)"
)
_IN_NAMESPACE = 'activator_queued_requests{k8s_namespace_name=~"$namespace"}'
REVISIONS = Variable("revision", "Revision", f"label_values({_IN_NAMESPACE}, kn_revision_name)")
ONE_REVISION = Variable("revision", "Revision", REVISIONS.query, multiple=False)
ONE_NAMESPACE = Variable("namespace", "Namespace", NAMESPACES.query, multiple=False)
INSTANCES = Variable("instance", "Activator", "label_values(activator_build_info, instance)")

#: Selects what was chosen.
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
    """Return the rate of a counter, added up."""
    return f"sum by ({by}) (rate({metric}{{{more}}}[$__rate_interval]))"


WAITING_BY_REASON = Panel(
    "Waiting, by reason",
    "Why requests wait now. Each reason has a page in docs/reasons that says what to do.",
    (Query(f"sum by (reason) (activator_waiting_requests{{{CHOSEN}}})", "{{reason}}"),),
    stack=True,
)
OUTCOMES = Panel(
    "Requests, by how they ended",
    "All but served and cancelled are answers that the activator gave in the place of a pod: "
    "timed-out 504, queue-full, shed and draining 503, upstream-failed 502.",
    (Query(rate("activator_requests_total", "outcome"), "{{outcome}}"),),
    unit="reqps",
    stack=True,
)
REQUEUES = Panel(
    "Given to a pod once more",
    "Requests that a pod did not take, by why; their clients saw nothing of it but the time. Many "
    "mean that pods end without having been taken out of the Endpoints first.",
    (Query(rate("activator_requeues_total", "cause"), "{{cause}}"),),
    unit="reqps",
)
PODS = Panel(
    "Pods, by state",
    "healthy: in use. probing: listed, and not usable (yet). draining: no longer listed, with "
    "requests left. Of one activator: those who see more of them are not more pods.",
    (
        Query(
            f"sum by (state) (max by (k8s_namespace_name, kn_revision_name, state) "
            f"(activator_pods{{{CHOSEN}}}))",
            "{{state}}",
        ),
    ),
)
ANSWERS = Panel(
    "Answers, by status",
    "What clients got, from pods and from the activator itself. Knative's own metric.",
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
    "Time of requests",
    "From a request's arrival to the end of its answer, waiting included. Knative's own metric, "
    "whose buckets end at 10 s.",
    quantiles(
        f"sum by (le) (revision:http_server_request_duration_seconds_bucket:rate5m{{{CHOSEN}}})",
        *("0.5", "0.9", "0.95", "0.99"),
    ),
    unit="s",
)
WAITS = Panel(
    "Time in the queue",
    "Of requests that waited and got a pod; those that found one at once are not counted.",
    quantiles(
        f"sum by (le) (revision:activator_request_wait_seconds_bucket:rate5m{{{CHOSEN}}})",
        *("0.5", "0.95", "0.99"),
    ),
    unit="s",
)
COLD_STARTS_BY_OUTCOME = Panel(
    "Cold starts by outcome",
    "How often a revision without a usable pod was asked for. Anything but served is a cold start "
    "in vain.",
    (
        Query(
            f"sum by (outcome) (increase(activator_cold_starts_total{{{CHOSEN}}}[5m]))",
            "{{outcome}}",
        ),
    ),
)
