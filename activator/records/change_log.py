"""Logs changes of pods and capacities: what happened, and the effect on requests.

A line costs 40 µs, so the number of lines is limited per revision and in total. A summary counts
the lines that were left out. The module decides nothing, and reads only its arguments. Knative's
counterpart: "Set capacity to 0 (backends: 0, index: 0/1)" of pkg/activator/net/throttler.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final

from throttler.capacity import MAX_CAPACITY
from throttler.model import RevisionID, RevisionKind
from throttler.pod import PodState, PodTracker
from throttler.pod_rule import PodDecision, PodRule, verdict
from throttler.reason import Reason
from throttler.revision import RevisionThrottler

logger = logging.getLogger(__name__)

#: Seconds in which lines are counted towards the limits.
WINDOW: Final = 10.0
#: Lines of one kind in that time, for one revision and for all.
OF_REVISION: Final = 10
OF_ALL: Final = 100
#: Revisions with a summary of their own, at most.
_SUMMARIES: Final = 10


class _Kind(Enum):
    """The kinds of lines. Each has its own limit: changes of pods must not hide a capacity of 0."""

    POD = "pod"
    CAPACITY = "capacity"


_NOT_UNTIL_PROBED: Final = "no request goes to it until it passes a probe"
_USED: Final = "requests may go to it"
#: The effect on requests, by decision and rule. All other rules are about readiness, and such a pod
#: waits for Kubernetes.
_CONSEQUENCES: Final[Mapping[tuple[PodDecision, PodRule], str]] = {
    (PodDecision.USE, PodRule.ON_TRIAL): "it gets one request at a time until it responds well",
    (
        PodDecision.USE,
        PodRule.BEYOND_SHARE,
    ): "requests go to it once the pods of the own share are full",
    (PodDecision.WAIT, PodRule.AWAITING_PROBE): _NOT_UNTIL_PROBED,
    (PodDecision.WAIT, PodRule.PROBE_FAILED): _NOT_UNTIL_PROBED,
    (PodDecision.WAIT, PodRule.ANSWERED_BADLY): "it is ejected until it passes a probe",
    (PodDecision.LEAVE, PodRule.BEYOND_SHARE): "it is in the share of another activator",
    (PodDecision.LEAVE, PodRule.MESH): "no request goes to it while mesh mode is enabled",
    (PodDecision.LEAVE, PodRule.DELISTED): "it finishes its requests and gets no others",
    (PodDecision.LEAVE, PodRule.TAKEN): "it finishes its requests and gets no others",
}
_BY_DECISION: Final[Mapping[PodDecision, str]] = {
    PodDecision.USE: _USED,
    PodDecision.WAIT: "no request goes to it until Kubernetes lists it as ready",
    PodDecision.LEAVE: "no request goes to it",
}


def identity(revision: RevisionID) -> dict[str, Any]:
    """Return the keys of a log line that name a revision; a Service has one key more."""
    named: dict[str, Any] = {"revision": str(revision)}
    if revision.kind is RevisionKind.SERVICE:
        named["object_kind"] = "Service"
    return named


class ChangeLog:
    """Logs changes, within its limits.

    Arguments:
        clock: seconds, monotonic.
        why: returns why requests of a revision wait, and a detail.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        why: Callable[[RevisionThrottler], tuple[Reason, str]],
    ) -> None:
        self._clock = clock
        self._why = why
        self._ends = clock()
        self._logged: Counter[object] = Counter()
        self._hidden: Counter[RevisionID] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def wanted(self) -> bool:
        """Whether the log's level includes these lines."""
        return logger.isEnabledFor(logging.INFO)

    def pod(self, pod: PodTracker, why: str) -> None:
        """Log that a pod, or the ClusterIP, has changed.

        Arguments:
            why: what happened, as a sentence without its full stop.
        """
        revision = pod.config.revision.id
        if not (self.wanted and self._admits(revision, _Kind.POD)):
            return
        found = verdict(pod)
        follows = _CONSEQUENCES.get(found[:2]) or _BY_DECISION[found.decision]
        if pod.state is PodState.GONE:
            follows = "it is gone"
        logger.info(
            "%s: %s; %s",
            *(name_of(pod), why, follows),
            extra={
                **identity(revision),
                "pod": pod.address,
                "state": pod.state.value,
                "ready": pod.ready and pod.state not in (PodState.DRAINING, PodState.GONE),
                "rule": found.rule.value,
            },
        )

    def capacity(self, revision: RevisionThrottler, was: int, why: str) -> None:
        """Log that a revision's capacity changed to or from 0.

        The line begins with the effect, which stays true while the number changes further.

        Arguments:
            was: its capacity before.
            why: what happened, as a sentence without its full stop.
        """
        terms = revision.capacity_terms()
        now = terms.capacity
        if bool(was) == bool(now) or not self.wanted:
            return
        if not self._admits(revision.revision.id, _Kind.CAPACITY):
            return
        extra: dict[str, Any] = identity(revision.revision.id)
        extra |= {"capacity": now if now != MAX_CAPACITY else None}
        follows = terms.sentence
        if not now:
            reason, detail = self._why(revision)
            # The detail often repeats the error that the cause has named.
            error = detail.partition(": ")[2] or detail
            kept = "" if error in why else detail
            waits = "requests wait" if revision.breaker.waiting else "requests would wait"
            follows = f"{waits}: {'; '.join(filter(None, (reason.value, kept)))}"
            extra["reason"] = reason.value
        logger.info(
            "%s: capacity %s -> %s; %s; %s",
            "requests can be sent" if now else "no request can be sent",
            *(_shown(was), _shown(now), why, follows),
            extra=extra,
        )

    def close(self) -> None:
        """Log how many lines were left out until now."""
        self._sum_up()

    # -- limits ---------------------------------------------------------------------------------

    def _admits(self, revision: RevisionID, kind: _Kind) -> bool:
        """Count a line; return whether it is within the limits."""
        now = self._clock()
        if now >= self._ends:
            self._sum_up()
            self._ends = now + WINDOW
        logged, own = self._logged, (revision, kind)
        if logged[own] < OF_REVISION and logged[kind] < OF_ALL:
            logged[own] += 1
            logged[kind] += 1
            return True
        self._hidden[revision] += 1
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._ends - now, self._sum_up)
        return False

    def _sum_up(self) -> None:
        """Log how many lines were left out, and reset the counts."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        hidden, self._hidden = self._hidden, Counter()
        self._logged.clear()
        shown = hidden.most_common(_SUMMARIES)
        for revision, count in shown:
            extra = {**identity(revision), "changes": count}
            logger.info(
                "… %s of %s %s %s not logged",
                *(_changes(count), extra.get("object_kind", "revision"), revision),
                "was" if count == 1 else "were",
                extra=extra,
            )
        if others := len(hidden) - len(shown):
            count = hidden.total() - sum(count for _, count in shown)
            logger.info(
                "… %s of %d other revisions %s not logged",
                *(_changes(count), others, "was" if count == 1 else "were"),
                extra={"changes": count},
            )


def name_of(pod: PodTracker) -> str:
    """Return the name of a pod in a log line."""
    return f"{pod.endpoint.uid if pod.is_service else 'pod'} {pod.address}"


def _shown(capacity: int) -> str:
    return "unlimited" if capacity == MAX_CAPACITY else str(capacity)


def _changes(count: int) -> str:
    return f"{count} more change{'' if count == 1 else 's'}"


# Moves that few users expect: requests to a ClusterIP, and addresses to another revision.


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
