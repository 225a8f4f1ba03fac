"""Decides whether the invariants of a soak held. Pure: no clock, no process.

Times are seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from statistics import median
from typing import Final

from activator.discovery.backoff import Timings
from activator.scale import election
from benchmarks.mixed import kinds
from benchmarks.mixed.kinds import ALL_KINDS, Excuse
from benchmarks.mixed.record import TENTHS
from benchmarks.mixed.verdict import Failure, Kill, excused
from benchmarks.soak.plan import Fault

#: Seconds after the SIGKILL of an activator in which its requests may fail.
KILL_WINDOW: Final = 1.0
#: Seconds before and after the end of a pod's process in which its connections may break.
ENDS_WITHIN: Final = 0.25
#: How the names of kinds begin whose clients use HTTP/2.
HTTP2: Final = ("h2 ", "gRPC ")
#: Seconds between a failure and the line of the ingress about it, whose time has whole seconds.
LOGGED_WITHIN: Final = 1.5
GOAL_KILLED: Final = 0.95
#: Most memory, or most files, of the last sixth of the samples, divided by that of the first.
GOAL_GROWTH: Final = 1.05
#: Requests that end within a fraction of a second, as the probes of Knative's own test do.
SHORT: Final = frozenset(
    kind.name
    for kind in (
        *(kinds.GET, kinds.GET_ONCE, kinds.POST, kinds.H2_GET, kinds.H2_TO_H1_GET),
        *(kinds.H2_TO_H1_POST, kinds.H1_TO_H2_GET, kinds.UNARY),
    )
)
#: Requests that a repetition does no harm to.
IDEMPOTENT: Final = frozenset(
    name for name, kind in ALL_KINDS.items() if kind.excuse is not Excuse.SENT
)


@dataclass(frozen=True, slots=True)
class Occurred:
    """One fault that took place.

    Attributes:
        target: the service, or the address of the activator; empty for neither.
        began, ended: infinity while it lasts.
    """

    fault: Fault
    target: str
    began: float
    ended: float = float("inf")

    def is_at(self, service: str) -> bool:
        """Return whether it affects a service."""
        return self.fault in _EVERYWHERE or self.target == service

    def overlaps(self, began: float, ended: float) -> bool:
        """Return whether it was active in a part of an interval."""
        return self.began <= ended and self.ended >= began


class Fate(Enum):
    """Why a request failed."""

    LOST = "lost"
    POD = "ended with their pod"
    LIED = "broken by their pod"
    ACTIVATOR = "cut with their activator"
    INGRESS = "misnumbered by the ingress"


def fate(
    failure: Failure,
    kills: Sequence[Kill],
    occurred: Iterable[Occurred],
    misnumbered: Iterable[float] = (),
) -> Fate:
    """Return why a request failed; nothing excuses a complete and false response.

    Arguments:
        misnumbered: see `Ingress.misnumbered`; it concerns requests that the ingress repeated.
    """
    if failure.wrong:
        return Fate.LOST
    if excused(failure, kills):
        return Fate.POD
    is_repeated = failure.kind.startswith(HTTP2) and ", " in failure.via
    if is_repeated and any(abs(failure.ended - at) <= LOGGED_WITHIN for at in misnumbered):
        return Fate.INGRESS
    kind = ALL_KINDS[failure.kind]
    for each in occurred:
        if kind.excuse is Excuse.LIED and each.fault is Fault.BROKEN_FRAMING:
            if each.overlaps(failure.sent, failure.ended):
                return Fate.LIED
        elif each.fault is Fault.ACTIVATOR_KILL and _is_cut(failure, kind.excuse, each):
            return Fate.ACTIVATOR
    return Fate.LOST


def _is_cut(failure: Failure, excuse: Excuse, kill: Occurred) -> bool:
    """Return whether the death of its activator ended a request.

    The ingress retries an idempotent request, unless its response had begun. If it retried, the
    last activator had the request.
    """
    last = failure.via.rpartition(", ")[2]
    if last and kill.target != last.rpartition(":")[0]:
        return False
    if excuse is not Excuse.SENT and not failure.pod:
        return False
    return failure.sent <= kill.began + KILL_WINDOW and failure.ended >= kill.began


def unseen_end(pod: str, began: float, ended: float, occurred: Iterable[Occurred]) -> list[Kill]:
    """Return the end of a pod as a kill if the activators could not know of it; else nothing.

    A request may be written to a connection that the pod closes at this moment. Kubernetes would
    have reported the end of the pod before, but a fault delayed that report.

    Arguments:
        pod: the name of its process.
        began, ended: from its SIGTERM to the end of its process.
    """
    unseen = any(
        each.fault in UNSEEN | _API
        and each.is_at(kinds.COLD)
        and each.overlaps(began - _aftermath(each.fault), ended)
        for each in occurred
    )
    return [Kill(pod, ended - ENDS_WITHIN, ended + ENDS_WITHIN)] if unseen else []


def availability(
    kill: Occurred, failures: Iterable[Failure], sent: Mapping[str, int]
) -> tuple[int, int]:
    """Return how many short requests failed in the second of a kill, and how many there were.

    Arguments:
        sent: the number of requests by ``KIND@TENTHS``, as `Record.report` has it.
    """
    end = kill.began + KILL_WINDOW
    failed = [
        failure
        for failure in failures
        if failure.kind in SHORT and failure.sent <= end and failure.ended >= kill.began
    ]
    earlier = sum(failure.sent < kill.began for failure in failed)
    return len(failed), earlier + sent_between(kill.began, end, sent)


def sent_between(began: float, ended: float, sent: Mapping[str, int]) -> int:
    """Return how many short requests were sent in an interval."""
    total = 0
    for key, number in sent.items():
        name, _, at = key.rpartition("@")
        if name in SHORT and began <= int(at) / TENTHS <= ended:
            total += number
    return total


# -- reasons ------------------------------------------------------------------------------------

#: Seconds after a fault in which its reason is still true: an ejection lasts up to 5 s.
AFTERWARDS: Final = 6.0
#: Seconds after which an activator must have noticed that its autoscaler or scaler is gone.
NOTICED: Final = 4.0


@dataclass(frozen=True, slots=True)
class Sighting:
    """A reason that an activator reported.

    Attributes:
        reason: the word; service: the service whose request waited or failed.
    """

    reason: str
    service: str
    at: float


@dataclass(frozen=True, slots=True)
class Rule:
    """When a reason is true.

    Attributes:
        faults: the faults that cause it, at the service itself or at all services.
        services: services for which it may be true without a fault.
        only: services for which it can be true at all; empty for all.
    """

    faults: frozenset[Fault] = frozenset()
    services: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()


_POD: Final = frozenset(
    {
        *(Fault.KILL_POD, Fault.STOP_POD, Fault.SLOW_POD, Fault.DEAD_POD_READY),
        *(Fault.WRONG_PROBE, Fault.BROKEN_FRAMING, Fault.DROP_PACKETS),
    }
)
_LISTS: Final = frozenset(
    {
        *(Fault.ENDPOINTS_STALE, Fault.ENDPOINTS_TRUNCATED),
        *(Fault.ENDPOINTS_FLAPPING, Fault.ENDPOINTS_EMPTY),
    }
)
_API: Final = frozenset({Fault.WATCH_CUT, Fault.WATCH_EXPIRED, Fault.WATCH_SILENT, Fault.API_AWAY})
#: Faults in which an activator cannot know that a pod of the cold service ends.
UNSEEN: Final = frozenset({Fault.WATCH_SILENT, Fault.API_AWAY, Fault.ENDPOINTS_STALE})
_STARTS: Final = frozenset({Fault.ACTIVATOR_ROLL, Fault.ACTIVATOR_KILL})
_SCALERS: Final = frozenset({Fault.SCALER_RESTART, Fault.SCALER_KILL})
_REVISIONS: Final = frozenset({kinds.WEB, kinds.RPC, kinds.COLD, kinds.LIAR})
_SLEEPERS: Final = frozenset({kinds.COLD, kinds.SCALED, kinds.BYTES})

#: When each reason is true. A reason without a row is always false.
RULES: Final[Mapping[str, Rule]] = {
    "autoscaler-unreachable": Rule(_STARTS | {Fault.AUTOSCALER_RESTART}, only=_REVISIONS),
    "scaler-unreachable": Rule(_STARTS | _SCALERS, only=frozenset({kinds.SCALED, kinds.BYTES})),
    "no-endpoints": Rule(frozenset({Fault.ENDPOINTS_EMPTY, Fault.ENDPOINTS_FLAPPING}), _SLEEPERS),
    "pods-not-ready": Rule(_POD | _LISTS | _API, _SLEEPERS),
    "probe-failing": Rule(_POD | _LISTS | _API),
    "bad-answers": Rule(_POD),
    "at-capacity": Rule(_POD | _LISTS, _SLEEPERS),
    "upstream-failed": Rule(_POD | UNSEEN | _API),
    "draining": Rule(frozenset({Fault.ACTIVATOR_ROLL})),
}
_EVERYWHERE: Final = _API | _STARTS | _SCALERS | {Fault.AUTOSCALER_RESTART}
#: The sleeper of each peer: without the peer, nothing starts its pod.
_PEERS: Final = {
    kinds.COLD: frozenset({Fault.AUTOSCALER_RESTART}),
    kinds.SCALED: _SCALERS,
    kinds.BYTES: _SCALERS,
}


def is_true(seen: Sighting, occurred: Iterable[Occurred]) -> bool:
    """Return whether a reported reason agrees with the faults at its time."""
    rule = RULES.get(seen.reason)
    if rule is None or (rule.only and seen.service not in rule.only):
        return False
    active = list(occurred)
    if seen.reason == "no-endpoints" and any(
        each.fault in _PEERS.get(seen.service, ()) and each.began + NOTICED <= seen.at <= each.ended
        for each in active
    ):
        return False  # it must name the peer
    return seen.service in rule.services or any(
        each.fault in rule.faults
        and each.is_at(seen.service)
        and each.began <= seen.at <= each.ended + AFTERWARDS + _aftermath(each.fault)
        for each in active
    )


def _aftermath(fault: Fault) -> float:
    """Return the seconds after a fault until the cluster is as before.

    Without queued requests, an activator pauses for up to ``backoff_limit`` after a failure of the
    API server. A scaler that has lost its leader by SIGKILL waits for the end of the Lease.
    """
    if fault in _API:
        return Timings().backoff_limit
    return election.DURATION if fault in _SCALERS else 0.0


def false_reasons(
    sightings: Iterable[Sighting], occurred: Sequence[Occurred]
) -> list[tuple[Sighting, int]]:
    """Return the reasons that no fault explains, each once per service with its number."""
    found = [seen for seen in sightings if not is_true(seen, occurred)]
    counts = Counter(replace(seen, at=0.0) for seen in found)
    first = {replace(seen, at=0.0): seen for seen in reversed(found)}
    return [(first[key], number) for key, number in counts.items()]


# -- growth -------------------------------------------------------------------------------------


def growth(values: Sequence[float]) -> float:
    """Return the median of the last sixth divided by that of the first; 1 for too few values."""
    size = len(values) // 6
    if not size:
        return 1.0
    first = median(values[:size])
    return median(values[-size:]) / first if first else 1.0
