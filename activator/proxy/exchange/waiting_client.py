"""Chooses what the client of a waiting request gets, and does it when its time has come.

The modes are ``request_policies.WaitMode``. ``FITS`` says which requests a mode fits, and ``STEPS``
what it does. Only a request of a revision with ``activator.dev/while-waiting`` comes here, and only
if it waits. Knative has no counterpart: its clients always wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final

from activator.proxy.exchange import heartbeat
from activator.proxy.exchange.heartbeat import Waiting
from activator.proxy.exchange.outcome import in_form, record_failure, respond_to_waiting
from activator.proxy.exchange.peek import PAGE_LEASE
from activator.proxy.exchange.pod_wait import PodWait
from activator.proxy.exchange.revision_start import start_of
from activator.proxy.exchange.wake_rules import is_awake
from activator.proxy.message import own_responses, waiting_page
from activator.proxy.message.error_forms import prefers_html
from activator.proxy.message.fields import HTTP_1_0
from throttler.request_policies import WaitMode, WhileWaiting
from throttler.ticket import QUEUED

#: Seconds by which the lease of a refused client outlasts its Retry-After.
REFUSE_MARGIN: Final = 10.0
#: Seconds until a request that waits for a busy pod is looked at again: the pod may be lost.
LOOK_AGAIN: Final = 1.0
#: Fields that browsers send with each request, if they send any of them (Fetch Metadata).
_FETCH_METADATA: Final = (b"sec-fetch-site", b"sec-fetch-dest")
#: Fields of scripts that load parts of a page. Without TLS, browsers send no Fetch Metadata.
_OF_SCRIPTS: Final = (b"x-requested-with", b"hx-request")


def begin_mode(exchange: Waiting, wait: PodWait, waiting: WhileWaiting) -> None:
    """Choose the mode of a request that begins to wait, for the first time or again.

    Arguments:
        exchange: the exchange of the request.
        wait: the wait of the request.
        waiting: the policy of the revision.
    """
    mode = _choose(exchange, waiting)
    after = _AFTER[mode](waiting)
    if mode is WaitMode.HEARTBEAT and not heartbeat.fits(exchange):
        after = heartbeat.FIRST_LOOK
    step_at = exchange.ticket.arrived + after
    wait.follow(mode, step_at, exchange.entry.counters.waiting)
    if step_at < inf:
        exchange.client.arm(step_at)


def _choose(
    exchange: Waiting, waiting: WhileWaiting, without: WaitMode = WaitMode.HOLD
) -> WaitMode:
    """Return the first mode that fits the request.

    A proxy on the admission port waits or is refused: it reads a status, and no page.

    Arguments:
        exchange: the exchange of the request.
        waiting: the policy of the revision.
        without: a mode that does not fit.
    """
    request = exchange.request
    if heartbeat.has_begun(exchange):
        return WaitMode.HEARTBEAT
    if request.version is HTTP_1_0 or request.method == b"HEAD" or request.upgrade:
        return WaitMode.HOLD
    if exchange.client.port().admission is not None:
        return WaitMode.REFUSE if WaitMode.REFUSE in waiting.modes else WaitMode.HOLD
    for mode in waiting.modes:
        if mode is not without and FITS[mode](exchange):
            return mode
    return WaitMode.HOLD


def on_time(exchange: Waiting, wait: PodWait, now: float) -> float:
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
    wait.step_at = STEPS[wait.mode](exchange, now)
    return wait.step_at


# -- the modes ------------------------------------------------------------------------------------


def _always(exchange: Waiting) -> bool:
    return True


def _is_navigation(exchange: Waiting) -> bool:
    """Return whether a person waits for a page: a browser shows the response as a document."""
    request = exchange.request
    if request.method != b"GET" or request.has_body:
        return False
    if mode := request.value_of(b"sec-fetch-mode"):
        return mode == b"navigate"
    if any(request.value_of(name) for name in (*_FETCH_METADATA, *_OF_SCRIPTS)):
        return False
    return prefers_html(request.lines)


def _may_get_heartbeats(exchange: Waiting) -> bool:
    return heartbeat.fits(exchange) or heartbeat.may_fit_later(exchange)


def _nothing(exchange: Waiting, now: float) -> float:
    return inf


def _beat(exchange: Waiting, now: float) -> float:
    """Send a heartbeat if it is due, or change the mode if the request turns out not to fit."""
    if exchange.ticket.state is not QUEUED and not heartbeat.has_begun(exchange):
        return inf  # it has a pod; ``begin_mode`` follows if it loses it
    wait, due = exchange.wait, exchange.ticket.arrived + heartbeat.every(exchange)
    if heartbeat.fits(exchange):
        return heartbeat.beat(exchange, now) if now >= due else due
    if heartbeat.may_fit_later(exchange) and now < due:
        return heartbeat.look_again(exchange, now)
    policies = exchange.entry.throttler.revision.policies.requests
    waiting = None if policies is None else policies.waiting
    if wait is None or waiting is None:
        return inf
    mode = _choose(exchange, waiting, without=WaitMode.HEARTBEAT)
    step_at = exchange.ticket.arrived + _AFTER[mode](waiting)
    wait.follow(mode, step_at, exchange.entry.counters.waiting)
    return STEPS[mode](exchange, now) if now >= step_at else step_at


def _send_page(exchange: Waiting, now: float) -> float:
    """End a queued request with the waiting page; keep the demand while the page is open.

    Once the time-out has passed since the first request waited, the page says that and why.
    While pods are busy, the request keeps its place: a page has none, and would never be served
    behind requests that leave no slot free.
    """
    if exchange.ticket.state is not QUEUED:
        return inf
    services, entry = exchange.services, exchange.entry
    throttler = entry.throttler
    if is_awake(throttler):
        return now + LOOK_AGAIN
    revision = throttler.revision
    requests = revision.policies.requests
    waiting = None if requests is None else requests.waiting
    name = "" if waiting is None else waiting.page_template
    template = services.template_of(name, revision.id)
    start = start_of(services.driver, throttler, now)
    page = waiting_page.page(template, start)
    page = replace(page, fields=page.fields + exchange.added_lines)
    if start.phase is waiting_page.Phase.FAILED:
        record_failure(exchange, page.status, start.reason, start.detail)
        respond_to_waiting(exchange, page, "timed-out", now)
        return inf
    _keep_demand(exchange, now + PAGE_LEASE, "page", now)
    respond_to_waiting(exchange, page, "page", now)
    return inf


def _refuse(exchange: Waiting, now: float) -> float:
    """End a queued request with 503; keep the demand until its client may be back."""
    if exchange.ticket.state is not QUEUED:
        return inf
    services, entry = exchange.services, exchange.entry
    throttler = entry.throttler
    seconds = services.retry_after(throttler)
    refusal = own_responses.wait_refused(services.driver.why(throttler)[0], seconds)
    waited = now - exchange.ticket.arrived
    refusal = in_form(exchange, refusal, exchange.added_lines, waited, 0)
    _keep_demand(exchange, now + seconds + REFUSE_MARGIN, "wait-refused", now)
    respond_to_waiting(exchange, refusal, "wait-refused", now)
    return inf


def _keep_demand(exchange: Waiting, until: float, ended: str, now: float) -> None:
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


#: Whether a mode fits a request. HTTP/1.0, HEAD and a change of protocol get HOLD alone.
FITS: Final[dict[WaitMode, Callable[[Waiting], bool]]] = {
    WaitMode.HOLD: _always,
    WaitMode.PAGE: _is_navigation,
    WaitMode.HEARTBEAT: _may_get_heartbeats,
    WaitMode.REFUSE: _always,
}

#: Seconds from the arrival of a request to the first step of its mode.
_AFTER: Final[dict[WaitMode, Callable[[WhileWaiting], float]]] = {
    WaitMode.HOLD: lambda waiting: inf,
    WaitMode.PAGE: lambda waiting: waiting.page_after,
    WaitMode.HEARTBEAT: lambda waiting: waiting.heartbeat_every,
    WaitMode.REFUSE: lambda waiting: 0.0,
}

#: What a mode does when its time has come. Returns when to call it again, seconds.
STEPS: Final[dict[WaitMode, Callable[[Waiting, float], float]]] = {
    WaitMode.HOLD: _nothing,
    WaitMode.PAGE: _send_page,
    WaitMode.HEARTBEAT: _beat,
    WaitMode.REFUSE: _refuse,
}
