"""Makes TLS contexts of PEM, and reads a listener's certificate from files, which may change.

A private key is never written to a disk. ssl accepts only files, so it gets a file in memory that
exists during the call. The module knows no Secret, no listener and no connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, NoReturn

from activator.settings.config import Settings
from activator.settings.values import CLIENT_AUTH_MODES, TlsParameterError, TlsParameters

#: Names of protocols in a handshake (RFC 7301 section 6).
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


logger = logging.getLogger(__name__)

_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----"
)
_BEGIN_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"
#: The validity of a certificate in DER (RFC 5280 section 4.1.2.5); the group is its end.
_VALIDITY = re.compile(rb"(?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d|\x18\x0f)(\d{12,14})Z")
#: The identifier of subjectAltName, and whether it is critical.
_ALT_NAMES: Final = re.compile(rb"\x06\x03\x55\x1d\x11(?:\x01\x01\xff)?(?=\x04)")
#: The tag of a host name among them.
_DNS_NAME: Final = 0x82
_DAY: Final = 86_400
#: Days before its end from which a certificate has a warning.
_WARNED_DAYS: Final = 30
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


class CertificateError(ValueError):
    """Unusable PEM; the text is a clause with the reason, and contains nothing of a key."""


def read_certificates(pem: bytes) -> frozenset[str]:
    """Return each certificate of a PEM text; text between certificates is ignored.

    Raises:
        CertificateError: there is no certificate, or a broken one.
    """
    blocks, count = _CERTIFICATE.findall(pem), pem.count(_BEGIN_CERTIFICATE)
    if not count or len(blocks) != count:
        raise CertificateError("it holds a broken certificate" if count else "it holds no PEM")
    found = frozenset("\n".join(block.decode().split("\r\n")) + "\n" for block in blocks)
    try:
        trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), found)
    except ssl.SSLError as error:
        raise CertificateError(f"it holds a broken certificate ({reason(error)})") from None
    return found


def expires_at(pem: bytes) -> float:
    """Return when the first certificate of a PEM text expires, seconds since 1970.

    The ssl module has this of no certificate of its own side. A time of unknown form is infinite.
    """
    found = _VALIDITY.search(ssl.PEM_cert_to_DER_cert(_CERTIFICATE.findall(pem)[0].decode()))
    if found is None:
        return inf
    text = found[1].decode()
    year = "%y" if len(text) == len("YYMMDDhhmmss") else "%Y"
    return datetime.strptime(f"{text}+0000", f"{year}%m%d%H%M%S%z").timestamp()


def dns_names(pem: bytes) -> frozenset[str]:
    """Return the host names of the first certificate of a PEM text, in lower case.

    They are in its subjectAltName (RFC 5280 section 4.2.1.6), which the ssl module reads only of
    peers. Other kinds of names are left out: a client names only hosts.
    """
    der = ssl.PEM_cert_to_DER_cert(_CERTIFICATE.findall(pem)[0].decode())
    found = _ALT_NAMES.search(der)
    if found is None:
        return frozenset()
    at = _content(der, found.end())[0]  # of the octet string, where a sequence begins
    at, end = _content(der, at)
    names = set[str]()
    while at < end:
        start, after = _content(der, at)
        if der[at] == _DNS_NAME:
            names.add(der[start:after].decode("latin-1").lower())
        at = after
    return frozenset(names)


def _content(der: bytes, at: int) -> tuple[int, int]:
    """Return where the content of a value in DER begins and ends."""
    length, start = der[at + 1], at + 2
    if length > 0x7F:  # the length of the length
        start, many = start + length - 0x80, length - 0x80
        length = int.from_bytes(der[start - many : start])
    return start, start + length


def expiry_warning(listener: str, expires: float, now: float) -> str:
    """Return that a certificate has expired, or will soon; empty if neither.

    The text changes once a day.

    Arguments:
        listener: the name of the listener that presents it.
        expires, now: seconds since 1970.
    """
    days = (expires - now) / _DAY
    if days > _WARNED_DAYS:
        return ""
    what = f"the certificate of the listener {listener}"
    at = f"{datetime.fromtimestamp(expires, UTC):%Y-%m-%d %H:%M} UTC"
    if days > 0:
        return f"{what} expires on {at}, in {days:.0f} days: renew it"
    return (
        f"{what} expired on {at}, {-days:.0f} days ago: clients that verify it refuse it, and the "
        f"activator still presents it"
    )


def trust(context: ssl.SSLContext, certificates: Iterable[str]) -> None:
    """Let a context trust certificates; none may be broken."""
    if pem := "".join(certificates):
        context.load_verify_locations(cadata=pem)


def server_context(
    parameters: TlsParameters,
    certificate: bytes,
    key: bytes,
    alpn: Iterable[str] = (HTTP1,),
    client_ca: bytes | None = None,
    mode: ssl.VerifyMode = ssl.CERT_REQUIRED,
) -> ServerContext:
    """Return a context for a listener.

    Arguments:
        certificate: PEM, the server's certificate first, then its chain to the root.
        key: PEM, not encrypted.
        alpn: the supported protocols, in order of preference.
        client_ca: PEM, the trusted certificate authorities for clients; None to accept any client.
        mode: whether clients must have a certificate, if there is a ``client_ca``.

    Raises:
        CertificateError: certificate, key or ``client_ca`` is unusable, or the first two do not
            match.
        TlsParameterError: OpenSSL does not support the parameters.
    """
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
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
    context.expires = expires_at(certificate)
    if client_ca is not None:
        context.verify_mode = mode
        trust(context, sorted(read_certificates(client_ca)))
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


class ServerContext(ssl.SSLContext):
    """A listener's context; ``expires``: when its certificate does, seconds since 1970."""

    expires: float


