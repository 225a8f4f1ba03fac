"""Reads the results of a TLS handshake: its protocol (ALPN), and whether it is safe for HTTP/2.

The module knows only the names of HTTP versions (RFC 7301 section 6).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Final

HTTP1: Final = "http/1.1"
HTTP2: Final = "h2"

#: Suites of TLS 1.2, by OpenSSL's names, that are not on the list of RFC 9113 appendix A. They have
#: forward secrecy and authenticated encryption. All suites of TLS 1.3 have both.
_ADEQUATE: Final = re.compile(r"(ECDHE|DHE)-.*(GCM|CHACHA20|CCM)")


def protocol(transport: asyncio.BaseTransport) -> str:
    """Return the protocol of a connection over TLS; empty if a side did not use ALPN."""
    return transport.get_extra_info("ssl_object").selected_alpn_protocol() or ""


def is_adequate(transport: asyncio.BaseTransport) -> bool:
    """Return whether a connection over TLS is safe enough for HTTP/2 (RFC 9113 section 9.2.2)."""
    handshake: ssl.SSLObject = transport.get_extra_info("ssl_object")
    name, version, _ = handshake.cipher() or ("", "", 0)
    return version == "TLSv1.3" or _ADEQUATE.match(name) is not None
