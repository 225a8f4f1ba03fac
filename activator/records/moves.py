"""Logs moves that few users expect: requests to a ClusterIP, and addresses to another revision."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from activator.records.change_log import identity
from throttler.model import RevisionID
from throttler.pod import PodTracker

logger = logging.getLogger(__name__)


def log_route(service: PodTracker) -> None:
    """Log that requests use, or no longer use, the ClusterIP."""
    if service.in_use:
        why = "pods are out of reach" if service.config.reach.pods else "mesh mode is enabled"
        text = f"requests go to the ClusterIP {service.address}: {why}"
    else:
        text = f"requests no longer go to the ClusterIP {service.address}"
    logger.info(text, extra=identity(service.config.revision.id))


def log_taken(pods: Iterable[PodTracker]) -> None:
    """Warn that addresses of pods moved to another revision, with one line for each pair.

    Kubernetes reused the addresses, or an Endpoints object lists pods of another revision.
    """
    losses: dict[tuple[RevisionID, RevisionID], list[str]] = {}
    for pod in pods:
        if (owner := pod.taken_by) is not None:
            losses.setdefault((pod.config.revision.id, owner), []).append(pod.address)
    for (loser, owner), addresses in losses.items():
        more = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
        logger.warning(
            "address %s%s moved from revision %s to revision %s, which lists it for other pods",
            *(addresses[0], more, loser, owner),
            extra={**identity(loser), "pod": addresses[0]},
        )