class ServerTls:
    """A listener's context whose certificate can be replaced while it listens.

    New handshakes get the new certificate; open connections stay open.

    Attributes:
        context: for the listener.
        current: for new handshakes.
    """

    def __init__(self, context: ServerContext) -> None:
        self.context = context
        self.current = context
        context.sni_callback = self._choose

    @property
    def expires(self) -> float:
        """When the certificate in force expires, seconds since 1970."""
        return self.current.expires

    def replace(self, context: ServerContext) -> None:
        """Present another certificate from now on."""
        self.current = context

    def _choose(self, handshake: ssl.SSLObject, name: str, listener: ssl.SSLContext) -> None:
        """Set the context of a handshake. OpenSSL calls this also if the client names no host.

        The method replaces the whole context. A context with a second certificate would keep the
        first one, if the types of their keys differ.
        """
        handshake.context = self.current


class Certificates(dict[str, ServerTls]):
    """The certificates of all listeners, by the name of the listener."""

    _logged: Collection[str] = ()

    @property
    def expiry(self) -> Mapping[str, float]:
        """When each certificate expires, seconds since 1970."""
        return {listener: each.expires for listener, each in self.items()}

    def warnings(self, now: float) -> list[str]:
        """Return which certificates have expired, or will soon, as sentences.

        Arguments:
            now: seconds since 1970.
        """
        found = (expiry_warning(listener, at, now) for listener, at in self.expiry.items())
        return list(filter(None, found))

    def log(self, now: float) -> None:
        """Log each warning once: a new text comes with a new certificate, and once a day."""
        texts = self.warnings(now)
        for text in texts:
            if text not in self._logged:
                logger.log(logging.ERROR if " expired " in text else logging.WARNING, text)
        self._logged = texts


#: Returns the context of a listener; see ``server_context``.
context: Final = partial(server_context, TlsParameters(min_version="1.2"))


