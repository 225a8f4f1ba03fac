"""Decides which requests need authorization, and which fields the authorization server gets.

``activator.authorization`` sends the sub-requests. Knative has no counterpart. Sources: nginx
auth_request; Traefik ForwardAuth, for the fields X-Forwarded-Method, X-Forwarded-Host and
X-Forwarded-Uri.
"""

from __future__ import annotations

from typing import Final, Protocol

from activator.knative import words
from activator.proxy.message.fields import is_lookalike
from activator.proxy.message.request import Request
from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict
from throttler.revision import RevisionThrottler
from throttler.ticket import Ticket

#: Fields of the client that the server does not get: the activator's own, and those about a body,
#: a condition or a range. The sub-request has no body, and the body of its response is not used. A
#: client must not choose the fields that describe its request, in any of the usual spellings.
_LEFT_OUT_PREFIXES: Final = (
    *words.PREFIXES,
    *(b"activator-", b"content-", b"if-", b"x-original-"),
)
_LEFT_OUT: Final = frozenset(
    (
        *(b"range", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-method"),
        *(b"x-forwarded-uri", b"x-rewrite-url"),
    )
)
UNDECIDED: Final = Verdict(0, error="no authorization server is configured")
WRONG: Final = Verdict(0, error="an annotation activator.dev/auth-* has a wrong value")
#: The decision about a request whose server has not responded in time.
TOO_LATE: Final = Verdict(0, error="the authorization server did not respond in time")


class Authorized(Protocol):
    """A request that waits for a decision."""

    def decided(self, verdict: Verdict) -> None:
        """Continue, or end."""


class Authorizer(Protocol):
    """Sends requests to authorization servers (activator.authorization.authorizer)."""

    def ask(
        self,
        owner: Authorized,
        revision: RevisionID,
        policy: Authorization,
        fields: list[tuple[bytes, bytes]],
        size: int,
    ) -> Verdict | None:
        """Return a decision that counts for this request too; else begin a sub-request.

        The server has 2 s. A caller whose request must end earlier cancels.

        Arguments:
            owner: the request.
            revision: the revision of the request.
            policy: its authorization server.
            fields: the fields of the sub-request, by name.
            size: bytes of the request in memory while it waits.

        Returns:
            A decision, also if no sub-request is possible. None if ``owner.decided`` follows,
            unless the request is cancelled.
        """

    def cancel(self, owner: Authorized) -> None:
        """Remove a request that has ended."""


def would_wait(throttler: RevisionThrottler, ticket: Ticket) -> bool:
    """Return whether a new request would be queued, or would wait for its own pod; O(1)."""
    if not throttler.has_free_slot:
        return True
    slots = throttler.slots
    return slots.holder is not None and slots.awaited(ticket) is not None


def fields_of(request: Request, client: bytes) -> list[tuple[bytes, bytes]]:
    """Return the fields of the sub-request for a request of a client.

    Arguments:
        request: the client's request. Its hop-by-hop fields are not among its ``lines``.
        client: the client's IP address.
    """
    fields: list[tuple[bytes, bytes]] = []
    for line in request.lines.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if _is_forwarded(name.lower()):
            fields.append((name, value.strip(b" \t")))
    before = request.fields.get(b"x-forwarded-for", b"").strip(b" \t")
    fields.append((b"X-Forwarded-For", before + b", " + client if before else client))
    fields.append((b"X-Forwarded-Method", request.method))
    fields.append((b"X-Forwarded-Host", request.host))
    fields.append((b"X-Forwarded-Uri", request.target))
    return fields


def _is_forwarded(name: bytes) -> bool:
    if name in _LEFT_OUT or is_lookalike(name):
        return False
    for prefix in _LEFT_OUT_PREFIXES:  # noqa: SIM110 # see wake_rules._is_under
        if name.startswith(prefix):
            return False
    return True
