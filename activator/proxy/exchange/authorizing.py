"""Decides which requests need authorization, and which fields the authorization server gets.

``activator.authorization`` sends the sub-requests. Knative has no counterpart. Sources: nginx
auth_request; Traefik ForwardAuth, for the fields X-Forwarded-Method, X-Forwarded-Host and
X-Forwarded-Uri.
"""

from __future__ import annotations

from typing import Final, Protocol

from activator.knative import control_fields
from activator.proxy.message import own_responses
from activator.proxy.message.fields import is_lookalike
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from throttler.model import RevisionID
from throttler.request_policies import Authorization, Verdict
from throttler.revision import RevisionThrottler
from throttler.ticket import Ticket

#: Fields of the client that the server does not get: the activator's own, and those about a body,
#: a condition or a range. The sub-request has no body, and the body of its response is not used. A
#: client must not choose the fields that describe its request, in any of the usual spellings.
_LEFT_OUT_PREFIXES: Final = (
    *control_fields.PREFIXES,
    *(b"activator-", b"content-", b"if-", b"x-original-"),
)
_LEFT_OUT: Final = frozenset(
    (
        *(b"range", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-method"),
        *(b"x-forwarded-uri", b"x-rewrite-url"),
    )
)
_UNDECIDED: Final = Verdict(0, error="no authorization server is configured")
_WRONG: Final = Verdict(0, error="the annotation activator.dev/auth-url has a wrong value")
#: The decision about a request that must end before the server has responded.
TOO_LATE: Final = Verdict(0, error="the authorization server did not respond in time")


class Authorized(Protocol):
    """A request that waits for a decision."""

    def decided(self, verdict: Verdict) -> None:
        """Continue, or end."""


class Authorizer(Protocol):
    """Sends requests to authorization servers (activator.authorization.authorizer)."""

    def known(
        self, revision: RevisionID, policy: Authorization, credentials: bytes, now: float
    ) -> Verdict | None:
        """Return the decision that still counts for these credentials; None without one.

        Arguments:
            revision: the revision of the request.
            policy: its authorization server.
            credentials: see ``credentials_of``.
            now: seconds.
        """

    def ask(
        self,
        owner: Authorized,
        revision: RevisionID,
        policy: Authorization,
        credentials: bytes,
        fields: list[tuple[bytes, bytes]],
        size: int,
    ) -> Verdict | None:
        """Begin a sub-request; ``owner.decided`` follows, unless it is cancelled.

        The server has 2 s. A caller whose request must end earlier cancels.

        Arguments:
            owner: the request.
            revision, policy, credentials: see ``known``.
            fields: the fields of the sub-request, by name.
            size: bytes of the request in memory while it waits.

        Returns:
            None; a decision only if no sub-request is possible. Then nothing follows.
        """

    def cancel(self, owner: Authorized) -> None:
        """Remove a request that has ended."""


def would_wait(throttler: RevisionThrottler, ticket: Ticket) -> bool:
    """Return whether a new request would be queued, or would wait for its own pod; O(1)."""
    if not throttler.has_free_slot:
        return True
    slots = throttler.slots
    return slots.holder is not None and slots.awaited(ticket) is not None


def ask(
    authorizer: Authorizer | None,
    owner: Authorized,
    throttler: RevisionThrottler,
    policy: Authorization,
    request: Request,
    client: bytes,
    size: int,
    now: float,
) -> Verdict | None:
    """Return the decision about a request if it is known; else begin a sub-request.

    Arguments:
        authorizer: sends the sub-request; None if there is none.
        owner: gets a later decision.
        throttler: of the request's revision.
        policy: the authorization server of the revision.
        request: the client's request.
        client: the client's IP address.
        size: bytes of the request in memory while it waits.
        now: seconds.

    Returns:
        The decision; None if the owner gets it later.
    """
    if authorizer is None or not policy.url:
        return _UNDECIDED if policy.url else _WRONG
    revision = throttler.revision.id
    credentials = credentials_of(request)
    verdict = authorizer.known(revision, policy, credentials, now)
    if verdict is not None:
        return verdict
    fields = fields_of(request, client)
    return authorizer.ask(owner, revision, policy, credentials, fields, size)


def refusal(verdict: Verdict, retry_after: int) -> tuple[OwnResponse, str]:
    """Return the response to a request that is not allowed, and its outcome (counters.OUTCOMES).

    Arguments:
        verdict: a decision that does not allow the request.
        retry_after: seconds.
    """
    if verdict.denies:
        return own_responses.denied(verdict.status, verdict.challenges), "denied"
    why = verdict.error or f"the authorization server responded {verdict.status}"
    return own_responses.not_authorized(why, retry_after), "not-authorized"


def credentials_of(request: Request) -> bytes:
    """Return the values of Authorization and Cookie in one text, different for different values."""
    authorization = request.value_of(b"authorization")
    return b"%d:%b%b" % (len(authorization), authorization, request.value_of(b"cookie"))


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
