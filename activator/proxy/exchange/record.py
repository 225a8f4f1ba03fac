"""Defines the data of one exchange, which all phases of its request share.

The phases are functions of other modules: ``entering``, ``waiting``, ``sending``, ``responding``
and ``ending``. They get this record. ``exchange.Exchange`` implements its methods and is the only
subclass. So no module of a phase imports the class that calls it, and the compiled build reads each
attribute by its offset.
"""

from __future__ import annotations

from abc import abstractmethod
from math import inf

from activator.proxy.exchange.attempts import Attempts
from activator.proxy.exchange.client_side import ClientSide
from activator.proxy.exchange.observers import Trace
from activator.proxy.exchange.pod_side import PodSide, Requester
from activator.proxy.exchange.pod_wait import PodWait
from activator.proxy.exchange.request_body import NO_BODY, RequestBody
from activator.proxy.exchange.services import Services
from activator.proxy.exchange.states import NEW, State
from activator.proxy.exchange.time_limits import TimeLimits
from activator.proxy.exchange.translation import Translation
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.records.entries import Entry
from throttler.reason import Reason
from throttler.request_policies import Verdict
from throttler.ticket import Ticket


class ExchangeRecord(Requester):
    """The data of one request and its response.

    Arguments:
        services: the objects that all exchanges share.
        client: the client's side.
        request: the request. If its body has begun, ``sending.on_request_body`` gets it before
            ``begin``.
        client_timeout: seconds that the client waits (grpc-timeout); infinite without the field.

    Attributes:
        added_lines: the field lines that the activator adds to the response, each preceded by its
            CRLF.
        attempts: its attempts; None until the first doubtful response or failure.
        body: the buffered body of the request.
        entry: the entry of its revision.
        limits: its limits except the deadline; None for most requests.
        pod_side: the pod's side; None while no pod has the request.
        response_size: bytes of the response's body that the client got; counts_payload: whether
            they are counted piece by piece, because the head does not give the length.
        sent_at: when a pod last got it, seconds.
        state: assigned directly. ``states.FOLLOWS`` has the allowed changes, and the tests of the
            byte path check each change against it.
        status: the status of the response; set when it begins.
        ticket: its ticket in the throttler.
        to_head: see Requester.
        trace: its spans; None if it is not traced.
        translation: converts between two versions of HTTP; None if both sides speak the same.
        wait: its wait for a pod; None if it got a pod at once.
    """

    __slots__ = (
        "added_lines",
        "attempts",
        "body",
        "client",
        "client_timeout",
        "counts_payload",
        "entry",
        "limits",
        "pod_side",
        "request",
        "response_size",
        "sent_at",
        "services",
        "state",
        "status",
        "ticket",
        "to_head",
        "trace",
        "translation",
        "wait",
    )

    entry: Entry
    ticket: Ticket
    sent_at: float
    status: int

    def __init__(
        self, services: Services, client: ClientSide, request: Request, client_timeout: float = inf
    ) -> None:
        self.services = services
        self.client = client
        self.request = request
        self.client_timeout = client_timeout
        self.state: State = NEW
        self.body = RequestBody(request, services.hold_bytes) if request.has_body else NO_BODY
        self.to_head = request.method == b"HEAD"
        self.pod_side: PodSide | None = None
        self.attempts: Attempts | None = None
        self.translation: Translation | None = None
        self.limits: TimeLimits | None = None
        self.response_size = 0
        self.counts_payload = False
        self.trace: Trace | None = None
        self.added_lines = services.added_lines
        self.wait: PodWait | None = None

    @abstractmethod
    def ticket_assigned(self) -> None:
        """See throttler.ticket.TicketOwner."""

    @abstractmethod
    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """See throttler.ticket.TicketOwner."""

    @abstractmethod
    def decided(self, verdict: Verdict) -> None:
        """See authorizing.Authorized."""

    @abstractmethod
    def send_continue(self) -> None:
        """See time_limits.Timed."""

    @abstractmethod
    def send_again(self) -> None:
        """See attempts.Retrying."""

    @abstractmethod
    def requeue(self, cause: str) -> None:
        """See attempts.Retrying."""

    @abstractmethod
    def detach(self) -> None:
        """See attempts.Retrying."""

    @abstractmethod
    def stop(self, response: OwnResponse, ended: str) -> None:
        """See attempts.Retrying."""

    @abstractmethod
    def end(self, ended: str, status: int, size: int, now: float, why: str = "") -> None:
        """See outcome.Ending."""


def attempts_of(exchange: ExchangeRecord) -> Attempts:
    """Return the record of an exchange's attempts; the first call makes it."""
    attempts = exchange.attempts
    if attempts is None:
        attempts = exchange.attempts = Attempts(exchange.services.driver)
    return attempts
