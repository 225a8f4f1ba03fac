"""Makes TLS contexts of PEM: with a certificate to present, and with roots to trust.

A private key is never written to a disk. ssl accepts only files, so it gets a file in memory that
exists during the call. The module knows no Secret, no setting and no connection.
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
    """Unusable PEM; the text is a clause with the reason, and contains nothing of a key."""


def read_certificates(pem: bytes) -> frozenset[str]:
    """Return each certificate of a PEM text; text between certificates is ignored.

    Raises:
        CertificateError: there is no certificate, or a broken one.
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
    """Let a context trust certificates; none may be broken."""
    if pem := "".join(certificates):
        context.load_verify_locations(cadata=pem)


def server_context(
    parameters: TlsParameters, certificate: bytes, key: bytes, alpn: Iterable[str] = (HTTP1,)
) -> ssl.SSLContext:
    """Return a context for a listener.

    Arguments:
        certificate: PEM, the server's certificate first, then its chain to the root.
        key: PEM, not encrypted.
        alpn: the supported protocols, in order of preference.

    Raises:
        CertificateError: certificate or key is unusable, or they do not match.
        TlsParameterError: OpenSSL does not support the parameters.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    parameters.apply(context)
    # HTTP/2 forbids a second handshake on an open connection (RFC 9113 section 9.2.1).
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(alpn)
    read_certificates(certificate)
    if not _PRIVATE_KEY.search(key):
        raise CertificateError("the key is no PEM")
    try:
        with _file(certificate + b"\n" + key) as path:
            context.load_cert_chain(path, password=_reject_encrypted)
    except ssl.SSLError as error:
        raise CertificateError(
            f"the key is broken, or is not that of the certificate ({reason(error)})"
        ) from None
    return context


def _reject_encrypted() -> NoReturn:
    """Reject an encrypted key; without this function OpenSSL would prompt on the terminal."""
    raise CertificateError("the key is encrypted")


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[str]:
    """Make a temporary file with these bytes, which no other user can read."""
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
    """Return the reason of an error in OpenSSL's words, without its numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.rstrip(".")
    return (error.reason or str(error)).lower().replace("_", " ")


def require_clients(context: ssl.SSLContext, mode: ssl.VerifyMode, roots: bytes) -> None:
    """Let a listener's context verify certificates of clients.

    Arguments:
        mode: whether clients must have a certificate.
        roots: the trusted certificate authorities, PEM.

    Raises:
        CertificateError: ``roots`` has no usable certificates.
    """
    context.verify_mode = mode
    trust(context, sorted(read_certificates(roots)))


class ServerTls:
    """A listener's context whose certificate can be replaced while it listens.

    New handshakes get the new certificate; open connections stay open.

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
        """Set the context of a handshake. OpenSSL calls this also if the client names no host.

        The method replaces the whole context. A context with a second certificate would keep the
        first one, if the types of their keys differ.
        """
        handshake.context = self._current
