"""Handles one request and its response: composes the phases of ``record``'s modules.

Each method is an event, and names the phase that handles it:

| phase | module |
|---|---|
| finds the revision, and admits the request | ``entering`` |
| waits for a pod | ``waiting`` |
| sends the request to a pod | ``sending`` |
| sends it again, because the attempt failed | ``attempts`` |
| passes the response on | ``responding`` |
| ends | ``ending`` |

Each of the two sides speaks HTTP/1 or HTTP/2; the decisions are the same for both. Every call is
synchronous.
"""

from __future__ import annotations

from math import inf
from typing import final

from activator.proxy.exchange import (
    arrival,
    ending,
    entering,
    responding,
    retry,
    sending,
    switching,
    waiting,
    waiting_client,
)
from activator.proxy.exchange.attempts import pod_of
from activator.proxy.exchange.pod_side import PodSide
from activator.proxy.exchange.record import ExchangeRecord, attempts_of
from activator.proxy.exchange.retry import Failure
from activator.proxy.exchange.states import AUTHORIZING, DONE, NEW, RESPONSE_BEGUN
from activator.proxy.exchange.time_limits import check
from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message.fields import HTTP_1_0
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.response import Response
from throttler.reason import Reason
from throttler.request_policies import Verdict
from throttler.ticket import QUEUED


@final
class Exchange(ExchangeRecord):
    """One request and its response; see ExchangeRecord for its data."""

    __slots__ = ()

    def on_time(self, now: float) -> float:
        """Enforce the limits that have passed; return when to call this again, seconds."""
        state = self.state
        if state is DONE or state is NEW:
            return inf
        if state is AUTHORIZING:
            return arrival.on_time(self, now)
        wait = self.wait
        step_at = inf if wait is None else waiting_client.on_time(self, wait, now)
        if not self.wants_connection or self.ticket.state is QUEUED:
            return step_at  # the driver enforces the deadline of a queued ticket
        return min(step_at, check(self, now))

    # -- the throttler and the authorizer call -----------------------------------------------------

    def ticket_assigned(self) -> None:
        """See throttler.ticket.TicketOwner."""
        waiting.on_assigned(self)

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """See throttler.ticket.TicketOwner."""
        waiting.on_expired(self, reason, detail)

    def decided(self, verdict: Verdict) -> None:
        """See authorizing.Authorized."""
        entering.decided(self, verdict)

    # -- the pod's side calls ----------------------------------------------------------------------

    @property
    def wants_connection(self) -> bool:
        """See Requester."""
        return self.state is not DONE

    def on_connected(self, side: PodSide) -> None:
        """See Requester."""
        sending.on_connected(self, side)

    def pause_sending(self) -> None:
        """See Requester."""
        self.client.regulate()

    def resume_sending(self) -> None:
        """See Requester."""
        if self.translation is not None:
            self.translation.pod_changed()
        self.client.regulate()

    def on_interim(self, response: Response | ResponseFields) -> None:
        """See Requester."""
        if response.status == 101:
            assert isinstance(response, Response)
            switching.begin_tunnel(self, response)
        elif response.status == 100:
            self.send_continue()
        elif self.request.version is not HTTP_1_0:
            responding.pass_interim(self, response)

    def on_response(
        self,
        response: Response | ResponseFields,
        raw: bytes | None,
        payload: list[bytes],
        complete: bool,
    ) -> None:
        """See Requester."""
        responding.begin_response(self, response, raw, payload, complete)

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """See Requester."""
        responding.pass_payload(self, payload, complete, trailers)

    def on_dial_failed(self, error: str, cause: str) -> None:
        """See Requester."""
        if self.state is not DONE:
            attempts_of(self).failed(self, Failure.NO_CONNECTION, error, cause)

    def on_lost(self, error: str, began: bool) -> None:
        """See Requester."""
        side = self._lose_pod()
        if self.state is not DONE:
            reused = side is not None and side.is_reused()
            attempts_of(self).failed(self, retry.lost(began=began, reused=reused), error)

    def on_reset(self, code: int, began: bool) -> None:
        """See Requester."""
        self._lose_pod()
        if self.state is not DONE:
            attempts_of(self).reset(self, code, began, self._count_responses())

    def on_refused(self, error: str) -> None:
        """See Requester."""
        self._lose_pod()
        if self.state is not DONE:
            attempts_of(self).refused(self, self._count_responses(), error)

    def on_other_protocol(self, error: str) -> None:
        """See Requester."""
        self._lose_pod()
        if self.state is not DONE:
            attempts_of(self).misunderstood(self, error)

    def _lose_pod(self) -> PodSide | None:
        """Release and return the side of a pod that sends nothing more."""
        side, self.pod_side = self.pod_side, None
        if self.attempts is not None:
            self.attempts.withheld = None
        return side

    def _count_responses(self) -> int:
        """Return how many HTTP/2 responses the pod has sent."""
        return self.services.pools.of(pod_of(self.ticket)).count_responses()

    # -- the phases call, by the protocols of their modules ----------------------------------------

    def send_continue(self) -> None:
        """See time_limits.Timed."""
        limits = self.limits
        if not self.request.expects_continue or limits is None or not limits.continued():
            return
        if self.state not in RESPONSE_BEGUN:
            self.client.send_continue()

    def send_again(self) -> None:
        """See attempts.Retrying."""
        sending.connect(self, pod_of(self.ticket), self.services.driver.clock())

    def requeue(self, cause: str) -> None:
        """See attempts.Retrying."""
        waiting.requeue(self, cause)

    def detach(self) -> None:
        """See attempts.Retrying."""
        ending.detach(self)

    def stop(self, response: OwnResponse, ended: str) -> None:
        """See attempts.Retrying."""
        ending.stop(self, response, ended)

    def end(self, ended: str, status: int, size: int, now: float, why: str = "") -> None:
        """See outcome.Ending."""
        ending.end(self, ended, status, size, now, why)
