"""The life of a pod as a table, and how soon a pod is probed again.

Kubernetes says *ready*; *healthy* is our own word for a pod that passed our probe. A new epoch
makes the answers of older probes void. Knows nothing of requests. Knative's counterpart:
healthyPods in pkg/activator/net/revision_backends.go, which has neither table nor epoch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class PodState(Enum):
    """Where a pod is in its life, as far as we know."""

    PROBING = "probing"
    HEALTHY = "healthy"
    DRAINING = "draining"
    GONE = "gone"


class PodEvent(Enum):
    """What can happen to a pod, past tense."""

    LISTED = "listed"
    DELISTED = "delisted"
    BECAME_NOT_READY = "became-not-ready"
    PROBE_PASSED = "probe-passed"
    PROBE_FAILED = "probe-failed"
    CONNECT_FAILED = "connect-failed"
    EJECTED = "ejected"
    TRUSTED = "trusted"
    BYPASSED = "bypassed"
    IDLE = "idle"


#: By these Kubernetes, or a setting, takes a pod out of use. By the others that do it is merely
#: lost: as far as anybody says it is there, and back before long.
WITHDRAWN: Final = frozenset((PodEvent.DELISTED, PodEvent.BECAME_NOT_READY, PodEvent.BYPASSED))


class Transition(NamedTuple):
    """The state that follows, and whether answers to older probes become void."""

    state: PodState
    new_epoch: bool = False


_P, _H, _D = PodState.PROBING, PodState.HEALTHY, PodState.DRAINING

#: The whole life of a pod. A pair that is absent cannot happen; meeting one is a bug of ours.
#: EJECTED: its responses to requests speak against it (throttler.outliers).
#: TRUSTED: Kubernetes' word, where it is enough (throttler.mesh). DOUBTED: pods cannot be reached
#: any more, so what our probes said of them counts no longer. IDLE is raised when a DRAINING pod
#: has no request left. GONE is final: an address that comes back after that is a new pod.
TRANSITIONS: Final[dict[tuple[PodState, PodEvent], Transition]] = {
    (_P, PodEvent.LISTED): Transition(_P),
    (_P, PodEvent.DELISTED): Transition(_D),
    (_P, PodEvent.BECAME_NOT_READY): Transition(_P),
    (_P, PodEvent.PROBE_PASSED): Transition(_H),
    (_P, PodEvent.PROBE_FAILED): Transition(_P),
    (_P, PodEvent.CONNECT_FAILED): Transition(_P),
    (_P, PodEvent.EJECTED): Transition(_P),
    (_P, PodEvent.TRUSTED): Transition(_H),
    (_P, PodEvent.BYPASSED): Transition(_P),
    (_H, PodEvent.LISTED): Transition(_H),
    (_H, PodEvent.DELISTED): Transition(_D),
    (_H, PodEvent.BECAME_NOT_READY): Transition(_P, new_epoch=True),
    (_H, PodEvent.PROBE_PASSED): Transition(_H),
    (_H, PodEvent.PROBE_FAILED): Transition(_P, new_epoch=True),
    (_H, PodEvent.CONNECT_FAILED): Transition(_P, new_epoch=True),
    (_H, PodEvent.EJECTED): Transition(_P, new_epoch=True),
    (_H, PodEvent.TRUSTED): Transition(_H),
    (_H, PodEvent.BYPASSED): Transition(_P, new_epoch=True),
    (_D, PodEvent.LISTED): Transition(_P, new_epoch=True),
    (_D, PodEvent.PROBE_PASSED): Transition(_D),
    (_D, PodEvent.PROBE_FAILED): Transition(_D),
    (_D, PodEvent.CONNECT_FAILED): Transition(_D),
    (_D, PodEvent.EJECTED): Transition(_D),
    (_D, PodEvent.IDLE): Transition(PodState.GONE),
}


def transition(state: PodState, event: PodEvent) -> Transition:
    """Return what follows from ``event`` in ``state``.

    Raises:
        LookupError: the table has no such pair; the text names both.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LookupError(f"a pod that is {state.value} cannot have {event.value}") from None


