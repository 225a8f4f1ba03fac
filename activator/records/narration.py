"""Reports the changes that a decision makes to pods, capacity and queues.

The module compares a revision before and after a call of the throttler. So the throttler need not
know a log or listeners. The log gets pods and capacity; the listeners also get queues. The module
changes nothing, and knows neither HTTP nor Kubernetes. Knative has no counterpart, except its line
"Set capacity to 0 (backends: 0, index: 0/1)" of pkg/activator/net/throttler.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from throttler.backends import PEER_UID
from throttler.capacity import MAX_CAPACITY
from throttler.errors import RevisionNotFound
from throttler.model import AppProtocol, Revision, RevisionID, RevisionKind
from throttler.pod import PodState, PodTracker
from throttler.pod_rule import PodDecision, PodRule, verdict
from throttler.reason import Reason, of_connections
from throttler.revision import RevisionThrottler
from throttler.throttler import Throttler
from throttler.ticket import Changes

logger = logging.getLogger(__name__)

# The log: what happened, and the effect on requests.
#
# A line costs 40 µs, so the number of lines is limited per revision and in total. A summary counts
# the lines that were left out.

#: Seconds in which lines are counted towards the limits.
WINDOW: Final = 10.0
#: Lines of one kind in that time, for one revision and for all. The kinds are ``pod`` and
#: ``capacity``: changes of pods must not hide a capacity of 0.
OF_REVISION: Final = 10
OF_ALL: Final = 100
#: Revisions with a summary of their own, at most.
_SUMMARIES: Final = 10


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
    (PodDecision.WAIT, PodRule.WORKLOAD_SLEEPS): "no request goes to it until its workload wakes",
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
    """Return the keys of a log line that name a revision; other kinds have one key more."""
    named: dict[str, Any] = {"revision": str(revision)}
    if revision.kind is not RevisionKind.REVISION:
        named["object_kind"] = WORDS[revision.kind]
    return named


#: What people call a revision of each kind.
WORDS: Final = {
    RevisionKind.REVISION: "revision",
    RevisionKind.SERVICE: "Service",
    RevisionKind.HTTP_ROUTE: "route object",
    RevisionKind.FALLBACK: "fallback of route object",
}


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
        if not (self.wanted and self._admits(revision, "pod")):
            return
        found = verdict(pod)
        follows = _CONSEQUENCES.get(found[:2]) or _BY_DECISION[found.decision]
        if pod.state is PodState.GONE:
            follows = "it is gone"
        logger.info(
            "%s: %s; %s",
            *(name_of(pod), why, _worded(pod.config.revision, follows)),
            extra={
                **identity(revision),
                "pod": pod.address,
                "state": pod.state.value,
                "ready": _listed_as_ready(pod),
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
        if not self._admits(revision.revision.id, "capacity"):
            return
        extra: dict[str, Any] = identity(revision.revision.id)
        extra |= {"capacity": now if now != MAX_CAPACITY else None}
        follows = terms.sentence
        if not now:
            reason, detail = self._why(revision)
            # The detail often repeats the error that the cause has named.
            error = detail.partition(": ")[2] or detail
            kept = "" if error in why else detail
            waits = "requests wait" if revision.queued.waiting else "requests would wait"
            follows = f"{waits}: {'; '.join(filter(None, (reason.value, kept)))}"
            extra["reason"] = reason.value
        effect = "requests can be sent" if now else "no request can be sent"
        logger.info(
            "%s: capacity %s -> %s; %s; %s",
            _worded(revision.revision, effect),
            *(_shown(was), _shown(now), why, _worded(revision.revision, follows)),
            extra=extra,
        )

    # -- limits ---------------------------------------------------------------------------------

    def _admits(self, revision: RevisionID, kind: str) -> bool:
        """Count a line; return whether it is within the limits."""
        now = self._clock()
        if now >= self._ends:
            self.sum_up()
            self._ends = now + WINDOW
        logged, own = self._logged, (revision, kind)
        if logged[own] < OF_REVISION and logged[kind] < OF_ALL:
            logged[own] += 1
            logged[kind] += 1
            return True
        self._hidden[revision] += 1
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._ends - now, self.sum_up)
        return False

    def sum_up(self) -> None:
        """Log how many lines were left out until now, and reset the counts."""
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
                *(_changes(count), WORDS[revision.kind], revision),
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


def _worded(revision: Revision, text: str) -> str:
    """Return a text about requests; it speaks of connections for a TCP Service."""
    return of_connections(text) if revision.protocol is AppProtocol.TCP else text


def _shown(capacity: int) -> str:
    return "unlimited" if capacity == MAX_CAPACITY else str(capacity)


def _changes(count: int) -> str:
    return f"{count} more change{'' if count == 1 else 's'}"


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
            "address %s%s moved from %s %s to %s %s, which lists it for other pods",
            *(addresses[0], more, WORDS[loser.kind], loser, WORDS[owner.kind], owner),
            extra={**identity(loser), "pod": addresses[0]},
        )


class EventKind(Enum):
    """The kinds of events; the value is the name on the wire."""

    POD_CHANGED = "pod-changed"
    CAPACITY_CHANGED = "capacity-changed"
    QUEUE_BEGAN = "queue-began"
    QUEUE_ENDED = "queue-ended"
    COLD_START_FINISHED = "cold-start-finished"
    FAILED = "failed"


#: Handles one event: its kind, its revision, and its data as JSON. It must return at once and must
#: not raise.
Listener = Callable[[EventKind, RevisionID, Mapping[str, Any]], None]


class Events:
    """Passes events of revisions and their pods to the current listeners, in their order.

    A publisher first checks for listeners, so that it makes no event without one.

    Attributes:
        listeners: the current listeners. A publisher checks this before it makes an event.
        session: grows with the first listener after a time without any. Notes that a publisher
            made in an earlier session are stale.
    """

    __slots__ = ("listeners", "session")

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.session = 0

    def listen(self, listener: Listener) -> None:
        """Add a listener."""
        self.session += not self.listeners
        self.listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        self.listeners.remove(listener)

    def publish(self, kind: EventKind, revision: RevisionID, what: Mapping[str, Any]) -> None:
        """Call all listeners; a listener may remove itself meanwhile."""
        for listener in tuple(self.listeners):
            listener(kind, revision, what)


_NOTHING: AbstractContextManager[None] = nullcontext()
_LEAVING = (PodState.DRAINING, PodState.GONE)

#: The state of a pod, and whether Kubernetes lists it as ready.
_Look = tuple[PodState, bool]
#: Returns what happened to a pod, for people. The second argument is the pod's earlier look.
_Why = Callable[[PodTracker, _Look | None], str]


@dataclass(slots=True)
class _Queue:
    """A queue with requests: its beginning, and the number of requests that were in it."""

    since: float
    waits: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state of a revision that is compared."""

    pods: dict[PodTracker, _Look]
    capacity: int


