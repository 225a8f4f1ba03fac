"""Reads the facts about a Service: its workload, the right to scale it, or the reason for none."""

from __future__ import annotations

from activator.plain.service import PlainService
from activator.scale.decisions import reasons
from activator.scale.decisions.record import Facts
from activator.scale.workloads.actuator import Target
from activator.scale.workloads.rights import Rights
from activator.scale.workloads.services import Joined
from activator.scale.workloads.subresource import Problem
from activator.scale.workloads.targets import Found, TargetProblem


def read(joined: Joined, rights: Rights) -> Facts:
    """Return the facts about a Service, without the findings of the parts."""
    service, found, ready = joined
    if service.refused:
        reason = service.refusal or reasons.SERVICE_REFUSED
        return Facts(service, None, None, ready, reason, service.refused)
    if found.look_up is not None:
        found = _looked_up(service, found, rights)
    if found.problem is not None:
        return Facts(service, None, None, ready, found.problem.value, found.detail)
    if found.target is None:
        return Facts(service, None, None, ready, reasons.REPLICAS_UNKNOWN)
    missing = rights.problem(found.target)
    reason = Problem.FORBIDDEN.value if missing else ""
    is_watched = found.replicas is not None
    return Facts(
        *(service, found.target, found.replicas, ready, reason, missing),
        is_watched=is_watched,
    )


def _looked_up(service: PlainService, found: Found, rights: Rights) -> Found:
    """Return the target of a kind that only the API server knows."""
    wanted = found.look_up
    assert wanted is not None
    resource = rights.resource(wanted)
    if resource is None:
        return found
    if isinstance(resource, str):
        detail = f"annotation activator.dev/target: {wanted}: {resource}"
        return Found(None, problem=TargetProblem.UNKNOWN_KIND, detail=detail)
    return Found(Target(resource, service.key.namespace, wanted.name))
