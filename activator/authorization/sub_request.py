"""Sends one sub-request to an authorization server, and reads the decision from its response.

Only this module knows httpx, which it imports when the first revision needs it. Source of the
syntax of WWW-Authenticate: RFC 9110 section 11.6.1.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final

from throttler.request_policies import Verdict

if TYPE_CHECKING:  # imported for the first sub-request
    import httpx

#: Most connections to all servers, and most of them that stay open while they are idle.
MOST_CONNECTIONS: Final = 128
_MOST_IDLE: Final = 32
#: Bytes of a response's body that are read, so that the connection serves again; beyond them it
#: is closed. The body itself is not used.
_MOST_BODY: Final = 64 << 10
#: Bytes of all WWW-Authenticate fields that a client gets; beyond them it gets none.
_MOST_CHALLENGES: Final = 4 << 10


def open_client(seconds: float) -> httpx.AsyncClient:
    """Return a client for sub-requests. It takes a tenth of a second: call it in a thread.

    It follows no redirect, keeps no cookie, and uses no proxy or password of the environment. TLS
    servers are verified by the certificates of SSL_CERT_FILE or SSL_CERT_DIR, else by those of
    certifi.

    Arguments:
        seconds: the longest time for a connect, and for each read or write.
    """
    import httpx

    limits = httpx.Limits(
        max_connections=MOST_CONNECTIONS, max_keepalive_connections=_MOST_IDLE, keepalive_expiry=15
    )
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(limits=limits),
        timeout=seconds,
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


async def send(
    client: httpx.AsyncClient,
    url: str,
    fields: list[tuple[bytes, bytes]],
    on_verdict: Callable[[Verdict], None],
) -> None:
    """Send a sub-request; report the decision as soon as the head of the response is there.

    Arguments:
        client: see ``open_client``.
        url: of the server.
        fields: the fields of the sub-request, by name.
        on_verdict: gets the decision.
    """
    import httpx

    try:
        response = await _begin(client, url, fields)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        on_verdict(Verdict(0, error=_cause(error)))
        return
    try:
        on_verdict(Verdict(response.status_code, _challenges(response)))
        await _read_bounded(response)
    except httpx.HTTPError:
        pass  # the decision is known, and the connection is closed
    finally:
        await response.aclose()


async def _begin(
    client: httpx.AsyncClient, url: str, fields: list[tuple[bytes, bytes]]
) -> httpx.Response:
    """Send the sub-request; return the response, whose body is not read.

    A server may close an idle connection at any time. So the client tries again once.
    """
    import httpx

    # Not by the client's methods, which add fields of their own.
    request = httpx.Request("GET", url, headers=fields)
    try:
        return await client.send(request, stream=True)
    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        return await client.send(request, stream=True)


async def _read_bounded(response: httpx.Response) -> None:
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > _MOST_BODY:
            return


def _challenges(response: httpx.Response) -> bytes:
    """Return the challenges of a 401 or 403 as lines, each preceded by its CRLF."""
    if response.status_code not in (401, 403):
        return b""
    lines = b"".join(
        b"\r\nWWW-Authenticate: " + value
        for name, value in response.headers.raw
        if name.lower() == b"www-authenticate" and _is_printable(value)
    )
    return lines if len(lines) <= _MOST_CHALLENGES else b""


def _is_printable(value: bytes) -> bool:
    """Return whether a value has no control characters, which could end its line."""
    return all(byte >= 0x20 and byte != 0x7F for byte in value)


def _cause(error: Exception) -> str:
    """Return the cause of a failure. Clients get it, so it names no address."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return LATE
    if isinstance(error, httpx.ConnectError):
        return _cause_of_tls(error) or "the authorization server is unreachable"
    return "the authorization server broke the connection"


def _cause_of_tls(error: BaseException) -> str:
    """Return why the TLS handshake failed; empty if it did not fail."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, ssl.SSLCertVerificationError):
            problem = _PROBLEMS.get(at.verify_code, "is not valid")
            return f"the certificate of the authorization server {problem}"
        if isinstance(at, ssl.SSLError):
            return "no TLS handshake with the authorization server"
        at = at.__cause__ or at.__context__
    return ""


_UNKNOWN_AUTHORITY: Final = "has an unknown authority"
_OTHER_HOST: Final = "names another host"
#: By the X509_V_ERR codes of OpenSSL (x509_vfy.h). Its own text names the host.
_PROBLEMS: Final = {
    9: "is not valid yet",
    10: "has expired",
    18: _UNKNOWN_AUTHORITY,
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    62: _OTHER_HOST,
    64: _OTHER_HOST,
}

#: The cause of a decision that did not come in time.
LATE: Final = "the authorization server did not respond in time"
