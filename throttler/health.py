"""The life of a pod as a table, and the delay until its next probe.

*Ready* is Kubernetes' word; *healthy* means that a pod passed a probe of the activator. A new epoch
makes the results of older probes void. Knows no requests. Knative's counterpart: healthyPods in
pkg/activator/net/revision_backends.go, which has neither table nor epoch.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class PodState(Enum):
    """The state of a pod, as far as the activator knows.

    PROBING: not usable yet, or not any more. HEALTHY: passed its last probe. DRAINING: delisted,
    with requests in flight. GONE: delisted, without requests.
    """

    PROBING = "probing"
    HEALTHY = "healthy"
    DRAINING = "draining"
    GONE = "gone"


class PodEvent(Enum):
    """The events of a pod, in the past tense.

    DELISTED: Kubernetes no longer lists it. BECAME_NOT_READY: Kubernetes lists it, but no longer as
    ready. CONNECT_FAILED: it could not get a request, or closed before a byte of its response.
    EJECTED: outlier ejection, see throttler.outliers. TRUSTED: Kubernetes lists it as ready, and no
    probe is needed, see throttler.mesh. BYPASSED: a setting sends all requests to the ClusterIP, so
    results of probes no longer count. IDLE: a draining pod has no request left.
    """

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


#: Events that remove a pod from use on purpose. After any other event, the pod may recover soon.
WITHDRAWN: Final = frozenset((PodEvent.DELISTED, PodEvent.BECAME_NOT_READY, PodEvent.BYPASSED))


class Transition(NamedTuple):
    """The next state, and whether results of older probes become void."""

    state: PodState
    new_epoch: bool = False


_P, _H, _D = PodState.PROBING, PodState.HEALTHY, PodState.DRAINING

#: The whole life of a pod. A pair that is absent cannot happen; if it does, that is a bug. GONE is
#: final: an address that Kubernetes lists again after that is a new pod.
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
    """Return the transition for ``event`` in ``state``.

    Raises:
        LookupError: the table has no such pair; the text names both.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LookupError(f"a pod that is {state.value} cannot have {event.value}") from None


#: Seconds between the starts of two probes of a pod while requests are queued. A refused probe
#: costs about 0.5 ms of CPU. On average, half of the interval adds to a cold start. Knative: 200
#: ms.
DELAY_WANTED: Final = 0.005
#: The same after WANTED_LONG_AFTER and WANTED_VERY_LONG_AFTER seconds of failures. A start that
#: takes this long is not noticeably longer by 20 or 100 ms.
DELAY_WANTED_LONG: Final = 0.02
DELAY_WANTED_VERY_LONG: Final = 0.1
WANTED_LONG_AFTER: Final = 10.0
WANTED_VERY_LONG_AFTER: Final = 60.0
#: Seconds between probes of a pod while no request is queued. They double with each failure, up to
#: the maximum. A queued request causes a probe at once, so these probes only give a head start.
DELAY_UNWANTED: Final = 0.2
DELAY_UNWANTED_MAX: Final = 30.0
#: The maximum while other pods of the revision have requests: a pod that recovers should share
#: them.
DELAY_UNWANTED_BUSY: Final = 2.0
#: Seconds between probes of a healthy pod without traffic.
DELAY_HEALTHY: Final = 30.0
#: Seconds between probes of a ClusterIP that fails. It works only if the pods behind it do, and the
#: activator probes these as well. Knative: 200 ms.
DELAY_SERVICE: Final = 0.2
#: Seconds until the next probe after a time-out. The pod had the whole time-out to respond. Probing
#: an address that drops all packets again at once gains nothing, and delays the probe of another
#: pod.
DELAY_AFTER_TIMEOUT: Final = 0.05
#: Seconds between probes of a pod whose TLS handshake fails, doubling up to the maximum.
#: Certificates and roots change within seconds at best, and a handshake costs twenty times a
#: refusal.
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
        wanted_for: seconds of failed probes while requests are queued; None if none is queued.
        timed_out: whether the last probe got no response in time (rather than a refusal).
        failures: failed probes since the last passed one.
        busy: whether other pods of the revision have requests, so that this one may be needed soon.
        unwanted: seconds to wait after the first failure while no request is queued.
        bypassed_for: seconds since the ClusterIP is in use because no pod was reachable; None if it
            is not in use. The delay grows with this time, whether requests are queued or not. A pod
            that was only late for a moment is found soon, and pods behind a mesh get few vain
            probes.
        is_service: whether the ClusterIP is probed.
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
    """Return the seconds without a probe after a failed TLS handshake, even if requests are queued.

    Arguments:
        failures: failed handshakes in a row; 0 if the last probe failed in another way, or passed.
    """
    if not failures:
        return 0.0
    return min(DELAY_AFTER_TLS * 2.0 ** min(failures - 1, 10), DELAY_AFTER_TLS_MAX)


def delay_after_not_ready(responses: int, took: float, least: float = DELAY_NOT_READY) -> float:
    """Return the seconds without a probe after "not ready" responses, even if requests are queued.

    The maximum overrides the duration. So a pod with a slow probe still gets its first request at
    most 200 ms after it is ready, as with Knative's activator.

    Arguments:
        responses: "not ready" responses in a row; 0 if the last probe got none.
        took: seconds from the start of the last probe to its response.
        least: the first delay is at least this long.
    """
    if not responses:
        return 0.0
    first = max(least, DELAY_NOT_READY_DURATIONS * took)
    return min(first * 2.0 ** min(responses - 1, 10), DELAY_NOT_READY_MAX)
