"""Records one request's wait for a pod, and does what its client gets meanwhile.

Only a request that waits has a ``PodWait``: for its cold start and for fields of its response. The
modes of waiting clients are ``request_policies.WaitMode``. ``MODES`` has the rules of each: which
requests it fits, and its steps. Only revisions with ``activator.dev/while-waiting`` have modes.

A waiting page finds out by a peek whether it should reload. That is a HEAD request for the URL of
the page, with ``Activator-Peek: 1``. Only revisions with waiting pages understand the field; for
all others such a request is like any other. A peek is never queued, and is no load itself. It
prolongs the lease that counts for all open pages of a revision.

Knative has no counterpart: its clients always wait. Sources: Server Timing
(https://www.w3.org/TR/server-timing/); KEDA's X-KEDA-HTTP-Cold-Start for the other field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from activator.driver import Driver
from activator.proxy.exchange import heartbeat
from activator.proxy.exchange.end import in_form, record_failure, respond_to_waiting
from activator.proxy.exchange.sides import WAITING
from activator.proxy.message import own_responses, waiting_page
from activator.proxy.message.error_forms import prefers_html
from activator.proxy.message.fields import HTTP_1_0
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.waiting_page import Start, StartPhase, whole_seconds
from activator.records.cold_starts import ColdStart, ColdStartPhase, ColdStarts
from activator.records.entries import Entry
from throttler.model import Revision
from throttler.pod import PodState, PodTracker
from throttler.request_policies import RequestPolicies, WaitMode, WhileWaiting
from throttler.revision import RevisionThrottler
from throttler.ticket import QUEUED

if TYPE_CHECKING:
    from activator.proxy.client.connection import ClientPort
    from activator.proxy.exchange.exchange import Exchange
    from activator.proxy.exchange.heartbeat import EarlyStream


_FIELD: Final = b"activator-peek"
#: Seconds for which an open page counts as demand after it was sent, or after a peek. A page
#: without scripts is back after 5 s, and waits for ``page_after`` then. Browsers run the timers of
#: a hidden tab once a minute.
PAGE_LEASE: Final = 75.0
#: The same after a peek that finds a free slot: the page reloads at once.
RELOAD_LEASE: Final = 10.0


def is_peek(request: Request, port: ClientPort, policies: RequestPolicies) -> bool:
    """Return whether a request is a peek of a waiting page.

    Arguments:
        request: the client's request.
        port: the port that the client has connected to. The admission port has no pages.
        policies: of its revision.
    """
    if request.method != b"HEAD" or request.has_body or policies.waiting is None:
        return False
    if port.admission is not None:
        return False
    return WaitMode.PAGE in policies.waiting.modes and request.value_of(_FIELD) == b"1"


def respond_to_peek(exchange: Exchange, now: float) -> OwnResponse:
    """Prolong the lease of the revision, and return the response to a peek.

    Arguments:
        exchange: the exchange of the request.
        now: seconds.
    """
    services, entry = exchange.services, exchange.entry
    throttler = entry.throttler
    if throttler.has_free_slot:
        services.keep_demand(entry, now + RELOAD_LEASE, now)
        return waiting_page.peek(None)
    start = start_of(services.driver, throttler, now)
    if start.phase is not StartPhase.FAILED:
        services.keep_demand(entry, now + PAGE_LEASE, now)
    return waiting_page.peek(start)


def start_of(driver: Driver, throttler: RevisionThrottler, now: float) -> Start:
    """Return the start of a revision at which requests wait.

    Arguments:
        driver: knows why they wait.
        throttler: of the revision.
        now: seconds.
    """
    revision, forecast = throttler.revision, throttler.expected_wait(now)
    reason, detail = driver.why(throttler)
    phase, cold_start = phase_of(throttler), driver.cold_starts.under_way.get(revision.id)
    if cold_start is not None and now - cold_start.began >= _limit(revision):
        phase, forecast = StartPhase.FAILED, None
    return Start(
        revision.service or revision.id.name,
        revision.id.namespace,
        phase,
        whole_seconds(forecast),
        reason,
        detail,
        throttler.forecast.is_late(now),
    )


def _limit(revision: Revision) -> float:
    """Return for how many seconds a request of a revision may wait for a pod."""
    requests = revision.policies.requests
    whole = min(revision.timeout or inf, revision.response_start_timeout or inf)
    return (requests.wait_seconds if requests is not None else 0.0) or whole


def phase_of(throttler: RevisionThrottler) -> StartPhase:
    """Return the phase of a revision at which requests wait."""
    if throttler.is_awake:
        return StartPhase.BUSY
    pods = [pod for pod in throttler.backends.pods.values() if pod.state is not PodState.DRAINING]
    if not pods:
        return StartPhase.ASKED
    if any(pod.probe.at is not None or pod.probe.failures for pod in pods):
        return StartPhase.PROBED
    return StartPhase.LISTED


#: Field lines that state whether a response waited for a pod to start, each behind its CRLF.
WARM = b"\r\nActivator-Cold-Start: false"
COLD = b"\r\nActivator-Cold-Start: true"
#: Seconds by which the lease of a refused client outlasts its Retry-After.
REFUSE_MARGIN: Final = 10.0
#: Seconds until a request that waits for a busy pod is looked at again: the pod may be lost.
LOOK_AGAIN: Final = 1.0
#: Fields that browsers send with each request, if they send any of them (Fetch Metadata).
_FETCH_METADATA: Final = (b"sec-fetch-site", b"sec-fetch-dest")
#: Fields of scripts that load parts of a page. Without TLS, browsers send no Fetch Metadata.
_OF_SCRIPTS: Final = (b"x-requested-with", b"hx-request")


class PodWait:
    """The waits of one request: one, and another for each requeue.

    Arguments:
        cold_starts: the cold starts of all revisions.
        arrived: when the request was admitted, seconds.
        server_timing: whether the response gets the field Server-Timing.

    Attributes:
        cold_start: the cold start that the request waits or waited for; None if it waited for a
            free slot.
        assigned_at: when the request was last assigned a pod, seconds; None before.
        early: the client's side behind the head of an event stream; None while the client has none.
        mode: what the client gets while the request waits.
        step_at: when that mode acts next, seconds; infinite for never.
    """

    __slots__ = (
        "_arrived",
        "_counts",
        "_server_timing",
        "assigned_at",
        "cold_start",
        "cold_starts",
        "early",
        "mode",
        "step_at",
    )

    def __init__(self, cold_starts: ColdStarts, arrived: float, *, server_timing: bool) -> None:
        self.cold_starts = cold_starts
        self._server_timing = server_timing
        self._arrived = arrived
        self.cold_start: ColdStart | None = None
        self.assigned_at: float | None = None
        self.early: EarlyStream | None = None
        self.mode = WaitMode.HOLD
        self.step_at = inf
        self._counts: dict[str, int] | None = None

    def join(self, entry: Entry, now: float) -> bool:
        """Join the cold start of a revision; return whether there is one that it had not joined."""
        if self.cold_start is not None and self.cold_start.ended is None:
            return False
        started = self.cold_starts.join(entry.throttler, entry.counters.cold_starts, now)
        self.cold_start = started or self.cold_start
        return started is not None

    def follow(self, mode: WaitMode, step_at: float, counts: dict[str, int]) -> None:
        """Set what the client gets, and count the request while it waits.

        Arguments:
            mode: what the client gets.
            step_at: when the mode acts first, seconds.
            counts: waiting requests of the revision by mode; without HOLD.
        """
        self.leave()
        self.mode, self.step_at = mode, step_at
        if mode is not WaitMode.HOLD:
            self._counts = counts
            counts[mode.value] = counts.get(mode.value, 0) + 1

    def leave(self) -> None:
        """Record that the request does not wait any more, if it was counted."""
        counts, self._counts = self._counts, None
        if counts is not None:
            counts[self.mode.value] -= 1

    def assigned(self, now: float) -> None:
        """Record that the request is assigned a pod."""
        self.assigned_at = now
        self.leave()

    def responded(self, pod: PodTracker, now: float) -> bytes:
        """Record that the response begins; return its field lines, see ``fields``."""
        if self.cold_start is not None and self.assigned_at is not None:
            self.cold_starts.responded(self.cold_start, self.assigned_at, pod.endpoint, now)
        return self.fields(now)

    def ended(self, outcome: str, now: float) -> None:
        """Record the end of the request; ``outcome`` is one of ``counters.OUTCOMES``.

        It may also be the end of its wait for this revision, because it goes to another one.
        """
        self.leave()
        cold_start, self.cold_start = self.cold_start, None
        if cold_start is not None:
            self.cold_starts.request_ended(cold_start, outcome, now)

    def fields(self, now: float) -> bytes:
        """Return the field Server-Timing, preceded by its CRLF; empty if it is off.

        ``queue`` is the time without a pod. Two phases of it follow if they are known: ``scale``
        until Kubernetes listed a pod, and ``probe`` until a pod passed a probe. ``pod`` is
        the time from the assignment until ``now``.
        """
        if not self._server_timing:
            return b""
        assigned_at = self.assigned_at
        waited = (now if assigned_at is None else assigned_at) - self._arrived
        start = b"warm" if self.cold_start is None else b"cold"
        metrics = [b"queue;" + _dur(waited), b'start;desc="%b"' % start]
        if self.cold_start is not None:
            before = self._arrived
            for name, phase in (
                (b"scale", ColdStartPhase.ADDRESS),
                (b"probe", ColdStartPhase.PROBE_PASSED),
            ):
                when = self.cold_start.seen.get(phase, before)
                if when > before:
                    metrics.append(name + b";" + _dur(when - before))
                    before = when
        if assigned_at is not None:
            metrics.append(b"pod;" + _dur(now - assigned_at))
        return b"\r\nServer-Timing: " + b", ".join(metrics)


def _dur(seconds: float) -> bytes:
    """Return a duration in the form of the field: milliseconds."""
    return b"dur=%.1f" % (1000 * seconds)


def begin_wait(exchange: Exchange, now: float) -> None:
    """Record that a request begins to wait, for the first time or again; choose its mode.

    The request joins the cold start of its revision, if there is one.

    Arguments:
        exchange: the exchange of the request.
        now: seconds.
    """
    exchange.state = WAITING
    services, entry, wait = exchange.services, exchange.entry, exchange.wait
    if wait is None:
        cold_starts, timing = services.driver.cold_starts, services.server_timing
        wait = PodWait(cold_starts, exchange.ticket.arrived, server_timing=timing)
        exchange.wait = wait
    if wait.join(entry, now):
        exchange.added_lines = exchange.added_lines.replace(WARM, COLD)
    waiting = entry.throttler.revision.policies.waiting
    if waiting is None:
        return
    mode = _choose(exchange, waiting)
    after = MODES[mode].after(waiting)
    if mode is WaitMode.HEARTBEAT and not heartbeat.fits(exchange):
        after = heartbeat.FIRST_LOOK
    step_at = exchange.ticket.arrived + after
    wait.follow(mode, step_at, entry.counters.waiting)
    if step_at < inf:
        exchange.client.base.arm(step_at)


def _choose(
    exchange: Exchange, waiting: WhileWaiting, without: WaitMode = WaitMode.HOLD
) -> WaitMode:
    """Return the first mode that fits the request.

    A proxy on the admission port waits or is refused: it reads a status, and no page.

    Arguments:
        exchange: the exchange of the request.
        waiting: the policy of the revision.
        without: a mode that does not fit.
    """
    request = exchange.request
    if exchange.early_stream() is not None:
        return WaitMode.HEARTBEAT
    if request.version is HTTP_1_0 or request.method == b"HEAD" or request.upgrade:
        return WaitMode.HOLD
    if exchange.client.base.port.admission is not None:
        return WaitMode.REFUSE if WaitMode.REFUSE in waiting.modes else WaitMode.HOLD
    for mode in waiting.modes:
        if mode is not without and MODES[mode].fits(exchange):
            return mode
    return WaitMode.HOLD


def step(exchange: Exchange, wait: PodWait, now: float) -> float:
    """Do the step of the mode if its time has come; the request may have a pod already.

    Arguments:
        exchange: the exchange of the request, which has not ended.
        wait: the wait of the request.
        now: seconds.

    Returns:
        When to call this again, seconds; infinite for never.
    """
    if now < wait.step_at:
        return wait.step_at
    wait.step_at = inf
    wait.step_at = MODES[wait.mode].step(exchange, now)
    return wait.step_at


# -- the modes ------------------------------------------------------------------------------------


def _is_navigation(exchange: Exchange) -> bool:
    """Return whether a person waits for a page: a browser shows the response as a document."""
    request = exchange.request
    if request.method != b"GET" or request.has_body:
        return False
    if mode := request.value_of(b"sec-fetch-mode"):
        return mode == b"navigate"
    if any(request.value_of(name) for name in (*_FETCH_METADATA, *_OF_SCRIPTS)):
        return False
    return prefers_html(request.lines)


def _may_beat(exchange: Exchange) -> bool:
    """Return whether the client expects an event stream, or may turn out to."""
    return heartbeat.fits(exchange) or heartbeat.may_fit_later(exchange)


def _beat(exchange: Exchange, now: float) -> float:
    """Send a heartbeat if it is due, or change the mode if the request turns out not to fit."""
    if exchange.ticket.state is not QUEUED and exchange.early_stream() is None:
        return inf  # it has a pod; ``begin_wait`` follows if it loses it
    wait, due = exchange.wait, exchange.ticket.arrived + heartbeat.every(exchange)
    if heartbeat.fits(exchange):
        return heartbeat.beat(exchange, now) if now >= due else due
    if heartbeat.may_fit_later(exchange) and now < due:
        return heartbeat.look_again(exchange, now)
    waiting = exchange.entry.throttler.revision.policies.waiting
    if wait is None or waiting is None:
        return inf
    mode = _choose(exchange, waiting, without=WaitMode.HEARTBEAT)
    step_at = exchange.ticket.arrived + MODES[mode].after(waiting)
    wait.follow(mode, step_at, exchange.entry.counters.waiting)
    return MODES[mode].step(exchange, now) if now >= step_at else step_at


def _send_page(exchange: Exchange, now: float) -> float:
    """End a queued request with the waiting page; keep the demand while the page is open.

    Once the time-out has passed since the first request waited, the page says that and why.
    While pods are busy, the request keeps its place: a page has none, and would never be served
    behind requests that leave no slot free.
    """
    if exchange.ticket.state is not QUEUED:
        return inf
    services, entry = exchange.services, exchange.entry
    throttler = entry.throttler
    if throttler.is_awake:
        return now + LOOK_AGAIN
    revision = throttler.revision
    waiting = revision.policies.waiting
    name = "" if waiting is None else waiting.page_template
    template = services.template_of(name, revision.id)
    start = start_of(services.driver, throttler, now)
    page = waiting_page.page(template, start)
    page = replace(page, fields=page.fields + exchange.added_lines)
    if start.phase is waiting_page.StartPhase.FAILED:
        record_failure(exchange, page.status, start.reason, start.detail)
        respond_to_waiting(exchange, page, "timed-out", now)
        return inf
    _keep_demand(exchange, now + PAGE_LEASE, "page", now)
    respond_to_waiting(exchange, page, "page", now)
    return inf


def _refuse(exchange: Exchange, now: float) -> float:
    """End a queued request with 503; keep the demand until its client may be back."""
    if exchange.ticket.state is not QUEUED:
        return inf
    services, entry = exchange.services, exchange.entry
    throttler = entry.throttler
    seconds = services.retry_after(throttler)
    refusal = own_responses.wait_refused(services.driver.why(throttler)[0], seconds)
    refusal = in_form(exchange, refusal, now)
    _keep_demand(exchange, now + seconds + REFUSE_MARGIN, "wait-refused", now)
    respond_to_waiting(exchange, refusal, "wait-refused", now)
    return inf


def _keep_demand(exchange: Exchange, until: float, ended: str, now: float) -> None:
    """Prolong the lease of the revision, and the cold start for which the request waits.

    Arguments:
        exchange: the exchange of the request.
        until: when its client should be back, seconds.
        ended: one of ``counters.OUTCOMES``.
        now: seconds.
    """
    services, entry, wait = exchange.services, exchange.entry, exchange.wait
    services.keep_demand(entry, until, now)
    if wait is not None and wait.cold_start is not None:
        entry.lease.hold(services.driver.cold_starts, wait.cold_start, ended)


class ModeRule(NamedTuple):
    """The rules of one mode.

    Attributes:
        after: seconds from the arrival of a request to the first step.
        fits: whether it fits a request. HTTP/1.0, HEAD and a change of protocol get HOLD alone.
        step: what it does when its time has come. Returns when to call it again, seconds.
    """

    after: Callable[[WhileWaiting], float]
    fits: Callable[[Exchange], bool]
    step: Callable[[Exchange, float], float]


MODES: Final[dict[WaitMode, ModeRule]] = {
    WaitMode.HOLD: ModeRule(lambda waiting: inf, lambda exchange: True, lambda exchange, now: inf),
    WaitMode.PAGE: ModeRule(lambda waiting: waiting.page_after, _is_navigation, _send_page),
    WaitMode.HEARTBEAT: ModeRule(lambda waiting: waiting.heartbeat_every, _may_beat, _beat),
    WaitMode.REFUSE: ModeRule(lambda waiting: 0.0, lambda exchange: True, _refuse),
}
