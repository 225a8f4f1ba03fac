"""PEM → contexts, and the errors of PEM that cannot be used."""

from __future__ import annotations

import os
import ssl

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from activator.settings.tls_parameters import TlsParameters
from activator.tls.certificates import (
    CertificateError,
    read_certificates,
    require_clients,
    server_context,
    trust,
)

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
    context = server_context(TlsParameters(), CERTIFICATE, KEY)
    with pytest.raises(CertificateError, match="no PEM"):
        require_clients(context, ssl.CERT_REQUIRED, b"junk")
    require_clients(context, ssl.CERT_REQUIRED, CA.cert_pem.bytes())
    assert context.verify_mode is ssl.CERT_REQUIRED
