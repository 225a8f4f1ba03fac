"""PEM → contexts, and the errors of PEM that cannot be used."""

from __future__ import annotations

import asyncio
import os
import ssl
from datetime import UTC, datetime
from math import inf
from typing import cast

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from activator.settings.values import TlsParameters
from activator.tls.certificates import (
    CertificateError,
    Certificates,
    ServerTls,
    expiry_warning,
    is_adequate,
    protocol,
    read_certificates,
    server_context,
    trust,
)
from tests.rows import in_one_test

CA = trustme.CA()
LEAF = CA.issue_cert("x.example")
CERTIFICATE = b"".join(blob.bytes() for blob in LEAF.cert_chain_pems)
KEY = LEAF.private_key_pem.bytes()
OTHER = trustme.CA().issue_cert("x.example", key_type=trustme.KeyType.RSA)


def encrypted(key: bytes) -> bytes:
    loaded = serialization.load_pem_private_key(key, None)
    form = serialization.PrivateFormat.PKCS8
    secret = serialization.BestAvailableEncryption(b"secret")
    return loaded.private_bytes(serialization.Encoding.PEM, form, secret)


def test_text_between_certificates_is_ignored_and_each_is_read_once() -> None:
    root = CA.cert_pem.bytes()
    bundle = "# Főtanúsítvány\n".encode() + root + b"\nsubject=x\r\n" + root.replace(b"\n", b"\r\n")
    found = read_certificates(bundle)
    assert len(found) == 1
    trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), found)


@pytest.mark.parametrize(
    ("pem", "why"),
    [
        (b"", "no PEM"),
        (b"junk", "no PEM"),
        (b"\xff\xfe\x00", "no PEM"),
        (KEY, "no PEM"),
        (CERTIFICATE[:200], "broken certificate"),
        (CERTIFICATE + CERTIFICATE[:200], "broken certificate"),
        (CERTIFICATE.replace(b"MII", b"MIJ", 1), "broken certificate"),
    ],
    ids=["empty", "junk", "binary", "key", "half", "one-and-a-half", "changed"],
)
def test_an_invalid_certificate_is_reported(pem: bytes, why: str) -> None:
    with pytest.raises(CertificateError, match=why):
        read_certificates(pem)


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        (b"", KEY, "no PEM"),
        (CERTIFICATE, b"", "the key is no PEM"),
        (CERTIFICATE, CERTIFICATE, "the key is no PEM"),
        (CERTIFICATE, KEY[:60] + b"\n-----END PRIVATE KEY-----\n", "the key is broken"),
        (CERTIFICATE, OTHER.private_key_pem.bytes(), "not that of the certificate"),
        (CERTIFICATE, encrypted(KEY), "the key is encrypted"),
    ],
    ids=["no certificate", "no key", "no key but PEM", "broken key", "other key", "encrypted"],
)
def test_a_pair_that_cannot_be_used_is_reported_and_leaves_no_file(
    certificate: bytes, key: bytes, why: str
) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(CertificateError, match=why) as caught:
        server_context(TlsParameters(), certificate, key)
    assert "BEGIN" not in str(caught.value)
    assert os.listdir("/proc/self/fd") == before


def test_a_good_pair_is_a_context_and_leaves_no_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    context = server_context(TlsParameters(), CERTIFICATE, KEY)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert os.listdir("/proc/self/fd") == before
    assert list(tmp_path.iterdir()) == []


def test_without_memory_files_a_private_one_is_used_and_removed(tmp_path, monkeypatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    server_context(TlsParameters(), CERTIFICATE, KEY)
    assert list(tmp_path.iterdir()) == []


def test_roots_of_clients_must_be_certificates() -> None:
    with pytest.raises(CertificateError, match="no PEM"):
        server_context(TlsParameters(), CERTIFICATE, KEY, client_ca=b"junk")
    context = server_context(TlsParameters(), CERTIFICATE, KEY, client_ca=CA.cert_pem.bytes())
    assert context.verify_mode is ssl.CERT_REQUIRED


# -- expiry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("year", [2030, 2049, 2050, 2999])
def test_a_listener_knows_when_its_certificate_expires_and_not_its_issuer(year: int) -> None:
    """Certificates have years from 2050 on in another form (RFC 5280 section 4.1.2.5)."""
    at = datetime(year, 2, 3, 4, 5, 6, tzinfo=UTC)
    leaf = trustme.CA().issue_cert("x.example", not_after=at)
    chain = b"text\r\n" + b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    tls = ServerTls(server_context(TlsParameters(), chain, leaf.private_key_pem.bytes()))
    assert tls.expires == at.timestamp()
    tls.replace(server_context(TlsParameters(), CERTIFICATE, KEY))
    assert tls.expires != at.timestamp()


def test_a_certificate_has_a_warning_from_thirty_days_on() -> None:
    at = datetime(2026, 12, 31, 12, tzinfo=UTC).timestamp()
    day = 86_400
    rows = [
        (30.1, ""),
        (29.9, "expires on 2026-12-31 12:00 UTC, in 30 days: renew it"),
        (0.2, "expires on 2026-12-31 12:00 UTC, in 0 days: renew it"),
        (
            -2,
            "expired on 2026-12-31 12:00 UTC, 2 days ago: clients that verify it refuse it, and "
            "the activator still presents it",
        ),
    ]
    for left, text in rows:
        what = "the certificate of the listener https "
        assert expiry_warning("https", at, at - left * day) == (text and what + text)
    assert expiry_warning("https", inf, at) == ""


def test_a_warning_is_logged_once_a_day_and_for_a_new_certificate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    at = datetime(2030, 2, 3, 4, 5, 6, tzinfo=UTC)
    leaf = trustme.CA().issue_cert("x.example", not_after=at)
    chain = leaf.cert_chain_pems[0].bytes()
    certificates, end, day = Certificates(), at.timestamp(), 86_400
    certificates.log(end)
    certificates["https"] = ServerTls(
        server_context(TlsParameters(), chain, leaf.private_key_pem.bytes())
    )
    assert certificates.expiry == {"https": end}
    for left in (31, 30, 29.1, 29.1, 28.1, -1.1, -1.1):
        certificates.log(end - left * day)
    assert [each.levelname for each in caplog.records] == ["WARNING"] * 3 + ["ERROR"]
    assert caplog.messages[-1].startswith("the certificate of the listener https expired on 2030-")
    certificates["https"].replace(server_context(TlsParameters(), CERTIFICATE, KEY))
    caplog.clear()
    certificates.log(certificates.expiry["https"] - 1)
    assert len(caplog.records) == 1


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


@in_one_test(
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
