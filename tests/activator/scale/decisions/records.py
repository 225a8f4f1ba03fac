"""Records of Services without an engine, for tests of single decisions."""

from __future__ import annotations

from typing import Any

from activator.plain import service as services
from activator.scale.decisions.plan import Planner
from activator.scale.decisions.record import Facts, Record
from activator.scale.reports.load import ServiceName
from activator.scale.workloads.replicas import KNOWN, ScaleTarget
from tests.activator.plain.objects import service

HELLO = ScaleTarget(KNOWN["deployment"], "shop", "hello")


def facts(
    target: ScaleTarget | None = HELLO, replicas: int | None = 1, ready: int = 1, **more: Any
) -> Facts:
    """Return the facts about a Service; annotations are in ``asks``."""
    found = services.parse(service(more.pop("asks", {})))
    assert found is not None
    return Facts(found, target, replicas, ready, **more)


def record(**more: Any) -> Record:
    """Return a Service that was never decided about; arguments as for ``facts``."""
    known = facts(**more)
    key = known.service.key
    return Record(ServiceName(key.namespace, key.name), known, Planner(0.0, known.ready))


def with_owner(facts: Facts, other: str) -> Facts:
    """Return facts with another component that scales the workload."""
    fields = {name: getattr(facts, name) for name in Facts.__annotations__}
    return Facts(**fields | {"other_owner": other})
