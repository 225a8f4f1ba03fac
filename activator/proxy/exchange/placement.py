"""Reads the parts of a request by which it gets its pod and its place in the queue.

Everything here comes from clients. A forged or repeated key costs its sender the better pod, and
no other client anything. A class counts only if the revision trusts its clients. A forged flow gets
its sender a queue of its own, so the ingress should set the header. Sources: RFC 6265 (cookies),
RFC 7239 (its section 1 describes X-Forwarded-For).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, final

from activator.proxy.message.fields import PRIORITY
from activator.proxy.message.request import Request
from throttler.model import FlowKey, HashKey, KeyKind, QueueOrder
from throttler.rendezvous import TOKEN_BYTES, Sticky
from throttler.request_policies import HIGH, LOW, NORMAL

if TYPE_CHECKING:
    from activator.proxy.exchange.exchange import Exchange
    from activator.proxy.http2.fields import ResponseFields
    from activator.proxy.message.response import Response

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: The cookie that names a pod by its token.
COOKIE: Final = b"activator-pod"
#: A cookie pair with a well-formed token. Fields in HTTP/1 that repeat are joined by commas.
_PAIR: Final = re.compile(
    rb"(?:^|[;,])[ \t]*%b=([0-9a-f]{%d})(?=$|[ \t;,])" % (COOKIE, 2 * TOKEN_BYTES)
)
_BEGIN: Final = COOKIE + b"="
_LINE_BEGIN: Final = b"cookie:"
_LENGTH: Final = len(_BEGIN) + 2 * TOKEN_BYTES
#: The bytes that stand before the name of the cookie, and behind a token.
_BEFORE: Final = (b" ", b";", b"", b":", b",", b"\t")
_BEHIND: Final = (b"", b"\r", b";", b" ", b",")
#: Bytes of the longest key that is kept as it is.
_LONGEST_KEY: Final = 64
#: Addresses in the memo; a full memo is cleared. Characters of the longest text that is parsed.
_MEMO: Final = 4096
_LONGEST_ADDRESS: Final = 64
_FORWARDED: Final = b"x-forwarded-for"
COOKIE_KIND, _HEADER, _CLIENT_IP = KeyKind.COOKIE, KeyKind.HEADER, KeyKind.CLIENT_IP
_CLASSES: Final[dict[bytes, int]] = {b"high": HIGH, b"normal": NORMAL, b"low": LOW}


@final
class ClientAddresses:
    """Finds the addresses of clients, also behind proxies.

    Arguments:
        trusted: the networks of peers whose header fields about clients and Services count.
    """

    __slots__ = ("_memo", "_trusted")

    def __init__(self, trusted: Collection[Network] = ()) -> None:
        self._trusted: Final = tuple(trusted)
        # Each address as clients or proxies write it: its one form, and whether it is trusted.
        self._memo: dict[bytes, tuple[bytes, bool]] = {}

    def client_of(self, request: Request, peer: bytes) -> bytes:
        """Return the address of a request's client, in one form for each address.

        That is the peer's address. If the peer is a trusted proxy, it is the last address of
        X-Forwarded-For, which that proxy has appended. A value that is no address does not count.

        Arguments:
            request: the client's request.
            peer: the IP address at the other end of the connection.
        """
        address, is_trusted = self._find(peer)
        if not is_trusted:
            return address
        last = request.value_of(_FORWARDED).rpartition(b",")[2].strip(b" \t")
        return self._find(last)[0] or address

    def trusts(self, peer: bytes) -> bool:
        """Return whether the IP address at the other end of a connection is trusted."""
        return self._find(peer)[1]

    def _find(self, text: bytes) -> tuple[bytes, bool]:
        found = self._memo.get(text)
        if found is None:
            if len(text) > _LONGEST_ADDRESS:
                return b"", False
            if len(self._memo) >= _MEMO:
                self._memo.clear()
            found = self._memo[text] = self._parse(text)
        return found

    def _parse(self, text: bytes) -> tuple[bytes, bool]:
        try:
            address = ipaddress.ip_address(_without_port(text.decode("ascii")))
        except ValueError:
            return b"", False
        if address.version == 6 and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        is_trusted = any(address in network for network in self._trusted)
        return str(address).encode(), is_trusted


def key_of(
    request: Request,
    key: HashKey,
    sticky: Sticky | None,
    peer: bytes,
    clients: ClientAddresses,
) -> bytes:
    """Return the key of a request; empty if it does not have that part.

    Queued requests keep their keys in memory, so a digest replaces a long value.

    Arguments:
        request: the client's request.
        key: the part of the request.
        sticky: the revision's sticky policy; None without one.
        peer: the IP address at the other end of the connection.
        clients: finds the addresses of clients.
    """
    kind = key.kind
    if kind is _HEADER:
        value = request.value_of(key.header)
        return value if len(value) <= _LONGEST_KEY else bounded(value)
    if kind is COOKIE_KIND and sticky is not None:
        return _token_of(request, sticky)
    if kind is _CLIENT_IP:
        return clients.client_of(request, peer)
    return bounded(request.target.partition(b"?")[0])


def _token_of(request: Request, sticky: Sticky) -> bytes:
    """Return the token in the activator's cookie; empty without one.

    Most requests have no such cookie, or one that names a usable pod. Both are found by one search.
    """
    around = request.around_cookies()
    at = around.find(_BEGIN)
    if at < 0:
        return b""
    end = at + _LENGTH
    token = around[at + len(_BEGIN) : end]  # ordered: the token has a length
    if token in sticky.tokens and around[end : end + 1] in _BEHIND:
        before = around[at - 1 : at] if at else b""  # ordered: at is not 0
        line = around.rfind(b"\n", 0, at) + 1  # 0: these are no lines, but the value itself
        name = around[line : line + len(_LINE_BEGIN)]  # ordered: the name has a length
        if before in _BEFORE and (not line or name.lower() == _LINE_BEGIN):
            return token
    return token_in(request.value_of(b"cookie"))


def token_in(cookies: bytes) -> bytes:
    """Return the first well-formed token of the activator's cookie; empty without one.

    Arguments:
        cookies: the value of Cookie.
    """
    found = _PAIR.search(cookies)
    return b"" if found is None else found[1]


def bounded(value: bytes) -> bytes:
    """Return a value, or the digest of a long one."""
    return value if len(value) <= _LONGEST_KEY else blake2b(value, digest_size=32).digest()


def is_forwarded_https(request: Request) -> bool:
    """Return whether a proxy reports that the client's connection to it is encrypted."""
    scheme = request.value_of(b"x-forwarded-proto").partition(b",")[0]
    return scheme.strip(b" \t").lower() == b"https"


