"""TLS versions, suites and curves: Go's names, and the server's offer to a client."""

from __future__ import annotations

import ssl

import pytest
import trustme

from activator.settings.values import (
    CIPHER_SUITES,
    CLIENT_AUTH,
    CURVES,
    MAX_VERSION,
    MIN_VERSION,
    OPENSSL_CURVES,
    TlsParameterError,
    TlsParameters,
)
from tests import handshakes


def handshake(parameters: TlsParameters, client: ssl.SSLContext) -> ssl.SSLObject:
    """Handshake in memory; return the client's end."""
    ca = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("x.example").configure_cert(server)
    parameters.apply(server)
    ca.configure_trust(client)
    return handshakes.handshake(client, server, "x.example")


def client_of(version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def test_by_default_1_3_and_nothing_older() -> None:
    assert handshake(TlsParameters(), client_of()).version() == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        handshake(TlsParameters(), client_of(ssl.TLSVersion.TLSv1_2))


def test_a_suite_of_1_2_is_the_one_that_is_used() -> None:
    suites = CIPHER_SUITES.parse("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384")
    parameters = TlsParameters("1.2", "1.2", suites)
    cipher = handshake(parameters, client_of()).cipher()
    assert cipher is not None
    assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    assert parameters.apply(client_of()) == []


def test_suites_of_1_3_alone_leave_no_1_2() -> None:
    parameters = TlsParameters("1.2", "", ("TLS_AES_128_GCM_SHA256",))
    with pytest.raises(ssl.SSLError):
        handshake(parameters, client_of(ssl.TLSVersion.TLSv1_2))
    (note,) = parameters.apply(client_of())
    assert "TLS 1.3 cannot be chosen" in note


def test_no_suite_of_the_only_version_is_an_error() -> None:
    with pytest.raises(TlsParameterError, match="no cipher suite of"):
        TlsParameters("1.2", "1.2", ("TLS_AES_128_GCM_SHA256",)).apply(client_of())


def test_a_client_without_the_curve_is_refused() -> None:
    parameters = TlsParameters(curves=CURVES.parse("P-384, P-256"))
    (note,) = parameters.apply(client_of())
    assert note == "of the curves P-384 alone is used"
    other = client_of()
    other.set_ecdh_curve("prime256v1")
    with pytest.raises(ssl.SSLError):
        handshake(parameters, other)
    assert handshake(parameters, client_of()).version() == "TLSv1.3"


def test_a_curve_that_openssl_does_not_know_is_passed_over(monkeypatch) -> None:
    monkeypatch.setitem(OPENSSL_CURVES, "X25519MLKEM768", "no")
    (note,) = TlsParameters(curves=("X25519MLKEM768", "CurveP256")).apply(client_of())
    assert note == "of the curves CurveP256 alone is used"
    with pytest.raises(TlsParameterError, match="knows no curve of X25519MLKEM768"):
        TlsParameters(curves=("X25519MLKEM768",)).apply(client_of())


class OldContext(ssl.SSLContext):
    """A context of Python 3.11.2, which knows curves of OpenSSL's older interface only."""

    def set_ecdh_curve(self, name: str, /) -> None:
        if name == "X25519":
            raise ssl.SSLError("[EC: UNKNOWN_GROUP] unknown group")
        super().set_ecdh_curve(name)


def test_a_curve_that_python_cannot_choose_is_passed_over() -> None:
    old = OldContext(ssl.PROTOCOL_TLS_CLIENT)
    (note,) = TlsParameters(curves=CURVES.parse("X25519, P-256")).apply(old)
    assert note == "of the curves P-256 alone is used"
    with pytest.raises(TlsParameterError, match="knows no curve of X25519"):
        TlsParameters(curves=("X25519",)).apply(old)


@pytest.mark.parametrize("name", ["CurveP256", "CurveP384", "CurveP521", "P-521"])
def test_each_curve_of_go_is_known(name: str) -> None:
    assert TlsParameters(curves=CURVES.parse(name)).apply(client_of()) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (MIN_VERSION, "1.1"),
        (MIN_VERSION, ""),
        (MAX_VERSION, "TLS1.3"),
        (CIPHER_SUITES, "ECDHE-RSA-AES128-GCM-SHA256"),
        (CIPHER_SUITES, "TLS_RSA_WITH_RC4_128_SHA"),
        (CURVES, "X25519,P-111"),
        (CLIENT_AUTH, "maybe"),
    ],
)
def test_unknown_names_are_refused(kind, text: str) -> None:
    with pytest.raises(ValueError, match="not accepted"):
        kind.parse(text)


def test_lists_may_have_blanks_and_empty_places_and_words_any_case() -> None:
    assert CURVES.parse(" X25519 ,, CurveP256,") == ("X25519", "CurveP256")
    assert CURVES.parse("") == ()
    assert MAX_VERSION.parse("") == ""
    assert CLIENT_AUTH.parse(" Require ") == "require"
