"""A certificate that the scaler makes itself."""

from __future__ import annotations

import ssl
import subprocess
from typing import Any

import pytest

from activator.scale.external_metrics.self_signed import self_signed
from activator.tls.files import TlsFileError, context
from tests.handshakes import handshake


def test_the_certificate_is_valid_for_its_name() -> None:
    certificate, key = self_signed("scale.example")
    client = ssl.create_default_context(cadata=certificate.decode())
    assert handshake(client, context(certificate, key), "scale.example").getpeercert()


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
