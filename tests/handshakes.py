"""TLS handshakes in memory, between two contexts."""

from __future__ import annotations

import contextlib
import ssl

import trustme


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Return the client's end after a handshake.

    Arguments:
        host: the name in the server's certificate.

    Raises:
        ssl.SSLError: an end refuses the other one.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[0]


def error_of(server: ssl.SSLContext, ca: trustme.CA, own: trustme.CA | None = None) -> str:
    """Return the error of a handshake with ``localhost``; empty for none.

    Arguments:
        ca: signs the server certificates that the client trusts.
        own: signs the client's certificate; None for a client without one.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.configure_trust(client)
    if own is not None:
        own.issue_cert("client").configure_cert(client)
    try:
        handshake(client, server, "localhost")
    except ssl.SSLError as error:
        return error.reason or "?"
    return ""
