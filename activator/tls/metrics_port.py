"""Reads the metrics port's certificate from the files of its settings.

The module knows settings and files, no listener. Knative's counterpart:
knative.dev/pkg/observability's Prometheus server, which reads the files once.
"""

from __future__ import annotations

import logging
import ssl
from functools import partial
from typing import Final

from activator.settings.config import Settings
from activator.settings.tls_parameters import CLIENT_AUTH_MODES, TlsParameters
from activator.tls.certificates import server_context
from activator.tls.files import FileTls, tls_files

logger = logging.getLogger(__name__)

_WHAT: Final = "TLS on the metrics port, by METRICS_PROMETHEUS_TLS_CERT, _KEY and _CLIENT_CA_FILE"


def metrics_tls(settings: Settings) -> FileTls | None:
    """Return the TLS side of the metrics port; None for plain HTTP.

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
