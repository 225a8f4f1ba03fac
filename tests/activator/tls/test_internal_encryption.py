"""The Secret and the trust bundles: which of them are in force, and errors of the others."""

from __future__ import annotations

import logging

import pytest
import trustme

from activator.settings.tls_parameters import TlsParameters
from activator.tls.internal_encryption import InternalTls, InternalTlsError

CA, OTHER = trustme.CA(), trustme.CA()


def pair(ca: trustme.CA = CA) -> dict[str, bytes]:
    leaf = ca.issue_cert("data-plane.knative.dev")
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    return {"tls.crt": chain, "tls.key": leaf.private_key_pem.bytes()}


def root(ca: trustme.CA) -> str:
    return ca.cert_pem.bytes().decode()


class Watched(InternalTls):
    """Count how often a root was withdrawn."""

    def __init__(self) -> None:
        super().__init__(TlsParameters(), "knative-serving")
        self.withdrawn = 0
        self.on_withdrawn = self._count

    def _count(self) -> None:
        self.withdrawn += 1

    @property
    def roots(self) -> int:
        return self.pods.context.cert_store_stats()["x509"]


def started(ca: str = "", *bundles: str) -> Watched:
    tls = Watched()
    tls.set_secret({**pair(), "ca.crt": ca.encode()})
    tls.set_bundles(bundles)
    tls.start()
    return tls


def test_a_missing_secret_is_reported_with_its_place_and_how_to_make_it() -> None:
    with pytest.raises(InternalTlsError) as caught:
        Watched().start()
    text = str(caught.value)
    assert "Secret knative-serving/routing-serving-certs is missing" in text
    assert "kubectl create secret generic routing-serving-certs -n knative-serving " in text
    assert "--from-file=ca.crt=" in text


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"tls.crt": b"x"}, "it has no tls.key"),
        ({"tls.key": b"x"}, "it has no tls.crt"),
        ({"tls.crt": b"x", "tls.key": b"x"}, "it holds no PEM"),
    ],
)
def test_a_secret_that_cannot_be_used_ends_the_start(data: dict[str, bytes], why: str) -> None:
    tls = Watched()
    tls.set_secret(data)
    with pytest.raises(InternalTlsError, match=rf"routing-serving-certs cannot be used: {why}"):
        tls.start()


def test_roots_are_those_of_the_secret_and_of_all_bundles() -> None:
    third = trustme.CA()
    assert started(root(CA), root(OTHER), root(OTHER) + root(third)).roots == 3
    assert started("", root(OTHER)).roots == 1


def test_no_root_at_all_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert started().roots == 0
    assert "no pod can be verified" in caplog.text


def test_a_root_that_is_added_withdraws_nothing_and_one_that_goes_is_withdrawn_once() -> None:
    tls = started(root(CA))
    tls.set_bundles((root(OTHER),))
    assert (tls.roots, tls.withdrawn) == (2, 0)
    tls.set_secret({**pair(OTHER), "ca.crt": root(OTHER).encode()})
    assert (tls.roots, tls.withdrawn) == (1, 1)
    tls.set_bundles(())
    assert (tls.roots, tls.withdrawn) == (1, 1)


def test_what_stays_the_same_keeps_the_context() -> None:
    tls = started(root(CA), root(OTHER))
    before = tls.pods.context
    tls.set_bundles((root(CA) + root(OTHER),))
    assert tls.pods.context is before


def test_a_bundle_that_cannot_be_read_withdraws_nothing_and_the_others_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tls = started(root(CA), root(OTHER))
    third = trustme.CA()
    tls.set_bundles((root(OTHER)[:100], root(third)))
    assert (tls.roots, tls.withdrawn) == (3, 0)
    assert "a trust bundle is ignored, and earlier roots stay trusted" in caplog.text
    tls.set_bundles((root(third),))
    assert (tls.roots, tls.withdrawn) == (2, 1)


def test_a_secret_that_becomes_wrong_or_goes_leaves_the_last_certificate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tls = started(root(CA))
    current = tls.server._current
    with caplog.at_level(logging.WARNING):
        tls.set_secret({**pair(), "tls.key": b"nonsense", "ca.crt": root(CA).encode()})
        assert "the last certificate stays in force: the key is no PEM" in caplog.text
        caplog.clear()
        tls.set_secret({})
        assert "was deleted; its last certificates stay in use" in caplog.text
    assert tls.server._current is current
    assert (tls.roots, tls.withdrawn) == (1, 0)
    tls.set_secret({**pair(), "ca.crt": root(CA).encode()})
    assert tls.server._current is not current
