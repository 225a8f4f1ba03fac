"""The product's rules: the real throttler, with a prober in virtual time.

``activator.probing.prober`` needs an event loop. So this module repeats its schedule: the pauses of
``throttler.pod``, and its limit of probes a second.
"""

from __future__ import annotations

from random import Random
from typing import Final, final

from activator.probing.prober import BURST, BUSY_FOR, MAX_RATE
from benchmarks.simulation.agenda import Agenda
from benchmarks.simulation.pods import Pod
from benchmarks.simulation.requests import Network, Request
from throttler.backends import by_endpoint
from throttler.errors import ActivatorError
from throttler.model import AppProtocol, ListedEndpoints, MeshMode, Revision, RevisionID
from throttler.pod import DELAY_UNWANTED, PodState, PodTracker, probe_delay
from throttler.revision import RevisionThrottler
from throttler.throttler import Limits, Throttler
from throttler.ticket import FAILED, Changes, Ticket

REVISION: Final = RevisionID("simulation", "service")
#: Seconds until a request expires (``timeoutSeconds``).
TIMEOUT: Final = 300.0
#: Seconds from the start of a probe to its result.
PROBE_TAKES: Final = 0.001
#: Seconds until a probe without a response has failed (PROBE_TIMEOUT).
PROBE_TIMEOUT: Final = 0.3
#: Most repeats of a request that a pod may have seen (activator.proxy.exchange.retry).
MAX_REPEATS: Final = 3


