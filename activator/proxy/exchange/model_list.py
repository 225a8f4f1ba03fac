"""Follows the profile ``openai``: which requests start no pod, and the kept list of models.

Monitors poll ``/health`` and programs ``/v1/models``; neither should load a model. While no pod is
usable, the activator responds with the list of an annotation, or with the last good list of a pod.
A pod's list may differ by tenant. So only requests of the same tenant get it. Knative has no
counterpart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from activator.proxy.http2.fields import ResponseFields
from activator.proxy.message import own_responses
from activator.proxy.message.fields import tokens
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.records.entries import MOST_BYTES, KeptResponse, KeptResponses
from throttler.request_policies import RequestPolicies

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange

_MODELS: Final = b"/v1/models"
_PATHS: Final = (b"/health", _MODELS)
_METHODS: Final = (b"GET", b"HEAD")
#: Fields that name the tenant. Other fields belong to a client or a proxy, so they may differ.
_TENANT: Final = (
    *(b"host", b"x-forwarded-host", b"authorization", b"x-api-key", b"api-key"),
    *(b"openai-organization", b"openai-project"),
)
#: Fields that a list of models may vary by; a coded one is never kept.
_VARYING: Final = frozenset((*_TENANT, b"accept-encoding"))


def starts_no_pod(request: Request) -> bool:
    """Return whether a request to an OpenAI server should start no pod."""
    return request.method in _METHODS and _path(request) in _PATHS


def _path(request: Request) -> bytes:
    return request.target.partition(b"?")[0].removesuffix(b"/")


def key_of(request: Request) -> bytes:
    """Return a key that all requests of a tenant for the same list share.

    It is a hash: no secret of a client stays in memory.

    Arguments:
        request: the request.
    """
    values = (request.value_of(name) for name in _TENANT)
    return hashlib.sha256(b"\n".join((request.target, *values))).digest()


def response_to(exchange: Exchange, policies: RequestPolicies, now: float) -> OwnResponse | None:
    """Return the response to a request that should start no pod, while no pod is usable.

    With an authorization server no list is kept, because its decision may have changed. One that
    decides about each request also protects the list of the annotation.

    Arguments:
        exchange: the exchange of a request for which ``starts_no_pod``.
        policies: of its revision.
        now: seconds.

    Returns:
        The list of models; None without one.
    """
    kept, auth = exchange.entry.kept, policies.authorization
    if policies.models and not (auth and auth.always) and _is_for_list(exchange):
        common = {"object": "model", "created": 0, "owned_by": "activator"}
        data = [{"id": each, **common} for each in policies.models]  # as the OpenAI API has it
        body = json.dumps({"object": "list", "data": data}).encode("ascii")
        return own_responses.model_list(body)
    if kept is None or not _may_keep(exchange, policies):
        return None
    found = kept.get(key_of(exchange.request))
    if found is None:
        return None
    return own_responses.model_list(found.body, int(max(now - found.since, 0.0)))


def keep_response(exchange: Exchange, policies: RequestPolicies) -> None:
    """Keep the response to a request for the list of models, if it is a good one.

    Arguments:
        exchange: the exchange of a request for which ``starts_no_pod``, and that a pod will serve.
        policies: of its revision.
    """
    request = exchange.request
    if policies.models or request.method != b"GET" or not _may_keep(exchange, policies):
        return
    entry, kept = exchange.entry, exchange.entry.kept
    if kept is None:
        kept = entry.kept = KeptResponses()
    attempts = exchange.ensure_attempts()
    attempts.made = 0
    attempts.keeper = ListKeeper(kept, key_of(request), exchange.services.driver.clock)


def _may_keep(exchange: Exchange, policies: RequestPolicies) -> bool:
    """Return whether a list of models may be kept for a request, and be its response."""
    return policies.authorization is None and _is_for_list(exchange)


def _is_for_list(exchange: Exchange) -> bool:
    """Return whether a list of models may be the response to a request that starts no pod.

    Not for a proxy on the admission port, which takes 200 as the address of a pod.
    """
    if exchange.client.base.port.admission is not None:
        return False
    return _path(exchange.request) == _MODELS and not exchange.request.has_body


@final
class ListKeeper:
    """Keeps the list of models in the response to one request.

    Arguments:
        responses: the kept responses of the revision.
        key: of the request.
        clock: returns the time, seconds.
    """

    __slots__ = ("_clock", "_key", "_pieces", "_responses")

    def __init__(self, responses: KeptResponses, key: bytes, clock: Callable[[], float]) -> None:
        self._responses = responses
        self._key = key
        self._clock = clock
        self._pieces: list[bytes] | None = None  # the body so far; None: it is not kept

    def begin(self, response: Response | ResponseFields) -> None:
        """Handle the head of a pod's response, in the pod's version."""
        self._pieces = [] if _may_be_kept(response) else None

    def collect(self, payload: list[bytes], ended: bool) -> None:
        """Handle a part of the body; keep the list once it has ``ended``."""
        pieces = self._pieces
        if pieces is None:
            return
        pieces += payload
        if sum(map(len, pieces)) > MOST_BYTES:
            self._pieces = None
        elif ended:
            self._pieces = None
            body = b"".join(pieces)
            if _is_json(body):
                self._responses.put(self._key, KeptResponse(body, self._clock()))


def _may_be_kept(response: Response | ResponseFields) -> bool:
    """Return whether a response is JSON without a coding, and allows to keep it (RFC 9111)."""
    fields = _fields(response)
    kind = fields.get(b"content-type", b"").partition(b";")[0].strip(b" \t").lower()
    control = tokens(fields.get(b"cache-control", b""))
    vary = tokens(fields.get(b"vary", b""))
    return (
        response.status == 200
        and kind == b"application/json"
        and fields.get(b"content-encoding", b"identity").lower() == b"identity"
        and b"set-cookie" not in fields
        and not any(each.startswith((b"no-store", b"private")) for each in control)
        and _VARYING.issuperset(vary)
    )


def _fields(response: Response | ResponseFields) -> dict[bytes, bytes]:
    """Return the fields of a response by name in lower case."""
    if isinstance(response, ResponseFields):
        return response.fields
    fields: dict[bytes, bytes] = {}
    for line in response.block.split(b"\r\n"):
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        fields[name] = b"%b, %b" % (fields[name], value) if name in fields else value
    return fields


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True
