"""Reads a listener's certificate from files, which may change at any time.

The metrics port has such files by its settings. The module knows no listener.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from activator.settings.config import Settings
from activator.settings.values import CLIENT_AUTH_MODES, TlsParameterError, TlsParameters
from activator.tls.certificates import CertificateError, ServerContext, ServerTls, server_context

logger = logging.getLogger(__name__)

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
        return TlsFileError(f"{self.what} ({self}): {why}")


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
