"""The connections to one authorization server: each sends one sub-request at a time."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from activator.process.sockets import connected
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.response import Response
from activator.proxy.pods.http1 import ResponseReader
from throttler.request_policies import DENIALS, Verdict

if TYPE_CHECKING:
    from activator.authorization.authorizer import Authorizer, Check


# Sends sub-requests on one connection to an authorization server, one at a time.
#
# A malformed or too large response ends the connection. The head of a response that allows the
# request is enough to decide.

#: Most bytes of the head of a response, and of its body. Beyond them the connection closes, and the
#: client gets no body.
MOST_HEAD: Final = 32 << 10
MOST_BODY: Final = 64 << 10
#: Fields that the client does not get: by them the activator speaks to clients and to Knative.
_OWN: Final = (b"activator-", b"k-", b"knative-")
_FINAL: Final = 200
#: Seconds for a sub-request, with its wait for a connection. A request may have to end earlier.
LONGEST: Final = 2.0

UNREADY: Final = Verdict(0, error="no sub-request is possible")
BROKEN: Final = Verdict(0, error="the authorization server broke the connection")


class AuthorizationConnection(asyncio.Protocol):
    """One connection to an authorization server.

    Arguments:
        server: keeps it.

    Attributes:
        is_made: whether it was open at any time.
        check: the request on it; None while it has none.
    """

    transport: asyncio.Transport

    def __init__(self, server: ServerQueue) -> None:
        self._server = server
        self._reader = ResponseReader(MOST_HEAD)
        self._response: Response | None = None
        self._body = bytearray()
        self._reused = self._begun = self.is_made = False
        self._expiry: asyncio.TimerHandle | None = None
        self.check: Check | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.is_made = cast(asyncio.Transport, transport), True
        self._server.connections.add(self)

    def expire_in(self, seconds: float) -> None:
        """Close after so many seconds, in place of an earlier time."""
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def send(self, check: Check) -> None:
        """Send a sub-request."""
        self.expire_in(LONGEST)
        self.check, check.connection = check, self
        self._begun, self._reader.interim = False, 0
        self.transport.write(check.request)

    def data_received(self, data: bytes) -> None:
        """Read a part of a response. Bytes without a request end the connection."""
        self._begun = True
        payload: list[bytes] = []
        try:
            if self._response is None:
                self._response = self._read_head(data, payload)
            else:
                self._reader.read_body(data, payload)
        except FramingError:
            self.transport.abort()
            return
        self._body += b"".join(payload)
        if self.check is not None and self._response is not None:
            self._go_on(self.check, self._response, ended=self._reader.ended)

    def _read_head(self, data: bytes, payload: list[bytes]) -> Response | None:
        """Return the final head; None while it is incomplete."""
        response = self._reader.read_more_head(data, payload)
        while response is not None and response.status < _FINAL:
            rest, self._reader.rest = self._reader.rest, b""
            response = self._reader.read_more_head(rest, payload) if rest else None
        if self.check is None or (response is not None and len(response.block) > MOST_HEAD):
            raise FramingError("no request, or the head is too large")
        return response

    def _go_on(self, check: Check, response: Response, *, ended: bool) -> None:
        """Decide if enough of a response is there; end if all of it is there, or too much."""
        is_long = len(self._body) > MOST_BODY
        if not (ended or is_long or response.status not in DENIALS):
            return  # the client gets the body too
        verdict = _verdict(response, check.names, b"" if is_long else bytes(self._body))
        if ended or is_long:
            self.check, self._response, self._reused = None, None, True
            self._body.clear()
            if ended and self._reader.keeps:
                self._server.released(self)
            else:
                self.transport.abort()
        self._server.authorizer.decide(check, verdict)

    def eof_received(self) -> None:
        """End a response that ends by the close; the transport closes itself."""
        if self.check and self._response and self._reader.ends_by_close():
            self._go_on(self.check, self._response, ended=True)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        check, self.check = self.check, None
        # A server may close an idle connection at any time. Then the request has another chance.
        self._server.closed(self, check, again=self._reused and not self._begun)


def _verdict(response: Response, names: tuple[bytes, ...], body: bytes) -> Verdict:
    verdict = Verdict(response.status)
    if verdict.allows:
        values = ((name, response.value_of(name)) for name in names)
        return replace(verdict, lines=b"".join(b"\r\n%b: %b" % each for each in values if each[1]))
    if not verdict.denies:
        return verdict
    # Without its body, a response must not describe it.
    hidden = _OWN if body else (*_OWN, b"content-")
    lines = response.block.split(b"\r\n")[1:]
    kept = (b"\r\n" + line for line in lines if not line.lower().startswith(hidden))
    return replace(verdict, lines=b"".join(kept), body=body)


def cause(error: Exception) -> Verdict:
    """Return why no connection is possible. Clients get it, so it names no address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        problem = _PROBLEMS.get(error.verify_code, "is not valid")
        return Verdict(0, error=f"the certificate of the authorization server {problem}")
    if isinstance(error, ssl.SSLError):
        return Verdict(0, error="no TLS handshake with the authorization server")
    return Verdict(0, error="the authorization server is unreachable")