class Narration:
    """Publishes the changes that decisions make.

    Arguments:
        throttler: it makes the decisions.
        events: the listeners.
        clock: seconds; the clock of the tickets' arrival.
        why: returns why requests of a revision wait, and a detail.

    Attributes:
        log: gets changes of pods and capacities. While its level is above INFO and there is no
            listener, nothing is compared.
    """

    def __init__(
        self,
        throttler: Throttler,
        events: Events,
        clock: Callable[[], float],
        why: Callable[[RevisionThrottler], tuple[Reason, str]],
    ) -> None:
        self._throttler = throttler
        self._events = events
        self.log = ChangeLog(clock, why)
        self._clock = clock
        self._why = why
        self._queues: dict[RevisionThrottler, _Queue] = {}
        self._session = 0

    # -- pods and capacity: each is entered around one decision ---------------------------------

    def of_pod(self, pod: PodTracker, why: str) -> AbstractContextManager[None]:
        """Report the changes of a decision about one pod.

        Arguments:
            why: what happened, for people.
        """
        if not self._is_wanted():
            return _NOTHING
        of_others = f"{name_of(pod)}: {why}"

        def reason(changed: PodTracker, _: _Look | None) -> str:
            return why if changed is pod else of_others

        return self._compared(
            lambda: self._throttler.of(pod.config), reason, lambda _: of_others, (pod,)
        )

    def of_revision(self, revision: RevisionID, why: str) -> AbstractContextManager[None]:
        """Report the changes of a decision about one revision, which it may add."""
        if not self._is_wanted():
            return _NOTHING

        def reason(pod: PodTracker, was: _Look | None) -> str:
            return _listing(pod, was) if was is None and not pod.is_service else why

        return self._compared(lambda: self._find(revision), reason, lambda _: why)

    def of_listing(self, revision: RevisionID) -> AbstractContextManager[None]:
        """Report the changes of a new list of Kubernetes, and how it lists each pod."""
        if not self._is_wanted():
            return _NOTHING
        return self._compared(lambda: self._find(revision), _listing, _listed)

    @contextmanager
    def of_all(self, why: str) -> Iterator[None]:
        """Report the changes of a decision about all revisions; O(pods)."""
        revisions = list(self._throttler) if self._is_wanted() else []
        before = [_look(revision) for revision in revisions]
        yield
        for revision, seen in zip(revisions, before, strict=True):
            self._report_difference(revision, seen, _look(revision), lambda *_: why, lambda _: why)

    @contextmanager
    def _compared(
        self,
        find: Callable[[], RevisionThrottler | None],
        why: _Why,
        why_capacity: Callable[[RevisionThrottler], str],
        pods: Iterable[PodTracker] | None = None,
    ) -> Iterator[None]:
        before = _look(find(), pods)
        yield
        if (revision := find()) is not None:
            after = _look(revision, pods)
            self._report_difference(revision, before, after, why, why_capacity)

    def _is_wanted(self) -> bool:
        return bool(self._events.listeners) or self.log.wanted

    def _find(self, revision: RevisionID) -> RevisionThrottler | None:
        try:
            return self._throttler.find(*revision)
        except RevisionNotFound:
            return None

    def _report_difference(
        self,
        revision: RevisionThrottler,
        before: _Seen,
        after: _Seen,
        why: _Why,
        why_capacity: Callable[[RevisionThrottler], str],
    ) -> None:
        for pod, seen in after.pods.items():
            was = before.pods.get(pod)
            if seen != was and pod.state is not PodState.GONE:
                self._report_pod(pod, was[0].value if was else None, why(pod, was))
        if before.capacity != after.capacity:
            self.log.capacity(
                revision, before.capacity, _worded(revision.revision, why_capacity(revision))
            )
            what = {
                "was": _bounded(before.capacity),
                "capacity": _bounded(after.capacity),
                "inFlight": revision.slots.in_flight,
            }
            self._events.publish(EventKind.CAPACITY_CHANGED, revision.revision.id, what)

    def _report_pod(self, pod: PodTracker, was: str | None, why: str) -> None:
        why = _worded(pod.config.revision, why)
        self.log.pod(pod, why)
        if not self._events.listeners:
            return
        what = {
            "address": pod.address,
            "uid": pod.endpoint.uid,
            "clusterIP": pod.is_service and pod.endpoint.uid != PEER_UID,
            "was": was,
            "state": pod.state.value,
            "ready": _listed_as_ready(pod),
            "why": why,
        }
        self._events.publish(EventKind.POD_CHANGED, pod.config.revision.id, what)

    # -- queues: the caller has checked that there are listeners --------------------------------

    def waits(self, revision: RevisionThrottler) -> None:
        """Record one more queued request."""
        queues, queued = self._known_queues(), revision.queued
        queue = queues.get(revision)
        if queue is not None:
            queue.waits += 1
            return
        # For a new listener, an older queue begins with its next queued request.
        oldest = queued.oldest()
        since = self._clock() if oldest is None else oldest.arrived
        queues[revision] = _Queue(since, queued.waiting)
        reason, detail = self._why(revision)
        what = {"reason": reason.value, "detail": detail or None, "waiting": queued.waiting}
        self._events.publish(EventKind.QUEUE_BEGAN, revision.revision.id, what)

    def left(self, revision: RevisionThrottler) -> None:
        """Report the end of a queue, if it is empty now; called after requests may have left it."""
        if revision.queued.waiting:
            return
        if (queue := self._known_queues().pop(revision, None)) is not None:
            seconds = round(max(0.0, self._clock() - queue.since), 6)
            what = {"seconds": seconds, "waited": queue.waits}
            self._events.publish(EventKind.QUEUE_ENDED, revision.revision.id, what)

    def gone(self, pods: Iterable[PodTracker]) -> None:
        """Report pods that the throttler has removed."""
        if not self._is_wanted():
            return
        for pod in pods:
            # Only a draining pod can go (throttler.pod.TRANSITIONS).
            why = "it is not listed and has no request"
            if pod.is_service:
                why = "requests no longer need it"
            if pod.taken_by is not None:
                why = f"another revision, {pod.taken_by}, lists its address; it has no request"
            self._report_pod(pod, PodState.DRAINING.value, why)

    def decided(self, changes: Changes) -> None:
        """Record requests that leave queues, before the changes are carried out."""
        leavers = (*changes.assigned, *changes.expired)
        for config in {ticket.config: None for ticket in leavers}:
            if config is not None and (revision := self._throttler.of(config)) is not None:
                self.left(revision)

    def _known_queues(self) -> dict[RevisionThrottler, _Queue]:
        """Return the queues of this session; a time without listeners ends a session."""
        if self._session != self._events.session:
            self._session = self._events.session
            self._queues.clear()
        return self._queues


