"""Find the throttler of a ticket, for tests that release or cancel requests directly."""

from __future__ import annotations

from activator.driver import Driver
from throttler.revision import RevisionThrottler
from throttler.ticket import Ticket


def throttler_of(driver: Driver, ticket: Ticket) -> RevisionThrottler:
    """Return the throttler that has the ticket in its queue or at a pod."""
    assert ticket.config is not None
    throttler = driver.throttler.of(ticket.config)
    assert throttler is not None
    return throttler


def release(driver: Driver, throttler: RevisionThrottler, ticket: Ticket, now: float) -> None:
    """End a request that has a pod, as the byte path does."""
    changes = throttler.release(ticket, now)
    if changes is not None:
        driver.carry_out(changes)
