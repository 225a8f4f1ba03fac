"""Makes a certificate for a port whose clients do not verify it, with the program ``openssl``.

Python makes no certificates, and a package for it would be in each image for this one use.
"""

from __future__ import annotations

import subprocess
from typing import Final

from activator.tls.files import TlsFileError

_DAYS: Final = 3650
_TIMEOUT: Final = 20.0
_CONFIG: Final = b"[req]\ndistinguished_name=names\n[names]\n"
_COMMAND: Final = (
    *("openssl", "req", "-x509", "-config", "/dev/stdin", "-nodes", "-days", str(_DAYS)),
    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    *("-keyout", "/dev/stdout", "-out", "/dev/stdout"),
)
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


def self_signed(host: str) -> tuple[bytes, bytes]:
    """Return a new certificate and its key, PEM; no file holds them.

    Arguments:
        host: the name in the certificate.

    Raises:
        TlsFileError: this machine has no ``openssl``, or it fails.
    """
    names = ("-subj", "/CN=activator-scale", "-addext", f"subjectAltName=DNS:{host}")
    try:
        ended = subprocess.run(
            [*_COMMAND, *names], input=_CONFIG, capture_output=True, timeout=_TIMEOUT, check=True
        )
    except FileNotFoundError:
        raise TlsFileError("no program openssl to make a certificate: give files") from None
    except subprocess.SubprocessError as error:
        raise TlsFileError(f"openssl made no certificate: {error}") from error
    key, begin, certificate = ended.stdout.partition(_BEGIN)
    return begin + certificate, key