def _look(revision: RevisionThrottler | None, pods: Iterable[PodTracker] | None = None) -> _Seen:
    """Return the state of a revision: of the given pods, else of all its pods."""
    if revision is None:
        return _Seen({}, 0)
    wanted = list(revision.backends.pods.values() if pods is None else pods)
    if revision.backends.service.tracker is not None:
        wanted.append(revision.backends.service.tracker)
    # Not _listed_as_ready: the call would cost more than the rest, for 1,000 pods twice an event.
    seen = {pod: (pod.state, pod.ready and pod.state not in _LEAVING) for pod in wanted}
    return _Seen(seen, revision.capacity())


def _listing(pod: PodTracker, was: _Look | None) -> str:
    """Return how Kubernetes' new list has changed a pod, for people."""
    if pod.state in _LEAVING:
        return "Kubernetes no longer lists it"
    same = was is not None and was[1] == pod.ready and was[0] is not PodState.DRAINING
    if pod.is_service or same:
        return "Kubernetes lists other pods than before"
    return f"Kubernetes lists it as {'ready' if pod.ready else 'not ready'}"


def _listed(revision: RevisionThrottler) -> str:
    """Return how many pods Kubernetes lists for a revision."""
    listed = [pod for pod in revision.backends.pods.values() if pod.state not in _LEAVING]
    ready = sum(pod.ready for pod in listed)
    if not listed:
        return "Kubernetes now lists no pod"
    pods = f"{len(listed)} pod{'' if len(listed) == 1 else 's'}"
    return f"Kubernetes now lists {pods}, {ready or 'none'} as ready"


def _listed_as_ready(pod: PodTracker) -> bool:
    return pod.ready and pod.state not in _LEAVING


def _bounded(capacity: int) -> int | None:
    """Return a capacity as the API shows it: None without a limit."""
    return None if capacity == MAX_CAPACITY else capacity