#: Seconds between probes of a pod while requests wait for it, from start to start. A refused
#: probe costs about 0.5 ms of CPU. On average, half of the interval adds to a cold start.
#: Knative: 200 ms.
DELAY_WANTED: Final = 0.005
#: The same after WANTED_FOR seconds of failures: a start that takes this long is not made
#: noticeably longer by 20 or 100 ms.
DELAY_WANTED_LONG: Final = 0.02
DELAY_WANTED_VERY_LONG: Final = 0.1
WANTED_LONG_AFTER: Final = 10.0
WANTED_VERY_LONG_AFTER: Final = 60.0
#: Seconds between probes of a pod that nobody waits for, doubling with its failures up to the cap.
#: Whoever begins to wait has it probed at once, so this buys only a head start.
DELAY_UNWANTED: Final = 0.2
DELAY_UNWANTED_MAX: Final = 30.0
#: The cap while other pods of the revision are at work: a pod that comes back should share it.
DELAY_UNWANTED_BUSY: Final = 2.0
#: Seconds after which a healthy pod that had no traffic is checked again.
DELAY_HEALTHY: Final = 30.0
#: Seconds between probes of a ClusterIP that fails. It is no better than the pods behind it, which
#: are asked themselves. Knative: 200 ms.
DELAY_SERVICE: Final = 0.2
#: A probe that timed out had the pod's whole time-out to be answered; asking a black hole again
#: at once buys nothing and takes the place of another pod's probe.
DELAY_AFTER_TIMEOUT: Final = 0.05
#: Seconds between probes of a pod whose TLS is wrong, doubling up to the most. Certificates and
#: roots are exchanged within seconds at best, and a handshake costs twenty times a refusal.
DELAY_AFTER_TLS: Final = 0.05
DELAY_AFTER_TLS_MAX: Final = 1.0
#: Seconds between probes of a pod that responds "not ready", doubling up to the maximum:
#: queue-proxy checks the application for each probe. The maximum is Knative's probe interval.
DELAY_NOT_READY: Final = 0.025
DELAY_NOT_READY_MAX: Final = 0.2
#: The first delay is at least this many durations of the probe, so that probes use at most a
#: twentieth of the pod's time.
DELAY_NOT_READY_DURATIONS: Final = 20.0


def probe_delay(
    *,
    healthy: bool,
    wanted_for: float | None,
    timed_out: bool,
    failures: int,
    busy: bool = False,
    unwanted: float = DELAY_UNWANTED,
    bypassed_for: float | None = None,
    is_service: bool = False,
) -> float:
    """Return the seconds until a pod's next probe.

    Arguments:
        healthy: whether the pod passed its last probe.
        wanted_for: seconds that it has failed while requests waited; None if none waits.
        timed_out: whether the last probe got no answer in time (rather than a refusal).
        failures: probes failed since the last that passed.
        busy: whether other pods of the revision are at work: soon this one may be wanted.
        unwanted: seconds to wait after the first failure while no request waits.
        bypassed_for: seconds that the ClusterIP has been used because no pod could be; None if it
            is not. The delay grows with it, whether requests wait or not: where the pod was only
            a moment late it is found a moment later, and a real mesh is not asked in vain for ever.
        is_service: whether it is the ClusterIP that is asked.
    """
    if healthy:
        return DELAY_HEALTHY
    if bypassed_for is not None and not is_service:
        return min(max(bypassed_for, DELAY_WANTED), DELAY_UNWANTED_MAX)
    if is_service and wanted_for is not None:
        return DELAY_SERVICE
    if wanted_for is None:
        longest = DELAY_UNWANTED_BUSY if busy else DELAY_UNWANTED_MAX
        return min(unwanted * 2.0 ** min(max(failures - 1, 0), 10), longest)
    if wanted_for > WANTED_VERY_LONG_AFTER:
        return DELAY_WANTED_VERY_LONG
    if timed_out:
        return DELAY_AFTER_TIMEOUT
    return DELAY_WANTED_LONG if wanted_for > WANTED_LONG_AFTER else DELAY_WANTED


def delay_after_tls(failures: int) -> float:
    """Return the seconds for which a pod is left alone after its TLS was wrong, whoever waits.

    Arguments:
        failures: probes in a row that failed for this; 0 if the last did not.
    """
    if not failures:
        return 0.0
    return min(DELAY_AFTER_TLS * 2.0 ** min(failures - 1, 10), DELAY_AFTER_TLS_MAX)


def delay_after_not_ready(responses: int, took: float) -> float:
    """Return the seconds without a probe after a pod responded "not ready", even if requests wait.

    The maximum overrides the duration: a pod with a slow probe still gets its first request at
    most 200 ms after it is ready, as with Knative's activator.

    Arguments:
        responses: "not ready" responses in a row; 0 if the last probe got none.
        took: seconds from the start of the last probe to its response.
    """
    if not responses:
        return 0.0
    first = max(DELAY_NOT_READY, DELAY_NOT_READY_DURATIONS * took)
    return min(first * 2.0 ** min(responses - 1, 10), DELAY_NOT_READY_MAX)
