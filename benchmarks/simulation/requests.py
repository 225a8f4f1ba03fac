"""One request on its way, and the events of a rule."""

from __future__ import annotations

from typing import Protocol, final

from benchmarks.simulation.load import Arrival
from benchmarks.simulation.pods import Pod
from throttler.model import ListedEndpoints
from throttler.reason import Reason
from throttler.ticket import Ticket


@final
class Request:
    """One request of a client.

    Attributes:
        arrived: when it arrived at its activator; service: how long a pod works on it; seconds.
        activator: the rule of the activator that has it.
        began: when an application last began to work on it.
        pod: the pod that has it; None while it is queued, and after its end.
        ticket: its record in the throttler, under the product's rules.
        waited: whether it did not get a slot of an application at once.
        repeats: how often a pod failed it.
    """

    __slots__ = ("activator", "arrived", "began", "pod", "repeats", "service", "ticket", "waited")

    def __init__(self, arrival: Arrival, activator: Activator) -> None:
        self.arrived = self.began = arrival.at
        self.service = arrival.service
        self.activator = activator
        self.pod: Pod | None = None
        self.ticket: Ticket | None = None
        self.waited = False
        self.repeats = 0

    def ticket_assigned(self) -> None:
        """See throttler.ticket.TicketOwner."""
        self.activator.assigned(self)

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """See throttler.ticket.TicketOwner."""
        self.activator.expired(self)


class Activator(Protocol):
    """One activator with a rule by which it queues requests and chooses pods.

    Each method is an event; the network calls it with the virtual time in its agenda.
    """

    def arrived(self, request: Request) -> None:
        """Take a new request: send it to a pod, or queue it."""

    def assigned(self, request: Request) -> None:
        """Send a request whose ticket has a pod."""

    def expired(self, request: Request) -> None:
        """End a request whose ticket has expired."""

    def ended(self, request: Request, pod: Pod) -> None:
        """Record that a pod has sent the response to a request."""

    def refused(self, request: Request, pod: Pod) -> None:
        """Record that a pod accepted no connection."""

    def rejected(self, request: Request, pod: Pod) -> None:
        """Record that queue-proxy refused a request because its queue is full."""

    def lost(self, request: Request, pod: Pod) -> None:
        """Record that a pod died with a request, before its response began."""

    def set_endpoints(self, listed: ListedEndpoints) -> None:
        """Replace the endpoints that Kubernetes lists."""

    def set_activators(self, addresses: frozenset[str]) -> None:
        """Replace the activators that Kubernetes lists for the revision."""


class Network(Protocol):
    """The world as an activator sees it."""

    def send(self, request: Request, address: str) -> None:
        """Send a request to a pod."""

    def began_waiting(self, request: Request) -> None:
        """Record that a request is queued at its activator."""

    def failed(self, request: Request) -> None:
        """Record that the client of a request gets an error response."""

    def probe(self, address: str) -> bool | None:
        """Return whether a pod passes a probe now; None if no packet comes back."""
