"""Holds the objects that all exchanges share: driver, pools, settings, counters, observers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from activator.driver import Driver
from activator.process.logs import Repeats
from activator.process.timers import Timers
from activator.proxy.exchange.placement import ClientAddresses
from activator.proxy.exchange.wait import WARM
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.response import CurrentDate
from activator.proxy.message.waiting_page import DEFAULT, Template
from activator.records.entries import Entry
from activator.records.narration import identity
from throttler.model import RevisionID
from throttler.revision import RevisionThrottler

if TYPE_CHECKING:
    from activator.proxy.pods.pool import ConnectionPools
    from activator.runtime import Authorizer, RequestLog, RequestTracer

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ProxyCounters:
    """Counts of requests and clients that belong to no revision."""

    unknown_revisions: int = 0
    bad_requests: int = 0
    turned_away: int = 0


class ProxyServices:
    """The objects and settings that all exchanges share.

    Arguments:
        driver: decides which pod gets a request.
        pools: the connections to all pods.
        hold_bytes: bytes of a body that are buffered while its request waits, or for a retry.
        idle_from_arrival: whether a revision's idle time-out counts while a request waits.
        server_timing: whether a response that waited gets the field ``Server-Timing``.
        cold_start_header: whether each response states whether it waited for a cold start.
        clients: finds the addresses of clients.

    Attributes:
        timers: end the leases of revisions, and enforce the deadlines of connections.
        added_lines: the field lines that the activator adds to a response, each preceded by its
            CRLF. An exchange may replace them.
        counters: counts of requests without a revision.
        date: the current date, for responses without one.
        tracer, request_log: the observers of requests; None while they are off. They may change at
            any time.
        comments: the comment for event streams of each revision, and until when it counts.
        draining: set when the process is to end. Each response from then on is the last on its
            connection, so that the client connects to another activator.
        repeats: limits how often the same line is logged.
        authorizer: sends requests to authorization servers. Without it, no request is allowed that
            needs one.
        namers: know which clients may name a Service by a field; None if all may.
        templates: the templates of waiting pages by name; they may change at any time.
        health: returns why the activator is not ready, empty if it is, for probes that come in the
            way of the KEDA HTTP add-on; None without the dialect keda.
    """

    def __init__(
        self,
        driver: Driver,
        pools: ConnectionPools,
        *,
        hold_bytes: int,
        idle_from_arrival: bool = False,
        server_timing: bool = False,
        cold_start_header: bool = False,
        clients: ClientAddresses | None = None,
    ) -> None:
        self.driver = driver
        self.pools = pools
        self.timers = Timers(driver.clock)
        self.templates: Mapping[str, Template] = {}
        self.hold_bytes = hold_bytes
        self.idle_from_arrival = idle_from_arrival
        self.server_timing = server_timing
        self.added_lines = WARM if cold_start_header else b""
        self.clients = ClientAddresses() if clients is None else clients
        self.counters = ProxyCounters()
        self.tracer: RequestTracer | None = None
        self.request_log: RequestLog | None = None
        self.comments: dict[RevisionID, tuple[float, bytes]] = {}
        self.draining = False
        self.repeats = Repeats()
        self.authorizer: Authorizer | None = None
        self.namers: ClientAddresses | None = None
        self.health: Callable[[], str] | None = None
        self.date = CurrentDate()

    def retry_after(self, revision: RevisionThrottler | None = None) -> int:
        """Return the value of Retry-After for an error response now: whole seconds.

        It is 0 while the process ends, since the next connection reaches another activator.

        Arguments:
            revision: the throttler of the request's revision; None if unknown.
        """
        if self.draining:
            return 0
        if revision is None:
            return self.driver.throttler.retry_after()
        return revision.retry_after(self.driver.clock())

    def keep_demand(self, entry: Entry, until: float, now: float) -> None:
        """Let a revision have the load of one request for clients that will be back.

        Arguments:
            entry: of the revision.
            until: when they should be back, seconds.
            now: seconds.
        """
        lease = entry.lease
        if lease.keep(until, now):
            self.driver.clients_return(entry.throttler, now)
        if until < lease.armed:
            self.timers.arm(lease, until)

    def template_of(self, name: str, revision: RevisionID) -> Template:
        """Return a template for waiting pages; the default one if the name is empty or unknown.

        Arguments:
            name: the name that the revision gives.
            revision: for the log line about an unknown name.
        """
        template = self.templates.get(name, DEFAULT)
        if template is not DEFAULT or not name:
            return template
        if self.repeats.admit((revision, name), self.driver.clock()) is not None:
            logger.warning(
                "no template %s in ConfigMap activator-pages: clients get the default page",
                name,
                extra=identity(revision),
            )
        return template

    def still_connecting(self) -> str:
        """Return why a request with a pod has no connection yet, as a suffix of a detail."""
        files = self.pools.files
        if files.waiting:
            return f"; no file is free to connect, of {files.shares.limit}"
        return "; still connecting"

    def log_own_response(self, revision: RevisionID, response: OwnResponse, done: str = "") -> None:
        """Log an error response to a request of a revision; one line of each kind now and then.

        Arguments:
            done: what was done instead of a response; empty for a response.
        """
        more = self.repeats.admit((revision, response.status, response.reason), self.driver.clock())
        if more is not None:
            others = "1 other" if more == 1 else f"{more} others"
            also = f" (and {others} since the last such line)" if more else ""
            logger.warning(
                "%s: %s%s",
                done or f"responded {response.status}",
                response.why,
                also,
                extra=identity(revision),
            )
