"""The metrics port over TLS, with files that may change, and clients with certificates."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trustme

from activator.settings.config import load
from activator.tls.certificates import FileTls, TlsFileError, metrics_tls
from tests.handshakes import error_of

CA = trustme.CA()


def write(folder: Path, ca: trustme.CA = CA) -> dict[str, str]:
    """Write certificate and key; return the flags that name them."""
    leaf = ca.issue_cert("localhost")
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    for name, data in (("tls.crt", chain), ("tls.key", leaf.private_key_pem.bytes())):
        new = folder / f"{name}.new"
        new.write_bytes(data)
        new.replace(folder / name)
    return {
        "metrics_tls_cert": str(folder / "tls.crt"),
        "metrics_tls_key": str(folder / "tls.key"),
    }


def made(folder: Path, **flags: str) -> FileTls | None:
    return metrics_tls(load("local", {"manifests": str(folder), **flags}, {}))


def greet(tls: FileTls, ca: trustme.CA = CA, *, known: bool = False) -> str:
    """Handshake in memory; return the error, or nothing."""
    return error_of(tls.context, ca, CA if known else None)


def test_it_is_plain_unless_asked_for(tmp_path: Path) -> None:
    assert made(tmp_path) is None


def test_replaced_files_count_from_the_next_handshake_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = made(tmp_path, **write(tmp_path))
    assert tls is not None
    assert greet(tls) == ""
    other = trustme.CA()
    write(tmp_path, other)
    assert greet(tls, other) == ""
    assert greet(tls) == "CERTIFICATE_VERIFY_FAILED"
    (tmp_path / "tls.crt").write_text("junk")
    os.utime(tmp_path / "tls.crt", (1, 1))
    assert greet(tls, other) == ""
    assert "the last certificate of the listener stays in force" in caplog.text
    (tmp_path / "tls.crt").unlink()
    assert greet(tls, other) == ""


@pytest.mark.parametrize(
    ("auth", "known", "error"),
    [
        ("optional", False, ""),
        ("optional", True, ""),
        ("require", True, ""),
        ("require", False, "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
    ],
)
def test_clients_show_a_certificate_where_they_must(
    tmp_path: Path, auth: str, known: bool, error: str
) -> None:
    (tmp_path / "ca.crt").write_bytes(CA.cert_pem.bytes())
    flags = write(tmp_path)
    flags["metrics_tls_client_ca_file"] = str(tmp_path / "ca.crt")
    tls = made(tmp_path, metrics_tls_client_auth=auth, **flags)
    assert tls is not None
    assert greet(tls, known=known) == error


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_files_that_cannot_be_used_end_the_start_and_are_named(tmp_path: Path, name: str) -> None:
    flags = write(tmp_path)
    (tmp_path / name).write_text("junk")
    with pytest.raises(TlsFileError, match=rf"TLS on the metrics port, by .*{name}.*no PEM"):
        made(tmp_path, **flags)
    (tmp_path / name).unlink()
    with pytest.raises(TlsFileError, match="No such file"):
        made(tmp_path, **flags)