#: By the X509_V_ERR codes of OpenSSL (x509_vfy.h). Its own text names the host.
_PROBLEMS: Final = {
    9: "is not valid yet",
    10: "has expired",
    **dict.fromkeys((18, 19, 20, 21), "has an unknown authority"),
    **dict.fromkeys((62, 64), "names another host"),
}


# Holds the connections to one authorization server, and the requests that wait for one of them.
#
# A request costs O(1), however many wait. A server that hangs occupies only its own connections.

#: Scheme, host and port of a server: URLs with the same ones share its limits.
Origin = tuple[str, str, int]

#: Most connections to one server, and to all servers. Each carries one sub-request. A server may
#: have as many as the others leave free.
MOST_AT_ONCE: Final = 32
MOST_CONNECTIONS: Final = 128
#: Seconds until an idle connection closes.
_IDLE: Final = 15.0


class ServerQueue:
    """The server at one address.

    Arguments:
        authorizer: has the limits of all servers, and decides.
        origin: the address.

    Attributes:
        authorizer: see above.
        bytes: of the requests without a decision.
        connections: the open ones.
    """

    def __init__(self, authorizer: Authorizer, origin: Origin) -> None:
        self.authorizer = authorizer
        self._origin = origin
        self._waiting: OrderedDict[Check, None] = OrderedDict()
        self._dialing = 0
        self._idle: list[AuthorizationConnection] = []
        self.connections: set[AuthorizationConnection] = set()
        self.bytes = 0

    def add(self, check: Check) -> None:
        """Send a sub-request as soon as a connection is free."""
        self._waiting[check] = None
        self._go_on()

    def remove(self, check: Check) -> None:
        """Forget a request. A connection that has its sub-request closes."""
        self._waiting.pop(check, None)
        if check.connection is not None and check.connection.check is check:
            check.connection.transport.abort()
        self._go_on()

    def _go_on(self) -> None:
        """Send what idle connections can carry, and open connections for the rest.

        The number of attempts grows with each that succeeds. So a server that is gone costs few,
        and its name is looked up once at a time.
        """
        waiting, authorizer = self._waiting, self.authorizer
        while waiting and self._idle:
            check, _ = waiting.popitem(last=False)
            if not authorizer.knows(check):
                self._idle.pop().send(check)
        own = len(self.connections)
        while len(waiting) > self._dialing <= own and own + self._dialing < min(
            MOST_AT_ONCE, MOST_CONNECTIONS - authorizer.connections
        ):
            self._dialing += 1
            authorizer.connections += 1
            authorizer.tasks.start(self._dial())
        if not (own or self._dialing or self.bytes):
            authorizer.servers.pop(self._origin, None)

    async def _dial(self) -> None:
        """Open a connection; if the server has no other, a failure decides about its requests."""
        scheme, host, port = self._origin
        connection, failure = AuthorizationConnection(self), UNREADY
        tls: dict[str, Any] = {}
        try:
            if scheme == "https":
                tls = {"ssl": await self.authorizer.trusted(), "server_hostname": host}
                tls |= {"ssl_handshake_timeout": LONGEST, "ssl_shutdown_timeout": LONGEST}
            failure = BROKEN
            async with asyncio.timeout(LONGEST):
                sock = await connected(host, port)
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: connection, sock=sock, **tls)
        except (OSError, ValueError) as error:
            failure = UNREADY if failure is UNREADY else cause(error)
        finally:
            self._dialing -= 1
            if not connection.is_made:
                self.authorizer.connections -= 1
        if connection in self.connections:
            self.released(connection)
            return
        while self._waiting and not self.connections:
            check, _ = self._waiting.popitem(last=False)
            self.authorizer.decide(check, failure)
        self._go_on()

    def released(self, connection: AuthorizationConnection) -> None:
        """Use a connection for the next request, or keep it for a while."""
        self._idle.append(connection)
        self._go_on()
        if connection.check is None:
            connection.expire_in(_IDLE)

    def closed(
        self, connection: AuthorizationConnection, check: Check | None, *, again: bool
    ) -> None:
        """Count a connection that has closed.

        Arguments:
            connection: the connection.
            check: the request on it; None without one.
            again: whether the request may be sent again.
        """
        self.connections.discard(connection)
        self.authorizer.connections -= 1
        if connection in self._idle:
            self._idle.remove(connection)
        if check is not None and not again:
            self.authorizer.decide(check, BROKEN)
        elif check is not None and check.owner is not None:
            self._waiting[check] = None
            self._waiting.move_to_end(check, last=False)
        self._go_on()