class TlsFileError(Exception):
    """Unusable files; the text names them and the reason."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a listener.

    Attributes:
        certificate: PEM, the server's certificate first, then its chain.
        key: PEM, not encrypted.
        client_ca: PEM, the CA certificates for clients; None to accept any client.
        what: begins the text of an error.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None
    what: str = "TLS"

    def __str__(self) -> str:
        return ", ".join(map(str, self._all()))

    def _all(self) -> list[Path]:
        return [path for path in (self.certificate, self.key, self.client_ca) if path is not None]

    def look(self) -> tuple[tuple[int, int], ...]:
        """Return the state of the files, which differs after a change.

        Raises:
            OSError: a file cannot be read.
        """
        found = [file.stat() for file in self._all()]
        return tuple((each.st_mtime_ns, each.st_ino) for each in found)

    def read(self) -> tuple[bytes, bytes, bytes | None]:
        """Return certificate, key and CA certificates, if they can be used.

        Raises:
            TlsFileError: they cannot.
        """
        try:
            certificate, key, *ca = (file.read_bytes() for file in self._all())
            context(certificate, key, client_ca=ca[0] if ca else None)
        except (OSError, CertificateError) as error:
            raise self.error(error) from None
        return certificate, key, ca[0] if ca else None

    def error(self, why: Exception) -> TlsFileError:
        """Return the error for these files."""
        missing = isinstance(why, FileNotFoundError)
        remedy = "; mount the Secret there, or correct the path" if missing else ""
        return TlsFileError(f"{self.what} ({self}): {why}{remedy}")


def tls_files(certificate: str, key: str, client_ca: str, what: str = "TLS") -> TlsFiles | None:
    """Return the files with these names; None without a certificate or a key."""
    if not certificate or not key:
        return None
    return TlsFiles(Path(certificate), Path(key), Path(client_ca) if client_ca else None, what)


class FileTls(ServerTls):
    """A listener's context that checks the files for changes in each handshake.

    Arguments:
        files: of the listener.
        make: returns the context, as ``context``.
    """

    def __init__(self, files: TlsFiles, make: Callable[..., ServerContext] = context) -> None:
        """Read the files.

        Raises:
            TlsFileError: they cannot be used.
        """
        self._files = files
        self._make = make
        try:
            self._seen = files.look()
            super().__init__(self._load())
        except (OSError, TlsParameterError) as error:
            raise files.error(error) from None

    def _load(self) -> ServerContext:
        certificate, key, client_ca = self._files.read()
        return self._make(certificate, key, client_ca=client_ca)

    def _choose(self, handshake: ssl.SSLObject, name: str, listener: ssl.SSLContext) -> None:
        try:
            if (now := self._files.look()) != self._seen:
                self._seen = now
                self.replace(self._load())
        except (OSError, TlsFileError) as error:
            logger.warning("the last certificate of the listener stays in force: %s", error)
        super()._choose(handshake, name, listener)


_WHAT: Final = "TLS on the metrics port, by METRICS_PROMETHEUS_TLS_CERT, _KEY and _CLIENT_CA_FILE"


def metrics_tls(settings: Settings) -> FileTls | None:
    """Return the TLS side of the metrics port; None for plain HTTP.

    Knative's counterpart: the Prometheus server of knative.dev/pkg/observability, which reads the
    files once.

    Raises:
        TlsFileError: the files of the settings are unusable.
    """
    names = settings.metrics_tls_cert, settings.metrics_tls_key, settings.metrics_tls_client_ca_file
    if (files := tls_files(*names, _WHAT)) is None:
        return None
    parameters = TlsParameters(
        settings.metrics_tls_min_version,
        settings.metrics_tls_max_version,
        settings.metrics_tls_cipher_suites,
        settings.metrics_tls_curve_preferences,
    )
    mode = CLIENT_AUTH_MODES[settings.metrics_tls_client_auth]
    made = FileTls(files, partial(server_context, parameters, mode=mode))
    for note in parameters.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)):
        logger.warning("TLS on the metrics port: %s", note)
    return made
