"""Responds to the requests by which a waiting page finds out whether it should reload.

They are HEAD requests for the URL of the page, with ``Activator-Peek: 1``. Only revisions with
waiting pages understand the field; for all others such a request is like any other. A peek is never
queued, and is no load itself. It prolongs the lease that counts for all open pages of a revision.
``start_of`` finds how far the start of the revision is, as the pages show it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from activator.driver import Driver
from activator.proxy.exchange.lookup import ClientPort
from activator.proxy.message import waiting_page
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.waiting_page import Start, StartPhase, whole_seconds
from throttler.model import Revision
from throttler.pod import PodState
from throttler.request_policies import RequestPolicies, WaitMode
from throttler.revision import RevisionThrottler

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange

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


def respond(exchange: Exchange, now: float) -> OwnResponse:
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
    if throttler.slots.pods:
        return StartPhase.BUSY
    pods = [pod for pod in throttler.backends.pods.values() if pod.state is not PodState.DRAINING]
    if not pods:
        return StartPhase.ASKED
    if any(pod.probe.at is not None or pod.probe.failures for pod in pods):
        return StartPhase.PROBED
    return StartPhase.LISTED
