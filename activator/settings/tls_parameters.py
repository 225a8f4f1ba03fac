"""Maps the names of TLS versions, cipher suites and curves in settings to OpenSSL's.

The names are Go's, since existing Deployments of Knative use them. The module knows no certificate
and no socket. Knative's counterpart: knative.dev/pkg/network/tls.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from platform import python_version
from typing import Final

from activator.settings.values import Kind

CLIENT_AUTH_MODES: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "require": ssl.CERT_REQUIRED,
}
VERSIONS: Final = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

#: Suites of TLS 1.2 that Go counts as secure, with OpenSSL's names.
_SUITES: Final = {
    f"TLS_ECDHE_{auth}_WITH_{name}": f"ECDHE-{auth}-{openssl}"
    for auth in ("ECDSA", "RSA")
    for name, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}
#: Suites of TLS 1.3, which are always all on, as in Go.
_SUITES_OF_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
OPENSSL_CURVES: Final = {
    "X25519": "X25519",
    "X25519MLKEM768": "X25519MLKEM768",
    **{f"CurveP{bits}": name for bits, name in ((256, "prime256v1"), (384, "secp384r1"))},
    **{f"P-{bits}": name for bits, name in ((256, "prime256v1"), (384, "secp384r1"))},
    "CurveP521": "secp521r1",
    "P-521": "secp521r1",
}


class TlsParameterError(ValueError):
    """Parameters that this machine's OpenSSL does not support."""


@dataclass(frozen=True, slots=True)
class TlsParameters:
    """The TLS parameters that a listener accepts.

    Attributes:
        min_version: ``1.2`` or ``1.3``; max_version: likewise, or empty for the newest.
        cipher_suites: suites of TLS 1.2 by Go's names; empty means OpenSSL's list. All suites of
            TLS 1.3 are on.
        curves: by Go's names, in order of preference; empty means OpenSSL's list.
    """

    min_version: str = "1.3"
    max_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curves: tuple[str, ...] = ()

    def apply(self, context: ssl.SSLContext) -> list[str]:
        """Restrict a context to these parameters.

        Returns:
            One sentence for each parameter that OpenSSL applies differently.

        Raises:
            TlsParameterError: the context would accept no connection.
        """
        context.minimum_version = VERSIONS[self.min_version]
        if self.max_version:
            context.maximum_version = VERSIONS[self.max_version]
        return [*self._apply_suites(context), *self._apply_curves(context)]

    def _apply_suites(self, context: ssl.SSLContext) -> list[str]:
        if not self.cipher_suites:
            return []
        if older := [_SUITES[name] for name in self.cipher_suites if name in _SUITES]:
            context.set_ciphers(":".join(older))
        elif self.max_version == "1.2":
            raise TlsParameterError("no cipher suite of TLS 1.2 is named, and no other version on")
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        named = _SUITES_OF_1_3.intersection(self.cipher_suites)
        if self.max_version == "1.2" or named == _SUITES_OF_1_3:
            return []
        return ["the cipher suites of TLS 1.3 cannot be chosen: all of them are on"]

    def _apply_curves(self, context: ssl.SSLContext) -> list[str]:
        """Set the first curve that Python and OpenSSL know, as Python can set only one.

        A client without that curve is rejected: it must not get a curve that is not configured.
        """
        for name in self.curves:
            try:
                context.set_ecdh_curve(OPENSSL_CURVES[name])
            except (ValueError, ssl.SSLError):  # Python 3.11.2 cannot choose X25519: SSLError
                continue
            return [f"of the curves {name} alone is used"] if len(self.curves) > 1 else []
        if self.curves:
            raise TlsParameterError(
                f"Python {python_version()} with {ssl.OPENSSL_VERSION} knows no curve of "
                f"{', '.join(self.curves)}"
            )
        return []


def _names(known: frozenset[str]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(name for part in text.split(",") if (name := part.strip()))
        for name in names:
            if name not in known:
                raise ValueError(f"unknown name: {name!r}")
        return names

    return parse


def _version(text: str) -> str:
    if text not in VERSIONS:
        raise ValueError(f"unknown version: {text!r}")
    return text


def _client_auth(text: str) -> str:
    word = text.strip().lower()
    if word not in CLIENT_AUTH_MODES:
        raise ValueError(f"unknown word: {text!r}")
    return word


MIN_VERSION: Final = Kind(_version, "1.2 or 1.3", "VERSION")
MAX_VERSION: Final = Kind(
    lambda text: _version(text) if text else "",
    "1.2 or 1.3, or nothing, which means the newest",
    "VERSION",
)
CLIENT_AUTH: Final = Kind(_client_auth, "none, optional or require", "none|optional|require")
CIPHER_SUITES: Final = Kind(
    _names(_SUITES_OF_1_3 | frozenset(_SUITES)),
    "a list of " + ", ".join(sorted((*_SUITES, *_SUITES_OF_1_3))),
    "NAME,…",
)
CURVES: Final = Kind(
    _names(frozenset(OPENSSL_CURVES)),
    "a list of " + ", ".join(sorted(OPENSSL_CURVES)),
    "NAME,…",
)
