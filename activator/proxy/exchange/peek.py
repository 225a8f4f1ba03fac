"""Responds to the requests by which a waiting page finds out whether it should reload.

They are HEAD requests for the URL of the page, with ``Activator-Peek: 1``. Only revisions with
waiting pages understand the field; for all others such a request is like any other. A peek is never
queued, and is no load itself. It prolongs the lease that counts for all open pages of a revision.
"""

from __future__ import annotations

from typing import Final, Protocol

from activator.proxy.exchange.port import Port
from activator.proxy.exchange.revision_start import start_of
from activator.proxy.exchange.services import Services
from activator.proxy.message import waiting_page
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.waiting_page import Phase
from activator.records.entries import Entry
from throttler.request_policies import RequestPolicies, WaitMode

_FIELD: Final = b"activator-peek"
#: Seconds for which an open page counts as demand after it was sent, or after a peek. A page
#: without scripts is back after 5 s, and waits for ``page_after`` then. Browsers run the timers of
#: a hidden tab once a minute.
PAGE_LEASE: Final = 75.0
#: The same after a peek that finds a free slot: the page reloads at once.
RELOAD_LEASE: Final = 10.0


class Peeking(Protocol):
    """The part of an exchange that this module uses."""

    entry: Entry
    services: Services


def is_peek(request: Request, port: Port, policies: RequestPolicies) -> bool:
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


def respond(exchange: Peeking, now: float) -> OwnResponse:
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
    if start.phase is not Phase.FAILED:
        services.keep_demand(entry, now + PAGE_LEASE, now)
    return waiting_page.peek(start)
