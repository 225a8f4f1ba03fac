"""Which protocol a handshake agreed on, and whether its suite is allowed for HTTP/2."""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

import pytest

from activator.tls.negotiated import is_adequate, protocol


class Handshake:
    """The TLS data that a transport reports."""

    def __init__(self, suite: str = "", version: str = "TLSv1.2", chosen: str | None = None):
        self._cipher = (suite, version, 128)
        self._chosen = chosen

    def get_extra_info(self, name: str) -> object:
        return {"ssl_object": self}[name]

    def cipher(self) -> tuple[str, str, int]:
        return self._cipher

    def selected_alpn_protocol(self) -> str | None:
        return self._chosen


def of(handshake: Handshake) -> asyncio.BaseTransport:
    return cast(asyncio.BaseTransport, handshake)


def test_the_protocol_is_what_was_chosen_if_any_was() -> None:
    assert protocol(of(Handshake(chosen="h2"))) == "h2"
    assert protocol(of(Handshake())) == ""


@pytest.mark.parametrize(
    ("suite", "version", "adequate"),
    [
        ("TLS_AES_128_GCM_SHA256", "TLSv1.3", True),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", True),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLSv1.2", True),
        ("DHE-RSA-AES256-GCM-SHA384", "TLSv1.2", True),
        ("ECDHE-ECDSA-AES256-SHA384", "TLSv1.2", False),
        ("ECDHE-RSA-AES128-SHA", "TLSv1.2", False),
        ("AES128-GCM-SHA256", "TLSv1.2", False),
        ("ECDH-ECDSA-AES128-GCM-SHA256", "TLSv1.2", False),
        ("ADH-AES128-GCM-SHA256", "TLSv1.2", False),
    ],
)
def test_suites(suite: str, version: str, adequate: bool) -> None:
    assert is_adequate(of(Handshake(suite, version))) is adequate


def test_every_suite_of_this_openssl_is_on_one_side() -> None:
    """RFC 9113 appendix A lists suites without an ephemeral key or without AEAD."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    for each in context.get_ciphers():
        fine = each["aead"] and each["kea"] in ("kx-ecdhe", "kx-dhe", "kx-any")
        fine = fine and each["auth"] != "auth-null"
        if each["auth"] == "auth-psk" or "psk" in each["kea"]:
            continue  # no server here has such a key
        found = is_adequate(of(Handshake(each["name"], each["protocol"])))
        assert found is fine, each
