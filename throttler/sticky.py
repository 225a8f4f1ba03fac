"""Sticky requests: the requests of one client, or of one session, go to one pod.

A request's key is the value of a cookie or of a header field, or the client's address. A pod has a
token, by which the activator's cookie names it. A header field may also carry a session that a pod
has begun. Then the pod's response binds the value to that pod. For all other keys, rendezvous
hashing over the usable pods decides. So a pod that comes or goes moves only its share of the keys.
Knative has no counterpart. Sources: ``stick store-response`` of HAProxy; Envoy's stateful session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, final

from throttler.lb_policy import Policy
from throttler.model import Overflow
from throttler.pod import FreePods, PodTracker
from throttler.rendezvous import Rendezvous
from throttler.ticket import Outcome, Ticket

#: Sessions that responses have bound, at most. The oldest is removed first; its requests then go to
#: the pod of their key.
MAX_SESSIONS = 16_384
#: Bytes of a token; in the cookie it has twice as many characters.
TOKEN_BYTES: Final = 12


def token_of(pod: PodTracker) -> bytes:
    """Return the token of a pod: a hash that all activators agree on, and that names no address.

    The uids of the pod and of its revision are random. So trying all addresses finds no token.
    """
    config, endpoint = pod.config, pod.endpoint
    identity = f"{config.revision.uid} {endpoint.uid} {endpoint.address}".encode()
    return blake2b(identity, digest_size=TOKEN_BYTES).hexdigest().encode()


@final
class StickyCounts:
    """Requests with a key, by their result.

    Attributes:
        kept: went to the pod that a token or a session names.
        hashed: went to the pod that rendezvous hashing gives the key.
        overflowed: went to another pod, since their own was full or had failed them.
        waited: waited for their own pod although another had a free slot.
    """

    __slots__ = ("hashed", "kept", "overflowed", "waited")

    def __init__(self) -> None:
        self.kept = self.hashed = self.overflowed = self.waited = 0

    def by_result(self) -> Iterator[tuple[str, int]]:
        """Yield each result with its number of requests."""
        yield "kept", self.kept
        yield "hashed", self.hashed
        yield "overflowed", self.overflowed
        yield "waited", self.waited


@final
class Sticky(Policy):
    """The pod of a request's key; requests without a key go by another policy.

    Arguments:
        base: picks for requests without a key.
        overflow: what a request does while its pod is full.
        by_token: whether keys are tokens, from the cookie that names a pod.

    Attributes:
        by_token: whether keys are tokens.
        holds: whether a request may have to wait for one pod while others are free, see ``home``.
        tokens: the usable pods by their tokens; read only.
        counts: requests with a key, by their result.
    """

    __slots__ = ("_base", "_hash", "by_token", "counts", "holds", "sessions", "tokens")

    def __init__(self, base: Policy, overflow: Overflow, *, by_token: bool = True) -> None:
        super().__init__(follows=base.follows, spans=True)
        self.by_token: Final = by_token
        self.holds: Final = overflow is Overflow.WAIT
        self._base = base
        self._hash = Rendezvous(base)
        # The pods by token, and by the sessions that they began.
        self.tokens: dict[bytes, PodTracker] = {}
        self.sessions: OrderedDict[bytes, PodTracker] = OrderedDict()
        self.counts = StickyCounts()

    def pick(self, ticket: Ticket, pods: list[PodTracker], free_pods: FreePods) -> PodTracker:
        """Return the pod of a request's key, or another one if that pod has no free slot."""
        key, counts = ticket.key, self.counts
        if not key:
            return self._base.pick(ticket, pods, free_pods)
        own = self.tokens.get(key) if self.by_token else None
        if own is None and self.sessions:
            own = self._session(key)
        if own is not None:
            if own.in_flight < own.limit and not ticket.failed:
                counts.kept += 1
                return own
        else:
            own = self._hash.find(key)
            if own.in_flight < own.limit and not ticket.failed:
                counts.hashed += 1
                return own
        counts.overflowed += 1
        return self._hash.pick(ticket, pods, free_pods)

    def home(self, ticket: Ticket) -> PodTracker | None:
        """Return the only pod that may get a request; None if each free pod may.

        Called only if the policy ``holds``, and only while a pod is usable.
        """
        key = ticket.key
        if not key or ticket.failed:
            return None
        return self.tokens.get(key) or self._session(key) or self._hash.find(key)

    def _session(self, key: bytes) -> PodTracker | None:
        """Return the usable pod that has begun a session; None without one."""
        pod = self.sessions.get(key)
        return pod if pod is not None and pod.free_pods is not None else None

    # -- what clients get and pods send ---------------------------------------------------------

    def cookie_for(self, ticket: Ticket) -> bytes:
        """Return the token that a client should get with the response; empty if it has a good one.

        Arguments:
            ticket: a request that has a pod.
        """
        pod = ticket.pod
        if pod is None or pod.is_service or ticket.key in self.tokens:
            return b""  # what forwards to pods is none: the next activator gives the cookie
        return token_of(pod)

    def began_session(self, key: bytes, ticket: Ticket) -> None:
        """Bind a session to the pod that has begun it.

        Arguments:
            key: the session, as the pod's response names it.
            ticket: the request. If it has a key, it belongs to another session, or to this one.
        """
        if not key or ticket.key or ticket.pod is None:
            return
        sessions = self.sessions
        sessions[key] = ticket.pod
        sessions.move_to_end(key)
        if len(sessions) > MAX_SESSIONS:
            sessions.popitem(last=False)

    # -- what the throttler reports -------------------------------------------------------------

    def set_pods(self, pods: list[PodTracker]) -> None:
        self._base.set_pods(pods)
        self._hash.set_pods(pods)
        if not self.by_token:
            return
        known = {pod: token for token, pod in self.tokens.items()}
        used = [pod for pod in pods if pod.free_pods is not None]
        self.tokens = {known.get(pod) or token_of(pod): pod for pod in used}

    def changed(self, pod: PodTracker, has_free_slot: bool) -> None:
        self._base.changed(pod, has_free_slot)

    def ended(self, pod: PodTracker, ticket: Ticket, outcome: Outcome, now: float) -> bool:
        return self._base.ended(pod, ticket, outcome, now)
