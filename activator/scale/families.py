"""Declares the metrics of the scaler; ``python -m activator.scale.families`` prints their table."""

from __future__ import annotations

from typing import Final

from activator.telemetry.families import Family, MetricKind, markdown

SERVICE: Final = ("namespace", "service")

TICK_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
COLD_START_BOUNDS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)

_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM

# One row is one block; the formatter would put each value on a line of its own.
# fmt: off
LEADER: Final = Family(
    "activator_scale_leader", _G, (), "1 on the scaler that leads, 0 on the others."
)
SERVICES: Final = Family(
    "activator_scale_services", _G, ("owner",), "Annotated Services, by owner of their replicas."
)
ACTIVATORS: Final = Family(
    "activator_scale_activators", _G, (), "Activators that are connected to this scaler."
)
REPLICAS: Final = Family(
    "activator_scale_replicas", _G, SERVICE, "Replicas that the Service's workload asks for."
)
WANTED: Final = Family(
    "activator_scale_wanted_replicas", _G, SERVICE,
    "Replicas that the rules want, also while a change is held; with another owner, those of the "
    "workload.",
)
READY: Final = Family(
    "activator_scale_ready_pods", _G, SERVICE, "Pods of the Service that Kubernetes lists as ready."
)
LOAD: Final = Family(
    "activator_scale_load", _G, SERVICE,
    "Requests of the Service that are in flight or queued, over all activators.",
)
SAVED: Final = tuple(
    Family(
        f"activator_scale_saved_{unit}_total", _C, (*SERVICE, "dry_run"),
        f"{what} that the sleep of the workload has saved, since this scaler leads. With dry_run "
        f"true: that it would have saved.",
    )
    for unit, what in (
        ("pod_seconds", "Seconds of pods"),
        ("cpu_core_seconds", "Requested CPU, in seconds of cores,"),
        ("memory_byte_seconds", "Requested memory, in bytes times seconds,"),
    )
)
PROBLEM: Final = Family(
    "activator_scale_problem", _G, (*SERVICE, "reason"),
    "1 for each reason why a Service is not scaled as its load or annotations ask for.",
)
CHANGES: Final = Family(
    "activator_scale_changes_total", _C, ("rule",), "Changes of replicas, by the rule."
)
FAILURES: Final = Family(
    "activator_scale_failures_total", _C, ("reason",), "Failed changes of replicas, by the reason."
)
COLD_STARTS: Final = Family(
    "activator_scale_cold_start_seconds", _H, (),
    "Time from the first report of a waiting request until the API server has set the replicas.",
    COLD_START_BOUNDS,
)
TICKS: Final = Family(
    "activator_scale_tick_seconds", _H, (),
    "CPU time in which the scaler decides about all Services.", TICK_BOUNDS,
)
GARBLED: Final = Family(
    "activator_scale_garbled_reports_total", _C, (),
    "Frames on the activators' port that are no reports.",
)
WATCH_AGE: Final = Family(
    "activator_scale_watch_age_seconds", _G, ("kind",),
    "Time since the last sign of life of the API server's watch, by kind of objects.",
)
REJECTED: Final = Family(
    "activator_scale_rejected_objects", _G, ("kind",),
    "Objects that cannot be used; the last good state of each stays in force.",
)
# fmt: on

_ROWS: Final = tuple(each for each in tuple(globals().values()) if isinstance(each, Family))
FAMILIES: Final = (*_ROWS, *SAVED)


if __name__ == "__main__":
    print(markdown(FAMILIES))
