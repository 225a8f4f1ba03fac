"""PEM → what a handshake needs: a certificate to present, certificates to trust, each replaceable.

A private key is never written to a disk: ssl takes files alone, so it is given one that is memory
and is gone after the call. Knows no Secret, no setting and no connection.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterable, Iterator
from typing import NoReturn

from activator.settings.tls_parameters import TlsParameters
from activator.tls.negotiated import HTTP1

_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----"
)
_BEGIN_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


class CertificateError(ValueError):
    """PEM that cannot be used; the text is a clause that says why, and holds nothing of a key."""


def read_certificates(pem: bytes) -> frozenset[str]:
    """Return the certificates in a PEM text, each by itself; what stands between them is ignored.

    Raises:
        CertificateError: there is none, or one that cannot be read.
    """
    blocks = _CERTIFICATE.findall(pem)
    if not blocks or len(blocks) != pem.count(_BEGIN_CERTIFICATE):
        raise CertificateError("it holds a broken certificate" if blocks else _nothing(pem))
    found = frozenset("\n".join(block.decode().split("\r\n")) + "\n" for block in blocks)
    try:
        trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), found)
    except ssl.SSLError as error:
        raise CertificateError(f"it holds a broken certificate ({reason(error)})") from None
    return found


def _nothing(pem: bytes) -> str:
    return "it holds a broken certificate" if _BEGIN_CERTIFICATE in pem else "it holds no PEM"


def trust(context: ssl.SSLContext, certificates: Iterable[str]) -> None:
    """Have a context trust these. None may be broken."""
    if pem := "".join(certificates):
        context.load_verify_locations(cadata=pem)


def server_context(
    parameters: TlsParameters, certificate: bytes, key: bytes, alpn: Iterable[str] = (HTTP1,)
) -> ssl.SSLContext:
    """Return a context for a listener.

    Arguments:
        certificate: PEM, the server's own first, then those that lead to its root.
        key: PEM, not encrypted.
        alpn: the protocols that are spoken, the most wanted first.

    Raises:
        CertificateError: they cannot be used, alone or together.
        TlsParameterError: OpenSSL cannot bring the parameters about.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    parameters.apply(context)
    # A handshake that begins anew on an open connection is none of HTTP/2 (RFC 9113 section 9.2.1).
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(alpn)
    read_certificates(certificate)
    if not _PRIVATE_KEY.search(key):
        raise CertificateError("the key is no PEM")
    try:
        with _file(certificate + b"\n" + key) as path:
            context.load_cert_chain(path, password=_ask_nobody)
    except ssl.SSLError as error:
        raise CertificateError(
            f"the key is broken, or is not that of the certificate ({reason(error)})"
        ) from None
    return context


def _ask_nobody() -> NoReturn:
    """OpenSSL would ask on the terminal."""
    raise CertificateError("the key is encrypted")


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[str]:
    """A file with these bytes, which nobody else can read, for as long as it is needed."""
    if not hasattr(os, "memfd_create"):  # not Linux: a laptop
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            yield file.name
        return
    fd = os.memfd_create("certificate", os.MFD_CLOEXEC)
    with open(fd, "wb", buffering=0) as file:
        file.write(data)
        yield f"/proc/self/fd/{fd}"


def reason(error: ssl.SSLError) -> str:
    """Return what went wrong, in OpenSSL's words and without its numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.rstrip(".")
    return (error.reason or str(error)).lower().replace("_", " ")


def require_clients(context: ssl.SSLContext, mode: ssl.VerifyMode, roots: bytes) -> None:
    """Have a listener's context check certificates of clients.

    Arguments:
        mode: whether they have to show one.
        roots: PEM, by which they are checked.

    Raises:
        CertificateError: these are no certificates.
    """
    context.verify_mode = mode
    trust(context, sorted(read_certificates(roots)))


class ServerTls:
    """A listener's context whose certificate may be replaced while it listens.

    New handshakes get the new one; connections that are open stay.

    Attributes:
        context: for the listener.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self._current = context
        context.sni_callback = self._choose

    def replace(self, context: ssl.SSLContext) -> None:
        """Present another certificate from now on."""
        self._current = context

    def _choose(self, handshake: ssl.SSLObject, name: str, listener: ssl.SSLContext) -> None:
        """Called by OpenSSL in each handshake, also where the client names no host.

        The whole context is replaced: one into which a second certificate is loaded keeps the
        first, if the kinds of their keys differ.
        """
        handshake.context = self._current
