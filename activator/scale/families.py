"""Declares the metrics of the scaler; ``python -m activator.scale.families`` prints their table."""

from __future__ import annotations

from typing import Final

from activator.telemetry.families import Family, counter, gauge, histogram, markdown

SERVICE: Final = ("namespace", "service")

TICK_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
COLD_START_BOUNDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)

# One row is one block; the formatter would put each value on a line of its own.
# fmt: off
LEADER: Final = gauge("activator_scale_leader", "1 on the scaler that leads, 0 on the others.")
SERVICES: Final = gauge(
    "activator_scale_services", "Annotated Services, by owner of their replicas.", "owner",
)
ACTIVATORS: Final = gauge(
    "activator_scale_activators", "Activators that are connected to this scaler.",
)
REPLICAS: Final = gauge(
    "activator_scale_replicas", "Replicas that the Service's workload asks for.", *SERVICE,
)
WANTED: Final = gauge(
    "activator_scale_wanted_replicas",
    "Replicas that the rules want, also while a change is held; with another owner, those of the "
    "workload.", *SERVICE,
)
READY: Final = gauge(
    "activator_scale_ready_pods", "Pods of the Service that Kubernetes lists as ready.", *SERVICE,
)
LOAD: Final = gauge(
    "activator_scale_load",
    "Requests of the Service that are in flight or queued, over all activators.", *SERVICE,
)
SAVED: Final = tuple(
    counter(
        f"activator_scale_saved_{unit}_total",
        f"{what} that the sleep of the workload has saved, since this scaler leads. With dry_run "
        f"true: that it would have saved.", *SERVICE, "dry_run",
    )
    for unit, what in (
        ("pod_seconds", "Seconds of pods"),
        ("cpu_core_seconds", "Requested CPU, in seconds of cores,"),
        ("memory_byte_seconds", "Requested memory, in bytes times seconds,"),
    )
)
PROBLEM: Final = gauge(
    "activator_scale_problem",
    "1 for each reason why a Service is not scaled as its load or annotations ask for.",
    *SERVICE, "reason",
)
CHANGES: Final = counter(
    "activator_scale_changes_total", "Changes of replicas, by the rule.", "rule",
)
FAILURES: Final = counter(
    "activator_scale_failures_total", "Failed changes of replicas, by the reason.", "reason",
)
COLD_STARTS: Final = histogram(
    "activator_scale_cold_start_seconds",
    "Time from the first report of a waiting request until the API server has set the replicas.",
    COLD_START_BOUNDS,
)
TICKS: Final = histogram(
    "activator_scale_tick_seconds",
    "CPU time in which the scaler decides about all Services.", TICK_BOUNDS,
)
GARBLED: Final = counter(
    "activator_scale_garbled_reports_total",
    "Frames on the activators' port that are no reports.",
)
WATCH_AGE: Final = gauge(
    "activator_scale_watch_age_seconds",
    "Time since the last sign of life of the API server's watch, by kind of objects.", "kind",
)
REJECTED: Final = gauge(
    "activator_scale_rejected_objects",
    "Objects that cannot be used; the last good state of each stays in force.", "kind",
)
# fmt: on

_ROWS: Final = tuple(each for each in tuple(globals().values()) if isinstance(each, Family))
FAMILIES: Final = (*_ROWS, *SAVED)


if __name__ == "__main__":
    print(markdown(FAMILIES))
