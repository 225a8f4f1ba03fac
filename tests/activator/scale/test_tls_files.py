"""Certificates of files: their state, their changes, and unusable ones."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from activator.scale.tls_files import FileTls, TlsFileError, TlsFiles
from tests.activator.scale.keda.test_listener import CA, OTHER, write


def greet(tls: FileTls, ca: trustme.CA, *, known: bool = False) -> str:
    """Handshake in memory; return the error, or nothing."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.configure_trust(client)
    if known:
        CA.issue_cert("client").configure_cert(client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        tls.context.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                return error.reason or "?"
    return ""


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
    assert "the last certificate stays in force: TLS" in caplog.text
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
