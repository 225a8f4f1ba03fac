"""Encrypts connections to pods of plain Services, and verifies no certificate, as kubelet does.

Nothing in Kubernetes gives such pods a certificate that the activator could verify.
"""

from __future__ import annotations

import ssl
from functools import cached_property

from activator.tls.negotiated import HTTP1, HTTP2


class UnverifiedTls:
    """Encrypts without verification; the same interface as internal_encryption.PodTls.

    Attributes:
        server_name: empty: the activator knows only the address of a pod.
    """

    server_name = ""

    @cached_property
    def context(self) -> ssl.SSLContext:
        """The context for new HTTP/1.1 connections."""
        return _context(HTTP1)

    @cached_property
    def http2_context(self) -> ssl.SSLContext:
        """The context for new HTTP/2 connections."""
        return _context(HTTP2)

    def check(self, handshake: ssl.SSLObject, namespace: str) -> str:
        """Accept any certificate; see PodTls."""
        return ""


def _context(protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context
