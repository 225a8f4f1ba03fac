"""Reads a listener's certificate from files, which may change at any time.

The module knows files, no setting and no listener.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activator.settings.tls_parameters import TlsParameters
from activator.tls.certificates import CertificateError, ServerTls, require_clients, server_context

logger = logging.getLogger(__name__)

_PARAMETERS: Final = TlsParameters(min_version="1.2")


class TlsFileError(Exception):
    """Unusable files; the text names them and the reason."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a listener.

    Attributes:
        certificate: PEM, the server's certificate first, then its chain.
        key: PEM, not encrypted.
        client_ca: PEM, the CA certificates for clients; None to accept any client.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

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
            context(certificate, key, ca[0] if ca else None)
        except (OSError, CertificateError) as error:
            raise TlsFileError(f"TLS ({self}): {error}") from None
        return certificate, key, ca[0] if ca else None


def context(certificate: bytes, key: bytes, client_ca: bytes | None = None) -> ssl.SSLContext:
    """Return the context of a listener.

    Arguments:
        certificate, key, client_ca: PEM, as in ``TlsFiles``.

    Raises:
        CertificateError: they cannot be used.
    """
    made = server_context(_PARAMETERS, certificate, key)
    if client_ca is not None:
        require_clients(made, ssl.CERT_REQUIRED, client_ca)
    return made


class FileTls(ServerTls):
    """A listener's context that checks the files for changes in each handshake.

    Arguments:
        files: of the listener.
    """

    def __init__(self, files: TlsFiles) -> None:
        """Read the files.

        Raises:
            TlsFileError: they cannot be used.
        """
        self._files = files
        try:
            self._seen = files.look()
        except OSError as error:
            raise TlsFileError(f"TLS ({files}): {error}") from None
        super().__init__(context(*files.read()))

    def _choose(self, handshake: ssl.SSLObject, name: str, listener: ssl.SSLContext) -> None:
        try:
            if (now := self._files.look()) != self._seen:
                self._seen = now
                self.replace(context(*self._files.read()))
        except (OSError, TlsFileError) as error:
            logger.warning("external metrics: the last certificate stays in force: %s", error)
        super()._choose(handshake, name, listener)
