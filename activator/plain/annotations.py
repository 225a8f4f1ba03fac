"""Reads the annotations of a Service into one typed record: one table, one row per annotation.

docs/reference.md has the table; ``python -m activator.plain.annotations`` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from activator.kpa.decision import ScaleRules
from activator.objects import policies
from activator.objects.fields import Field, Problems
from activator.plain import annotation_values as values
from activator.plain.annotation_values import (
    ChosenProbe,
    Owner,
    ReadinessPolicy,
    Route,
    Target,
)
from throttler.model import NO_POLICIES, Policies

PREFIX: Final = policies.PREFIX
ENABLED: Final = f"{PREFIX}enabled"

_SCALE: Final = "scale."
#: Annotations whose default may be another workload or port than the one that is meant.
_ESSENTIAL: Final = ("target", "port", "pods-service")


@dataclass(frozen=True, slots=True)
class Annotations:
    """What the annotations of a Service ask for.

    Attributes:
        target: the object that is scaled; None for the one that the selector matches.
        hosts: hosts of the Service beside its names in the cluster, in lower case.
        port: name or number of the Service port; empty for the default.
        container_concurrency: requests that one pod may have at a time; 0 for no limit.
        timeout, response_start_timeout, idle_timeout: seconds; 0 for no limit.
        readiness: what makes a pod usable.
        probe: the activator's probe; None for the one of the container.
        route: how requests get to the activator.
        pods_service: with route ``front``: the Service whose selector finds the pods.
        owner: what scales the workload.
        scale: the numbers of the autoscaler.
        policies: which pod gets a request, how many requests a pod gets, and which is next.
    """

    target: Target | None = None
    hosts: tuple[str, ...] = ()
    port: str = ""
    container_concurrency: int = 0
    timeout: float = 300.0
    response_start_timeout: float = 0.0
    idle_timeout: float = 0.0
    readiness: ReadinessPolicy = ReadinessPolicy.AUTO
    probe: ChosenProbe | None = None
    route: Route = Route.SHARED
    pods_service: str = ""
    owner: Owner = Owner.SELF
    scale: ScaleRules = ScaleRules()  # noqa: RUF009  # frozen, so all may share it
    policies: Policies = NO_POLICIES

    @property
    def is_bypassed(self) -> bool:
        """Whether clients connect to ready pods, so that the activators see no such request.

        With route ``front`` they do, unless each request needs an activator.
        """
        if self.route is not Route.FRONT:
            return self.route is Route.TAKEOVER
        return not (self.container_concurrency or self.policies.concern_each)


def is_enabled(metadata: Field) -> bool:
    """Return whether an object opts in.

    Raises:
        ManifestError: the annotation has another value than ``true`` and ``false``.
    """
    field = metadata["annotations"].at(ENABLED)
    return values.one_of({"true": True, "false": False, "": False})(field) or False


def read(metadata: Field, problems: Problems) -> Annotations:
    """Return what the annotations of a Service ask for, with a safe default for each wrong value.

    Arguments:
        metadata: of the Service.
        problems: gets an error for each wrong value, and for values that contradict each other.

    Raises:
        ManifestError: the annotations are no object.
    """
    annotations = metadata["annotations"]
    found = {
        row.attribute: value
        for name, row in TABLE.items()
        for field in [annotations.at(PREFIX + name)]
        if (value := problems.read(partial(row.read, field), essential=name in _ESSENTIAL))
        is not None
    }
    scale = {
        name[len(_SCALE) :]: found.pop(name) for name in list(found) if name.startswith(_SCALE)
    }
    if concurrency := found.get("container_concurrency"):
        scale.setdefault("target", float(concurrency))
    least, most = scale.get("min_scale", 0), scale.get("max_scale", 0)
    if 0 < most < least:
        limit = annotations.at(f"{PREFIX}max-scale")
        problems.read(lambda: limit.expected(f"0 or at least min-scale, which is {least}"))
        del scale["min_scale"], scale["max_scale"]
    if found.get("route") is Route.UNREADABLE:
        found["owner"] = Owner.NONE  # the activators may not see the load, which asks for replicas
    chosen = problems.read(partial(policies.parse, annotations)) or NO_POLICIES
    return Annotations(**found, scale=ScaleRules(**scale), policies=chosen)


# -- the table -------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One annotation.

    Attributes:
        attribute: the attribute of ``Annotations``; that of its ``scale`` behind ``scale.``.
        read: returns the value; None for the default.
        values, default, meaning: for people.
    """

    attribute: str
    read: values.Read
    values: str
    default: str
    meaning: str


