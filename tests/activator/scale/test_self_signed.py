"""A certificate that the scaler makes itself."""

from __future__ import annotations

import ssl
import subprocess
from typing import Any

import pytest

from activator.scale.self_signed import self_signed
from activator.scale.tls_files import TlsFileError, context


def test_the_certificate_is_valid_for_its_name() -> None:
    certificate, key = self_signed("scale.example")
    client = ssl.create_default_context(cadata=certificate.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="scale.example"),
        context(certificate, key).wrap_bio(to_server, to_client, server_side=True),
    ]
    done = 0
    for end in ends * 4:
        try:
            end.do_handshake()
            done += 1
        except ssl.SSLWantReadError:
            pass
    assert done >= 2


def test_each_certificate_has_a_key_of_its_own() -> None:
    assert self_signed("a.example")[1] != self_signed("a.example")[1]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(), "no program openssl"),
        (subprocess.CalledProcessError(1, "openssl"), "openssl made no certificate"),
        (subprocess.TimeoutExpired("openssl", 20), "openssl made no certificate"),
    ],
)
def test_a_failure_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(TlsFileError, match=text):
        self_signed("a.example")
