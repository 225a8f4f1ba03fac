"""What all exchanges share: the driver, connections to pods, settings, counters, and the log."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from email.utils import formatdate

from activator.driver import Driver
from activator.process.logs import Repeats
from activator.proxy.exchange.observers import RequestLog, Tracer
from activator.proxy.exchange.sides import PodPools
from activator.proxy.message.own_responses import OwnResponse
from throttler.model import RevisionID
from throttler.revision import RevisionThrottler

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ProxyCounters:
    """What is counted outside any revision."""

    unknown_revisions: int = 0
    bad_requests: int = 0
    turned_away: int = 0


class Services:
    """What all exchanges share.

    Arguments:
        driver, pools: decides, and connects.
        hold_bytes: bytes of a body that are read while its request waits, or kept to repeat it.
        idle_from_arrival: whether a revision's idle time-out counts while a request waits.
        server_timing: whether responses that waited say for how long, in ``Server-Timing``.
        notes: the activator's field lines for a response; an exchange may replace them.

    Attributes:
        tracer, request_log: who observes requests; None while that is off. May change at any time.
        draining: set when the process is to end: each response from then on is the last on its
            connection, so that clients go elsewhere before it is closed.
    """

    def __init__(
        self,
        driver: Driver,
        pools: PodPools,
        *,
        hold_bytes: int,
        idle_from_arrival: bool,
        server_timing: bool,
        notes: bytes,
    ) -> None:
        self.driver = driver
        self.pools = pools
        self.hold_bytes = hold_bytes
        self.idle_from_arrival = idle_from_arrival
        self.server_timing = server_timing
        self.notes = notes
        self.counters = ProxyCounters()
        self.tracer: Tracer | None = None
        self.request_log: RequestLog | None = None
        self.draining = False
        self.repeats = Repeats()
        self._date = b""
        self._date_of = 0

    def date(self) -> bytes:
        """Return the present date as a Date field has it; made once a second."""
        now = int(time.time())
        if now != self._date_of:
            self._date_of = now
            self._date = formatdate(now, usegmt=True).encode()
        return self._date

    def retry_after(self, revision: RevisionThrottler | None = None) -> int:
        """Return when a client that is refused now may come again: whole seconds.

        At once while the process ends: on its next connection it finds another activator.

        Arguments:
            revision: whose client; None where that is not known.
        """
        if self.draining:
            return 0
        if revision is None:
            return self.driver.throttler.retry_after()
        return revision.retry_after(self.driver.clock())

    def still_connecting(self) -> str:
        """Return what a request waits for that has a pod and no connection."""
        files = self.pools.files
        if files.waiting:
            return f"; no file is free to connect, of {files.shares.limit}"
        return "; still connecting"

    def log_own_response(self, revision: RevisionID, response: OwnResponse) -> None:
        """Log a response of ours that a revision's client got; of one kind, one now and then."""
        more = self.repeats.admit((revision, response.status, response.reason), self.driver.clock())
        if more is not None:
            others = "1 other" if more == 1 else f"{more} others"
            also = f" (and {others} since the last such line)" if more else ""
            logger.warning(
                "answered %d: %s%s",
                response.status,
                response.why,
                also,
                extra={"revision": str(revision)},
            )
