"""What a handshake has agreed on: the protocol behind it (ALPN), and how safe it is.

Knows no HTTP beyond the names (RFC 7301 section 6).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Final

HTTP1: Final = "http/1.1"
HTTP2: Final = "h2"

#: Suites of TLS 1.2 by OpenSSL's names that are not on the list of RFC 9113 appendix A: keys that
#: nobody has kept, and encryption that also vouches for what it encrypts. TLS 1.3 has no others.
_ADEQUATE: Final = re.compile(r"(ECDHE|DHE)-.*(GCM|CHACHA20|CCM)")


def protocol(transport: asyncio.BaseTransport) -> str:
    """Return the protocol that both sides of a connection over TLS have agreed on; nothing where
    one of them did not ask."""
    return transport.get_extra_info("ssl_object").selected_alpn_protocol() or ""


def is_adequate(transport: asyncio.BaseTransport) -> bool:
    """Whether a connection over TLS is safe enough for HTTP/2 (RFC 9113 section 9.2.2)."""
    handshake: ssl.SSLObject = transport.get_extra_info("ssl_object")
    name, version, _ = handshake.cipher() or ("", "", 0)
    return version == "TLSv1.3" or _ADEQUATE.match(name) is not None
