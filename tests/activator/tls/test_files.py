"""Certificates of files: their state, their changes, and unusable ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from activator.tls.certificates import FileTls, TlsFileError, TlsFiles, tls_files
from tests.activator.scale.keda.test_listener import CA, OTHER, write
from tests.handshakes import error_of


def greet(tls: FileTls, ca: trustme.CA, *, known: bool = False) -> str:
    """Handshake in memory; return the error, or nothing."""
    return error_of(tls.context, ca, CA if known else None)


def test_a_changed_certificate_is_used_by_the_next_handshake(tmp_path: Path) -> None:
    tls = FileTls(write(tmp_path))
    assert greet(tls, CA) == ""
    write(tmp_path, OTHER)
    assert greet(tls, OTHER) == ""
    assert greet(tls, CA) != ""


def test_a_broken_certificate_leaves_the_last_one_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = FileTls(write(tmp_path))
    (tmp_path / "tls.crt").write_text("broken")
    assert greet(tls, CA) == ""
    assert "the last certificate of the listener stays in force: TLS" in caplog.text
    (tmp_path / "tls.crt").unlink()
    assert greet(tls, CA) == ""


def test_clients_need_a_certificate_of_the_authority(tmp_path: Path) -> None:
    tls = FileTls(write(tmp_path, client_ca=True))
    assert greet(tls, CA, known=True) == ""
    assert greet(tls, CA) != ""


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("content", [None, "", "-----BEGIN CERTIFICATE-----"])
def test_unusable_files_are_an_error(tmp_path: Path, broken: str, content: str | None) -> None:
    files = write(tmp_path, client_ca=True)
    (tmp_path / broken).unlink() if content is None else (tmp_path / broken).write_text(content)
    with pytest.raises(TlsFileError, match=r"tls\.crt"):
        FileTls(files)


def test_the_text_names_all_files() -> None:
    assert str(TlsFiles(Path("a"), Path("b"))) == "a, b"
    assert str(TlsFiles(Path("a"), Path("b"), Path("c"))) == "a, b, c"


def test_without_a_certificate_or_a_key_there_is_no_tls() -> None:
    assert tls_files("", "", "") is tls_files("c", "", "") is tls_files("", "k", "ca") is None
    assert tls_files("c", "k", "") == TlsFiles(Path("c"), Path("k"))
    assert tls_files("c", "k", "ca", "TLS of x") == TlsFiles(
        Path("c"), Path("k"), Path("ca"), "TLS of x"
    )
