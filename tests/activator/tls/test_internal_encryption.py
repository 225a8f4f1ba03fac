"""The Secret and the trust bundles: which of them are in force, and errors of the others."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import pytest
import trustme

from activator.settings.values import TlsParameters
from activator.tls.certificates import HTTP1, HTTP2
from activator.tls.internal_encryption import InternalTls, InternalTlsError, ServiceTls
from tests.activator.proxy.world import Pod, PodConnection, World, ok, until
from tests.conftest import both_loops
from throttler.model import ProbeSpec

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
        return self.pods.context_of(HTTP1).cert_store_stats()["x509"]


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
    before = tls.pods.context_of(HTTP1)
    tls.set_bundles((root(CA) + root(OTHER),))
    assert tls.pods.context_of(HTTP1) is before


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
    current = tls.server.current
    with caplog.at_level(logging.WARNING):
        tls.set_secret({**pair(), "tls.key": b"nonsense", "ca.crt": root(CA).encode()})
        assert "the last certificate stays in force: the key is no PEM" in caplog.text
        caplog.clear()
        tls.set_secret({})
        assert "was deleted; its last certificates stay in use" in caplog.text
    assert tls.server.current is current
    assert (tls.roots, tls.withdrawn) == (1, 0)
    tls.set_secret({**pair(), "ca.crt": root(CA).encode()})
    assert tls.server.current is not current


class SecurePod(Pod):
    """A pod that serves TLS with an untrusted certificate for another name."""

    async def listen(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("elsewhere.example").configure_cert(context)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: PodConnection(self), self.host, 0, ssl=context
        )
        self.port = self._server.sockets[0].getsockname()[1]


@pytest.fixture
async def world(anyio_backend: Any) -> Any:
    world = World()
    await world.start()
    yield world
    await world.close()


@both_loops
async def test_requests_go_to_the_pods_port_over_tls(world: World) -> None:
    pod = SecurePod(world)
    await pod.listen()
    world.pods.append(pod)
    pod.answer = ok(b"secure")
    throttler = world.serve(pod, hosts=["shop"], tls=True, probe=ProbeSpec(tls=True))
    await until(lambda: throttler.statistics().healthy == 1)
    for _ in range(2):
        answer = await world.ask(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
        assert (answer.status, answer.body) == (200, b"secure")
    assert len(pod.connections) == 1
    assert pod.requests[0].all(b"host") == [b"shop"]


@pytest.mark.parametrize("protocol", [HTTP1, HTTP2])
def test_no_certificate_is_verified(protocol: str) -> None:
    tls = ServiceTls()
    context = tls.context_of(protocol)
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname
    assert tls.context_of(protocol) is context, "made once"


@both_loops
async def test_a_port_that_begins_to_serve_tls_is_followed(world: World) -> None:
    plain = await world.pod()
    throttler = world.serve(plain, hosts=["shop"])
    await until(lambda: throttler.statistics().healthy == 1)
    held, plain.on_data = plain.on_data, lambda _: None
    client = await world.client()
    client.send(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n")
    await until(lambda: plain.requests)
    (tracker,) = throttler.backends.pods.values()
    before = world.pools.of(tracker)
    world.serve(plain, hosts=["shop"], tls=True, probe=ProbeSpec(tls=True))
    assert world.pools.of(tracker) is not before
    held(plain.connections[0])
    assert (await client.answer()).status == 200, "the request in flight finishes"
    await until(lambda: not plain.open)