def cookie_line(token: bytes, *, secure: bool) -> bytes:
    """Return the field line that sets the cookie (RFC 6265 section 4.1), preceded by its CRLF.

    Arguments:
        token: of the pod.
        secure: whether the client's connection is encrypted, so that it must stay so.
    """
    also = b"; Secure" if secure else b""
    return b"\r\nSet-Cookie: %b=%b; Path=/; HttpOnly; SameSite=Lax%b" % (COOKIE, token, also)


def _without_port(text: str) -> str:
    """Return an address without brackets and port; some proxies append both."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, colon, port = text.rpartition(":")
    return host if colon and ":" not in host and port.isdigit() else text


def set_place(exchange: Exchange, order: QueueOrder, request: Request) -> None:
    """Set class and flow of a request that has no pod yet.

    Arguments:
        exchange: its exchange.
        order: of the queue of its revision.
        request: the client's request.
    """
    ticket = exchange.ticket
    if order.has_classes:
        ticket.priority = priority_of(request, order)
    if order.fair_by is not None:
        peer, clients = exchange.client.base.address, exchange.services.clients
        ticket.flow = flow_of(request, order.fair_by, peer, clients)


def priority_of(request: Request, order: QueueOrder) -> int:
    """Return the class of a request, see throttler.request_policies.

    A field that is absent, repeated with another value, or unknown means the class of the revision.
    """
    if not order.trusts_header or PRIORITY not in request.fields:
        return order.priority
    value = request.fields[PRIORITY].strip(b" \t").lower()
    return _CLASSES.get(value, order.priority)


def flow_of(request: Request, key: FlowKey, peer: bytes, clients: ClientAddresses) -> bytes:
    """Return the name of a request's flow; empty if it does not have the header field.

    Arguments:
        request: the client's request.
        key: the part of the request.
        peer: the IP address at the other end of the connection.
        clients: finds the addresses of clients.
    """
    if key.header:
        return bounded(request.value_of(key.header))
    return clients.client_of(request, peer)


def stick(exchange: Exchange, sticky: Sticky, response: Response | ResponseFields) -> None:
    """Let the client's next requests come to this pod: by a cookie, or by the session's name.

    Arguments:
        exchange: the exchange whose pod has responded.
        sticky: the policy of the revision.
        response: the pod's response.
    """
    key, ticket = exchange.entry.throttler.key, exchange.ticket
    if key is None:
        return
    if key.kind is COOKIE_KIND:
        if token := sticky.cookie_for(ticket):
            secure = exchange.client.base.secure or is_forwarded_https(exchange.request)
            exchange.added_lines += cookie_line(token, secure=secure)
    elif key.header and not ticket.key:
        sticky.began_session(bounded(response.value_of(key.header)), ticket)