@final
class Product:
    """One activator under the product's rules.

    Arguments:
        address: its own address.
        limit: containerConcurrency.
        borrow: the setting of that name.
        settled: whether the first list of endpoints is of pods that have run for long. Then no
            probe comes before the first request.
    """

    def __init__(
        self,
        network: Network,
        agenda: Agenda,
        random: Random,
        address: str,
        limit: int,
        *,
        borrow: bool = True,
        settled: bool = True,
    ) -> None:
        self._network = network
        self._agenda = agenda
        self._throttler = Throttler(Limits(), random.random, address, borrow)
        self._settled = settled
        if settled:
            self._throttler.set_mesh(MeshMode.DISABLED, False, agenda.now)
        revision = Revision(REVISION, container_concurrency=limit)
        self._throttler.set_revision(revision, agenda.now)
        self.revision: RevisionThrottler = self._throttler.find(*REVISION)
        self._due: dict[PodTracker, int] = {}
        self._plans = 0
        self._rate_at = 0.0
        self._timer_at = float("inf")

    # -- requests -------------------------------------------------------------------------------

    def arrived(self, request: Request) -> None:
        """See Activator."""
        now = self._agenda.now
        ticket = request.ticket = Ticket(request, now + TIMEOUT)
        try:
            pod = self.revision.admit(ticket, now)
        except ActivatorError:
            self._network.failed(request)
            return
        if pod is not None:
            self._network.send(request, pod.address)
            return
        self._network.began_waiting(request)
        if self.revision.breaker.waiting == 1:
            self._hurry()
        self._arm()

    def assigned(self, request: Request) -> None:
        """See Activator."""
        assert request.ticket is not None
        assert request.ticket.pod is not None
        self._network.send(request, request.ticket.pod.address)

    def expired(self, request: Request) -> None:
        """See Activator."""
        self._network.failed(request)

    def ended(self, request: Request, pod: Pod) -> None:
        """See Activator."""
        ticket, now = request.ticket, self._agenda.now
        assert ticket is not None
        assert ticket.pod is not None
        tracker = ticket.pod
        tracker.last_response_at = now
        if tracker.ejection.consecutive_errors or tracker.ejection.half_open:
            self._carry_out(self.revision.responded_well(tracker, now))
        self._carry_out(self.revision.release(ticket, now))

    def refused(self, request: Request, pod: Pod) -> None:
        """See Activator."""
        assert request.ticket is not None
        assert request.ticket.pod is not None
        now = self._agenda.now
        self._carry_out(self.revision.connect_failed(request.ticket.pod, "refused", now))
        self._requeue(request)

    def rejected(self, request: Request, pod: Pod) -> None:
        """See Activator."""
        assert request.ticket is not None
        assert request.ticket.pod is not None
        now = self._agenda.now
        self._carry_out(
            self.revision.responded_badly(
                request.ticket.pod, "pending request queue full", now, untouched=True
            )
        )
        self._requeue(request)

    def lost(self, request: Request, pod: Pod) -> None:
        """See Activator."""
        ticket, now = request.ticket, self._agenda.now
        assert ticket is not None
        assert ticket.pod is not None
        self._carry_out(self.revision.connect_failed(ticket.pod, "reset", now))
        request.repeats += 1
        if request.repeats > MAX_REPEATS:
            self._carry_out(self.revision.release(ticket, now, FAILED))
            self._network.failed(request)
        else:
            self._requeue(request)

    def _requeue(self, request: Request) -> None:
        assert request.ticket is not None
        self._carry_out(self.revision.requeue(request.ticket, self._agenda.now))
        if request.pod is None and self.revision.breaker.waiting:
            self._network.began_waiting(request)
            self._hurry()
            self._arm()

    # -- lists ----------------------------------------------------------------------------------

    def set_endpoints(self, listed: ListedEndpoints) -> None:
        """See Activator."""
        now = self._agenda.now
        endpoints = {AppProtocol.HTTP1: listed}
        self._carry_out(self._throttler.set_endpoints(REVISION, endpoints, now))
        if self._settled:
            # Pods that are usable stay usable; from now on, new ones need a probe.
            self._settled = False
            self._throttler.set_mesh(MeshMode.AUTO, False, now)

    def set_activators(self, addresses: frozenset[str]) -> None:
        """See Activator."""
        lists = {AppProtocol.HTTP1: addresses}
        self._carry_out(self._throttler.set_activators(REVISION, lists, self._agenda.now))

    # -- effects --------------------------------------------------------------------------------

    def _carry_out(self, changes: Changes | None) -> None:
        if changes is None:
            return
        for ticket in changes.assigned:
            ticket.owner.ticket_assigned()
        for ticket in changes.expired:
            assert isinstance(ticket.owner, Request)
            self.expired(ticket.owner)
        for pod in changes.gone:
            self._due.pop(pod, None)
        for pod in sorted(changes.probe, key=by_endpoint):
            self._probe_at(pod, self._agenda.now)
        self._arm()

    def _arm(self) -> None:
        """Schedule the next deadline or raise of limits, if one can be due."""
        if not (self.revision.breaker.waiting or self.revision.outdated):
            return
        at = self._throttler.next_due()
        if at is not None and at < self._timer_at:
            self._timer_at = max(at, self._agenda.now)
            self._agenda.at(self._timer_at, self._run_due, self._timer_at)

    def _run_due(self, at: float) -> None:
        if at == self._timer_at:
            self._timer_at = float("inf")
            self._carry_out(self._throttler.run_due(self._agenda.now))

    # -- probes ---------------------------------------------------------------------------------

    def _hurry(self) -> None:
        for pod in sorted(self.revision.unhealthy_pods(), key=by_endpoint):
            if pod in self._due:
                self._probe_at(pod, max(self._agenda.now, pod.ejection.until))

    def _probe_at(self, pod: PodTracker, when: float) -> None:
        """Plan the next probe of a pod; it replaces the former plan."""
        now = self._agenda.now
        if when <= now:
            self._rate_at = max(self._rate_at, now - BURST / MAX_RATE) + 1 / MAX_RATE
            when = max(now, self._rate_at)
        self._plans = self._due[pod] = self._plans + 1
        self._agenda.at(max(when, pod.ejection.until) + PROBE_TAKES, self._probed, pod, self._plans)

    def _probed(self, pod: PodTracker, plan: int) -> None:
        if self._due.get(pod) != plan or not pod.wants_probe:
            return
        now = self._agenda.now
        result = self._network.probe(pod.address)
        if result:
            self._carry_out(self.revision.probe_passed(pod, pod.epoch, now))
            return  # responses to requests show the health of a pod in traffic
        if result is None:
            self._agenda.at(now + PROBE_TIMEOUT - PROBE_TAKES, self._probe_failed, pod, plan, True)
        else:
            self._probe_failed(pod, plan, timed_out=False)

    def _probe_failed(self, pod: PodTracker, plan: int, timed_out: bool) -> None:
        if self._due.get(pod) != plan:
            return
        now = self._agenda.now
        self._carry_out(self.revision.probe_failed(pod, pod.epoch, "no response", now))
        if self._due.get(pod) == plan:
            self._probe_at(pod, now + self._pause(pod, now, timed_out))

    def _pause(self, pod: PodTracker, now: float, timed_out: bool) -> float:
        """Return the seconds until the next probe, as PodProber does."""
        oldest = self.revision.breaker.oldest()
        busy = self.revision.in_flight > 0 or now - self.revision.last_release < BUSY_FOR
        return probe_delay(
            healthy=pod.state is PodState.HEALTHY,
            wanted_for=now - max(oldest.arrived, pod.probe.failing_since) if oldest else None,
            timed_out=timed_out,
            failures=pod.probe.failures,
            busy=busy,
            unwanted=DELAY_UNWANTED,
        )
