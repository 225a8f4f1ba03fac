"""The dashboard of the scaler: owners, replicas and problems of annotated Services."""

from __future__ import annotations

from manifests.monitoring.grafana.grafana import Dashboard, Panel, Query, Row, Variable
from manifests.monitoring.grafana.words import quantiles

_NAMESPACES = Variable(
    "namespace", "Namespace", "label_values(activator_scale_replicas, namespace)"
)
_SERVICES = Variable(
    "service", "Service", 'label_values(activator_scale_replicas{namespace=~"$namespace"}, service)'
)
_CHOSEN = 'namespace=~"$namespace", service=~"$service"'
_NAME = "{{namespace}}/{{service}}"


def _by_service(title: str, description: str, metric: str, unit: str = "short") -> Panel:
    """Return a panel with one gauge of each chosen Service, as the leader has it."""
    query = Query(f"max by (namespace, service) ({metric}{{{_CHOSEN}}})", _NAME)
    return Panel(title, description, (query,), unit)


PROBLEMS = Row(
    "Is anything wrong?",
    (
        Panel(
            "Leader",
            "1: one scaler leads. 0: none does, and no workload starts. The Lease "
            "activator-scale names the leader.",
            (Query("sum(activator_scale_leader)", "leaders"),),
            alerts=("ActivatorScalerNoLeader",),
        ),
        Panel(
            "Services that are not scaled, by reason",
            "Services that are not scaled as their load or their annotations ask for. two-owners: "
            "another component scales the same workload. scale-forbidden: a rule is missing.",
            (Query(f"count by (reason) (activator_scale_problem{{{_CHOSEN}}})", "{{reason}}"),),
            stack=True,
            warn=1,
            alerts=("ActivatorServiceNotScaled",),
        ),
        Panel(
            "Failed changes of replicas",
            "Changes that the API server refused, in 5 minutes, by reason.",
            (
                Query(
                    "sum by (reason) (increase(activator_scale_failures_total[5m]))", "{{reason}}"
                ),
            ),
            warn=1,
        ),
        Panel(
            "Services that are not scaled",
            "Each Service with its reasons. `kubectl describe service` gives the remedy.",
            (
                Query(
                    "max by (namespace, service, reason) "
                    f"(activator_scale_problem{{{_CHOSEN}}}) > 0"
                ),
            ),
            kind="table",
            width=24,
        ),
    ),
)

SERVICES = Row(
    "Services",
    (
        Panel(
            "Annotated Services, by owner",
            "Services that opt in, by the component that lowers their replicas.",
            (Query("sum by (owner) (activator_scale_services)", "{{owner}}"),),
            stack=True,
        ),
        _by_service(
            "Load",
            "Requests in flight or queued, over all activators. With route takeover, "
            "requests that bypass the activators are missing.",
            "activator_scale_load",
        ),
        Panel(
            "Ready pods that are missing",
            "Replicas that the scaler wants beyond the ready pods. More than 0 for longer than a "
            "start: a reason is above, or the pods do not become ready.",
            (
                Query(
                    f"clamp_min(max by (namespace, service) "
                    f"(activator_scale_wanted_replicas{{{_CHOSEN}}}) - "
                    f"max by (namespace, service) (activator_scale_ready_pods{{{_CHOSEN}}}), 0)",
                    _NAME,
                ),
            ),
        ),
        _by_service(
            "Wanted replicas",
            "The target: replicas that the rules want for the load, also while something holds "
            "the change.",
            "activator_scale_wanted_replicas",
        ),
        _by_service("Replicas", "Replicas that the workload asks for.", "activator_scale_replicas"),
        Panel(
            "Held changes",
            "Wanted replicas minus the replicas that the workload asks for. Above 0 for longer "
            "than a few seconds: the API server refuses the increase. Below 0: a safeguard keeps "
            "the pods, such as stale-state, new-leader or takeover-not-in-place.",
            (
                Query(
                    f"max by (namespace, service) (activator_scale_wanted_replicas{{{_CHOSEN}}}) - "
                    f"max by (namespace, service) (activator_scale_replicas{{{_CHOSEN}}})",
                    _NAME,
                ),
            ),
            signed=True,
            warn=1,
        ),
        _by_service(
            "Ready pods", "Pods that Kubernetes lists as ready.", "activator_scale_ready_pods"
        ),
        Panel(
            "Changes of replicas, by rule",
            "Changes in 5 minutes. cold-start and idle in turn, again and again: "
            "idle-seconds is too short, or something else sets the replicas.",
            (Query("sum by (rule) (increase(activator_scale_changes_total[5m]))", "{{rule}}"),),
        ),
        Panel(
            "Pods that sleep",
            "Pods that sleep saves, and those of trial runs (activator.dev/dry-run) that it would "
            "save; and the CPU and memory that these pods request.",
            (
                Query(
                    "sum by (dry_run) (rate(activator_scale_saved_pod_seconds_total"
                    f"{{{_CHOSEN}}}[5m]))",
                    "pods, dry run {{dry_run}}",
                ),
                Query(
                    "sum by (dry_run) (rate(activator_scale_saved_cpu_core_seconds_total"
                    f"{{{_CHOSEN}}}[5m]))",
                    "cores, dry run {{dry_run}}",
                ),
                Query(
                    "sum by (dry_run) (rate(activator_scale_saved_memory_byte_seconds_total"
                    f"{{{_CHOSEN}}}[5m])) / 1024 ^ 3",
                    "GiB, dry run {{dry_run}}",
                ),
            ),
        ),
    ),
)

PROCESS = Row(
    "The scaler itself",
    (
        Panel(
            "From the first report to the response of the API server",
            "Part of each cold start: the scaler sends its request, and the API server responds.",
            quantiles(
                "sum by (le) (increase(activator_scale_cold_start_seconds_bucket[5m]))",
                *("0.5", "0.99"),
            ),
            unit="s",
            warn=0.1,
            alarm=1,
        ),
        Panel(
            "Time to decide about all Services",
            "Each 2 s. Above 0.1 s the scaler has too little CPU.",
            quantiles(
                "sum by (le) (increase(activator_scale_tick_seconds_bucket[5m]))", *("0.5", "0.99")
            ),
            unit="s",
            warn=0.1,
            alarm=1,
        ),
        Panel(
            "Activators",
            "Activators that are connected to the leader, and the frames of 5 minutes that could "
            "not be decoded as reports.",
            (
                Query("max(activator_scale_activators)", "connected"),
                Query("sum(increase(activator_scale_garbled_reports_total[5m]))", "garbled"),
            ),
        ),
        Panel(
            "Age of watches",
            "Time since the API server last sent anything; normally at most 60 s.",
            (Query("max by (kind) (activator_scale_watch_age_seconds)", "{{kind}}"),),
            unit="s",
            warn=120,
            alarm=300,
            alerts=("ActivatorScalerWatchStale",),
        ),
        Panel(
            "Unusable objects",
            "By kind; the log gives the errors.",
            (Query("max by (kind) (activator_scale_rejected_objects)", "{{kind}}"),),
            warn=1,
        ),
    ),
)

SCALER = Dashboard(
    "activator-scale",
    "Activator / the scaler",
    "Owners, replicas and problems of annotated Services. docs/how-to/dashboards.md explains it.",
    (_NAMESPACES, _SERVICES),
    (PROBLEMS, SERVICES, PROCESS),
)
