"""Gets decisions of authorization servers, remembers them, and bounds the requests that wait.

Each server has a ``ServerQueue`` and connections, and each connection sends one sub-request at a
time. A request costs O(1), however many wait. A server that hangs occupies only its own
connections.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import quote, urlsplit

from activator.process.logs import Repeats
from activator.process.sockets import connected
from activator.process.timers import Tasks
from activator.proxy.exchange.permission import TOO_LATE
from activator.proxy.message.fields import folded
from activator.proxy.message.grammar import FramingError
from activator.proxy.message.response import Response
from activator.proxy.pods.http1 import ResponseReader
from throttler.model import RevisionID
from throttler.request_policies import DENIALS, Authorization, Verdict

if TYPE_CHECKING:
    from activator.runtime import Exchange


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


# Remembers the decisions of authorization servers, by a hash of the fields that the server got.
#
# Pure: the time is an argument. No field is kept.

#: Most decisions in memory, and most bytes of each. Invented fields can remove others. These then
#: cost a sub-request.
MOST_VERDICTS: Final = 2048
MOST_VERDICT_BYTES: Final = 4 << 10
#: The denials that may count for other requests. A redirect may name the URL of one request.
_KEPT: Final = (401, 403)


class VerdictKey(NamedTuple):
    """The requests that share a decision.

    Attributes:
        revision: their revision. Its server may decide differently for another one.
        policy: the server, and all that annotations say about it.
        fields: a hash of the fields that have to be equal.
    """

    revision: RevisionID
    policy: Authorization
    fields: bytes


def key_of(
    revision: RevisionID, policy: Authorization, fields: Iterable[tuple[bytes, bytes]]
) -> VerdictKey:
    """Return the key of a request.

    Arguments:
        revision: its revision.
        policy: the server of the revision, and the names of the fields that count.
        fields: the fields that the server gets, by name. A name counts in each spelling that a
            server may read as the same.
    """
    digest, names = sha256(), policy.cache_key
    for name, value in fields:
        if not names or folded(name) in names:
            name = name.lower()
            digest.update(b"%d:%b%d:%b" % (len(name), name, len(value), value))
    return VerdictKey(revision, policy, digest.digest())


class Verdicts:
    """The decisions of all authorization servers; at the limit, a new one replaces the oldest."""

    def __init__(self) -> None:
        self._verdicts: dict[VerdictKey, tuple[float, Verdict]] = {}

    def put(self, key: VerdictKey, verdict: Verdict, now: float) -> None:
        """Remember a decision, unless it is for one request only; ``now`` in seconds.

        A cookie is for one client, also if others are equal in the fields that count.
        """
        has_cookie = b"\r\nset-cookie:" in verdict.lines.lower()
        may_count = verdict.allows or (verdict.status in _KEPT and not has_cookie)
        if not may_count or len(verdict.lines) + len(verdict.body) > MOST_VERDICT_BYTES:
            return
        self._verdicts.pop(key, None)
        if len(self._verdicts) >= MOST_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[key] = (now, verdict)

    def get(self, key: VerdictKey, now: float) -> Verdict | None:
        """Return a decision that still counts; None without one.

        Arguments:
            key: of the request.
            now: seconds.
        """
        found = self._verdicts.get(key)
        if found is None:
            return None
        since, verdict = found
        if now - since < key.policy.cache_seconds:
            return verdict
        del self._verdicts[key]
        return None


logger = logging.getLogger(__name__)


#: Most bytes of the requests that wait for decisions, and the least that each counts. They are in
#: no queue, so no limit of a queue counts them. A server may have as many bytes as the others leave
#: free: alone one half. So servers that hang always leave room for others.
MOST_BYTES: Final = 64 << 20
LEAST_BYTES: Final = 16 << 10
#: The keys of ``Authorizer.counts``.
RESULTS: Final = ("allowed", "denied", "failed", "cached")
_PORTS: Final = {"http": 80, "https": 443}
_FULL: Final = Verdict(0, error="too many requests wait for authorization")
_ENDED: Final = Verdict(0, error="the sub-request has failed")
#: Characters of a URL that go out as they are (RFC 3986 section 2).
_OF_URLS: Final = "%:/?#[]@!$&'()*+,;="


@dataclass(eq=False, slots=True)
class Check:
    """One request that waits for a decision.

    Attributes:
        owner: the request; None once it has its decision, or has ended.
        server: decides.
        key: of the requests for which the decision counts too; None for none.
        names: of the fields of the server's response that the pod gets.
        request: the sub-request.
        size: bytes that it counts.
        timer: ends the wait.
        connection: that has its sub-request; None before.
    """

    owner: Exchange | None
    server: ServerQueue
    key: VerdictKey | None
    names: tuple[bytes, ...]
    request: bytes
    size: int
    timer: asyncio.TimerHandle = field(init=False)
    connection: AuthorizationConnection | None = None


class Authorizer:
    """Gets decisions of authorization servers.

    Arguments:
        clock: seconds, monotonic.

    Attributes:
        connections: to all servers, also those that open; servers: those that have any, or
            requests; tasks: open connections.
        counts: sub-requests that ended, and uses of cached decisions, by result: ``allowed``,
            ``denied``, ``failed``, ``cached``.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._verdicts = Verdicts()
        self._checks: dict[Exchange, Check] = {}
        self._bytes = 0
        self._repeats = Repeats()
        self._trusted: asyncio.Future[ssl.SSLContext] | None = None
        self.connections = 0
        self.servers: dict[Origin, ServerQueue] = {}
        self.tasks = Tasks()
        self.counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a decision."""
        return len(self._checks)

    def ask(
        self,
        owner: Exchange,
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
        key = key_of(revision, policy, fields) if policy.cache_seconds else None
        verdict = self._known(key)
        if verdict is not None:
            return verdict
        origin, start = _parts(policy.url)
        server = self.servers.get(origin) or ServerQueue(self, origin)
        size = max(size, LEAST_BYTES)
        if size > MOST_BYTES - self._bytes - server.bytes:
            return _FULL
        self.servers[origin] = server
        request = b"".join((start, *(b"%b: %b\r\n" % each for each in fields), b"\r\n"))
        check = Check(owner, server, key, policy.response_headers, request, size)
        check.timer = asyncio.get_running_loop().call_later(LONGEST, self._end, check, TOO_LATE)
        self._checks[owner] = check
        self._bytes += size
        server.bytes += size
        server.add(check)
        return None

    def cancel(self, owner: Exchange) -> None:
        """Remove a request that has ended."""
        check = self._checks.get(owner)
        if check is not None:
            self._forget(check)
            check.server.remove(check)

    async def close(self) -> None:
        """End all sub-requests, and close the connections."""
        await self.tasks.close()
        for check in list(self._checks.values()):
            self._end(check, _ENDED)
        for connection in [each for one in self.servers.values() for each in one.connections]:
            connection.transport.abort()

    # -- the servers call --------------------------------------------------------------------------

    def knows(self, check: Check) -> bool:
        """Decide about a request if its decision is known meanwhile; return whether it is."""
        verdict = self._known(check.key)
        if verdict is not None:
            self._forget(check).decided(verdict)
        return verdict is not None

    def decide(self, check: Check, verdict: Verdict) -> None:
        """Count, remember and report a decision; the first one counts."""
        if check.owner is None:
            return
        result = "allowed" if verdict.allows else "denied" if verdict.denies else "failed"
        self.counts[result] += 1
        if check.key is not None and result != "failed":
            self._verdicts.put(check.key, verdict, self._clock())
        self._forget(check).decided(verdict)

    async def trusted(self) -> ssl.SSLContext:
        """Return the check of certificates.

        Raises:
            OSError: the authorities cannot be read. The next call tries again.
        """
        trusted = self._trusted
        if trusted is None or (trusted.done() and trusted.exception()):
            # It takes a tenth of a second.
            trusted = self._trusted = asyncio.ensure_future(asyncio.to_thread(_trusted))
        try:
            return await asyncio.shield(trusted)
        except OSError as error:
            if self._repeats.admit("no authorities", self._clock()) is not None:
                logger.warning("no sub-request for authorization is possible: %s", error)
            raise

    # -- own ---------------------------------------------------------------------------------------

    def _known(self, key: VerdictKey | None) -> Verdict | None:
        verdict = None if key is None else self._verdicts.get(key, self._clock())
        if verdict is not None:
            self.counts["cached"] += 1
        return verdict

    def _end(self, check: Check, verdict: Verdict) -> None:
        self.decide(check, verdict)
        check.server.remove(check)

    def _forget(self, check: Check) -> Exchange:
        """Subtract and return a request that has its decision, or has ended."""
        owner, check.owner = check.owner, None
        assert owner is not None
        check.timer.cancel()
        del self._checks[owner]
        self._bytes -= check.size
        check.server.bytes -= check.size
        return owner


@lru_cache(maxsize=1024)
def _parts(url: str) -> tuple[Origin, bytes]:
    """Return the address of a server, and the start of each sub-request with its URL."""
    parts = urlsplit(url)
    target = quote(f"{parts.path or '/'}{parts.query and '?'}{parts.query}", safe=_OF_URLS)
    start = f"GET {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    origin = parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme]
    return origin, start.encode("ascii")


def _trusted() -> ssl.SSLContext:
    """Return the check of certificates by SSL_CERT_FILE or SSL_CERT_DIR, else by certifi.

    Raises:
        OSError: the files cannot be read, or have no certificates.
    """
    import certifi  # only a server with TLS needs it

    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    file = file or (None if folder else certifi.where())
    return ssl.create_default_context(cafile=file, capath=folder)
