"""Reads the metrics port's certificate from files, which may change at any time.

The module knows settings and files, no listener. Knative's counterpart:
knative.dev/pkg/observability's Prometheus server, which reads the files once.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from activator.settings.config import Settings
from activator.settings.tls_parameters import CLIENT_AUTH_MODES, TlsParameterError, TlsParameters
from activator.tls.certificates import CertificateError, ServerTls, require_clients, server_context

logger = logging.getLogger(__name__)


class MetricsTlsError(Exception):
    """Unusable files; the text names their settings and the reason."""


def metrics_tls(settings: Settings) -> MetricsTls | None:
    """Return the TLS side of the metrics port; None for plain HTTP.

    Raises:
        MetricsTlsError: the files of the settings are unusable.
    """
    if not settings.metrics_tls_cert:
        return None
    try:
        made = MetricsTls(settings)
    except (OSError, CertificateError, TlsParameterError) as error:
        raise MetricsTlsError(_text(settings, error)) from None
    for note in made.notes:
        logger.warning("TLS on the metrics port: %s", note)
    return made


def _text(settings: Settings, error: Exception) -> str:
    files = [settings.metrics_tls_cert, settings.metrics_tls_key]
    if settings.metrics_tls_client_ca_file:
        files.append(settings.metrics_tls_client_ca_file)
    return (
        f"TLS on the metrics port ({', '.join(files)}; see METRICS_PROMETHEUS_TLS_CERT, _KEY and "
        f"_CLIENT_CA_FILE): {error}"
    )


class MetricsTls(ServerTls):
    """Checks the files for changes in each handshake; there is one every few seconds.

    Attributes:
        notes: the result of TlsParameters.apply.
    """

    def __init__(self, settings: Settings) -> None:
        """Read the files.

        Raises:
            OSError, CertificateError, TlsParameterError: the files are unusable.
        """
        self._settings = settings
        names = (settings.metrics_tls_cert, settings.metrics_tls_key)
        ca = settings.metrics_tls_client_ca_file
        self._files = [Path(name) for name in (*names, ca) if name]
        self._parameters = TlsParameters(
            settings.metrics_tls_min_version,
            settings.metrics_tls_max_version,
            settings.metrics_tls_cipher_suites,
            settings.metrics_tls_curve_preferences,
        )
        self._seen = self._look()
        super().__init__(self._read())
        self.notes = self._parameters.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def _look(self) -> list[tuple[int, int]]:
        """Return the state of the files, which differs after a change."""
        found = [file.stat() for file in self._files]
        return [(each.st_mtime_ns, each.st_ino) for each in found]

    def _read(self) -> ssl.SSLContext:
        certificate, key, *ca = [file.read_bytes() for file in self._files]
        context = server_context(self._parameters, certificate, key)
        if ca:
            require_clients(context, CLIENT_AUTH_MODES[self._settings.metrics_tls_client_auth], *ca)
        return context

    def _choose(self, handshake: ssl.SSLObject, name: str, listener: ssl.SSLContext) -> None:
        try:
            if (now := self._look()) != self._seen:
                self._seen = now
                self.replace(self._read())
        except (OSError, CertificateError) as error:
            logger.warning(
                "TLS on the metrics port: the last files stay in force: %s",
                _text(self._settings, error),
            )
        super()._choose(handshake, name, listener)