def _words(values: type[Enum]) -> str:
    return ", ".join(f"`{each.value}`" for each in values if each.value)


#: All annotations but ``enabled``, by name without the prefix.
TABLE: Final[Mapping[str, Row]] = {
    "target": Row(
        *("target", values.target, "`KIND/NAME` or `GROUP/VERSION/KIND/NAME`"),
        "the one Deployment or StatefulSet that the selector matches",
        "The object that is scaled. It has a `scale` subresource.",
    ),
    "hosts": Row(
        *("hosts", values.hosts, "DNS names, separated by commas; `*.` may come first", ""),
        "More hosts of the Service, for traffic through the shared port.",
    ),
    "port": Row(
        *("port", values.port, "name or number of a port of the Service"),
        "the only port, or the one named `http`, `http1`, `h2c`, `http2` or `grpc`",
        "The port whose requests are buffered.",
    ),
    "container-concurrency": Row(
        *("container_concurrency", values.whole(0), "integer from 0", "`0`"),
        "Requests that one pod has at a time; 0 for no limit.",
    ),
    "timeout-seconds": Row(
        *("timeout", values.seconds, "integer from 0", "`300`"),
        "Seconds from the arrival of a request to the first byte of its response; 0 for no limit.",
    ),
    "response-start-timeout-seconds": Row(
        *("response_start_timeout", values.seconds, "integer from 0", "`0`"),
        "Seconds from the arrival of a request to the start of its response; 0 for no limit.",
    ),
    "idle-timeout-seconds": Row(
        *("idle_timeout", values.seconds, "integer from 0", "`0`"),
        "Seconds without a byte of the response; 0 for no limit.",
    ),
    "readiness-policy": Row(
        *("readiness", values.enum_of(ReadinessPolicy), _words(ReadinessPolicy), "`auto`"),
        "What makes a pod usable: the activator's probe, or also Kubernetes' list.",
    ),
    "probe": Row(
        *("probe", values.probe, "`http:/PATH`, `tcp`, `grpc`, `grpc:SERVICE`, `none`"),
        "the readiness probe of the container, if it is on that port; else `tcp`",
        "How the activator probes a pod. With `none`, Kubernetes' list decides alone.",
    ),
    "route": Row(
        *("route", values.enum_of(Route, Route.UNREADABLE), _words(Route), "`shared`"),
        "How requests get to the activator.",
    ),
    "pods-service": Row(
        *("pods_service", values.service, "name of a Service in the namespace", ""),
        "With route `front`: the Service whose selector finds the pods.",
    ),
    "owner": Row(
        *("owner", values.enum_of(Owner, Owner.NONE), _words(Owner), "`self`"),
        "What scales the workload above one replica, and down again.",
    ),
    "min-scale": Row(
        *("scale.min_scale", values.whole(0), "integer from 0", "`0`"),
        "Replicas that the workload has even without a request.",
    ),
    "max-scale": Row(
        *("scale.max_scale", values.whole(0), "integer from 0", "`0`"),
        "Replicas that the workload never exceeds; 0 for no limit.",
    ),
    "target-concurrency": Row(
        *(
            "scale.target",
            values.concurrency,
            "number from 0.01",
            "container-concurrency, else `100`",
        ),
        "Concurrent requests that one pod is meant for.",
    ),
    "idle-seconds": Row(
        *("scale.idle", values.seconds, "integer from 0", "`300`"),
        "Seconds from the end of the last request to scale to zero.",
    ),
    "initial-scale": Row(
        *("scale.initial_scale", values.whole(0), "integer from 0", "`1`"),
        "Replicas that a cold start asks for; 0 counts as 1. With owner `self` none of them goes "
        "until 60 s after all were ready, or until the Service sleeps.",
    ),
}

#: The annotations that some module reads.
KNOWN: Final = (ENABLED, *policies.ANNOTATIONS, *(PREFIX + name for name in TABLE))


def reference() -> str:
    """Return the table of all annotations, in Markdown."""
    rows = [
        f"| `{PREFIX}{name}` | {row.values} | {row.default} | {row.meaning} |"
        for name, row in TABLE.items()
    ]
    first = f"| `{ENABLED}` | `true`, `false` | `false` | Opts the Service in. |"
    return "\n".join(
        ["| annotation | values | default | meaning |", "|---|---|---|---|", first, *rows]
    )


if __name__ == "__main__":
    print(reference())
