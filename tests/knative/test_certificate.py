"""Encryption inside of the cluster: pkg/activator/certificate, TestUseSecurePort, test/e2e.

TestNewHeaderPruningProxyHTTPS is of pkg/http/proxy_test.go, the last two are of systeminternaltls.

Both sides use real TLS. Knative's tests read a cache; these check which requests succeed.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

import pytest
import trustme

from tests.knative.objects import NAMESPACE, config_map, private, revision, secret
from tests.knative.peers import to, without_date
from tests.knative.pods import ScriptedPod, after
from tests.knative.test_wire import PROBES, probe
from tests.knative.world import World

NewWorld = Callable[..., Awaitable[World]]

SECRET = "routing-serving-certs"
DATA_PLANE = "data-plane.knative.dev"
USER = f"kn-user-{NAMESPACE}"
BUNDLE = {"networking.knative.dev/trust-bundle": "true"}


def serving_certificate(ca: trustme.CA, roots: bytes | None = None) -> dict[str, bytes]:
    """Return the Secret's data: the activator's certificate, and the authorities that it trusts."""
    leaf = ca.issue_cert(DATA_PLANE, "localhost")
    return {
        "tls.crt": b"".join(part.bytes() for part in leaf.cert_chain_pems),
        "tls.key": leaf.private_key_pem.bytes(),
        "ca.crt": ca.cert_pem.bytes() if roots is None else roots,
    }


def presented(ca: trustme.CA, *names: str) -> ssl.SSLContext:
    """Return the TLS context of a pod: its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    ca.issue_cert(*(names or (DATA_PLANE, USER))).configure_cert(context)
    return context


async def encrypted(
    new_world: NewWorld,
    ca: trustme.CA,
    *,
    roots: bytes | None = None,
    bundle: str | None = None,
    names: tuple[str, ...] = (),
    signer: trustme.CA | None = None,
) -> World:
    """Start an activator with system-internal TLS; ``signer`` has signed its pod's certificate.

    Arguments:
        roots: the Secret's ``ca.crt``; ``ca`` if None.
        bundle: the text of a trust bundle.
        names: the names in the pod's certificate, if they are not the right ones.
    """
    objects = [
        config_map("config-network", {"system-internal-tls": "enabled"}),
        secret(SECRET, serving_certificate(ca, roots)),
    ]
    if bundle is not None:
        objects.append(config_map("bundle", {"any-name": bundle}, BUNDLE))
    world = await new_world(objects=objects)
    world.trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.configure_trust(world.trusted)
    (pod,) = await world.serving(1)
    await pod.listen_tls(presented(signer or ca, *names))
    world.apply(revision(timeoutSeconds=2), private([pod.at]))
    await world.passes()
    return world


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    """Return the authority that the activator trusts."""
    return trustme.CA()


@pytest.fixture(scope="module")
def other() -> trustme.CA:
    """Return an authority that the activator does not trust."""
    return trustme.CA()


async def refused(world: World) -> None:
    """Check that a request reaches no pod, and that its response names the reason."""
    answer = await world.ask()
    assert answer.status == 504
    assert b"8112" in (answer.get(b"activator-reason") or b"")
    assert not world.pods[0].traffic


def plain_probes_only(pod: ScriptedPod) -> bool:
    """Return whether requests arrived over TLS, and probes did not."""
    return all(
        (connection.transport.get_extra_info("ssl_object") is not None) == (request in pod.traffic)
        for connection in pod.connections
        for request in connection.requests
    )


async def test_TestUseSecurePort(new_world: NewWorld, ca: trustme.CA) -> None:
    """The pod is listed with its plain port: requests go to 8112, probes to the plain port."""
    world = await encrypted(new_world, ca)
    assert (await world.ask()).body == b"pod-0"
    (pod,) = world.pods
    assert pod.port != 8112
    assert pod.probes
    assert len(pod.traffic) == 1
    assert plain_probes_only(pod)


async def test_TestNewHeaderPruningProxyHTTPS(new_world: NewWorld, ca: trustme.CA) -> None:
    """Over TLS the pod sees the original host and the activator's field, but no control fields."""
    world = await encrypted(new_world, ca)
    await world.ask(to(fields=b"K-Network-Hash: h\r\nX-Stays: 1\r\n"))
    (seen,) = world.pods[0].traffic
    assert seen.all(b"knative-serving-revision") == seen.all(b"k-network-hash") == []
    assert seen.all(b"user-agent") == []
    assert seen.all(b"x-stays") == [b"1"]
    assert seen.all(b"k-proxy-request") == [b"activator"]
    assert seen.all(b"k-original-host") == [b"example.com"]


# certificate.TestReconcile


async def test_TestReconcile__ca_from_secret(new_world: NewWorld, ca: trustme.CA) -> None:
    """The Secret's ``ca.crt`` is trusted."""
    world = await encrypted(new_world, ca)
    assert (await world.ask()).body == b"pod-0"


async def test_TestReconcile__ca_from_configmap(
    new_world: NewWorld, ca: trustme.CA, other: trustme.CA
) -> None:
    """A trust bundle is trusted, also if the Secret has no ``ca.crt``."""
    bundle = other.cert_pem.bytes().decode()
    world = await encrypted(new_world, ca, roots=b"", bundle=bundle, signer=other)
    assert (await world.ask()).body == b"pod-0"


@pytest.mark.parametrize("signed_by_bundle", [False, True])
async def test_TestReconcile__ca_from_both(
    new_world: NewWorld, ca: trustme.CA, other: trustme.CA, signed_by_bundle: bool
) -> None:
    """Both are trusted."""
    bundle = other.cert_pem.bytes().decode()
    signer = other if signed_by_bundle else ca
    world = await encrypted(new_world, ca, bundle=bundle, signer=signer)
    assert (await world.ask()).body == b"pod-0"


async def test_TestReconcile__invalid_configmap_is_ignored(
    new_world: NewWorld, ca: trustme.CA
) -> None:
    """A bundle without a valid certificate changes nothing."""
    world = await encrypted(new_world, ca, bundle="this is no certificate")
    assert (await world.ask()).body == b"pod-0"


async def test_TestReconcile__nobody_trusted_has_signed(
    new_world: NewWorld, ca: trustme.CA, other: trustme.CA
) -> None:
    """A pod whose authority is not trusted gets no request. (Knative responds 502 each time.)"""
    await refused(await encrypted(new_world, ca, signer=other))


async def test_TestReconcile__certificate_rotation(
    new_world: NewWorld, ca: trustme.CA, other: trustme.CA
) -> None:
    """The Secret gets a certificate of another authority: the next handshake uses it."""
    world = await encrypted(new_world, ca)
    assert (await world.ask(port="https")).body == b"pod-0"
    world.apply(secret(SECRET, serving_certificate(other, ca.cert_pem.bytes())))
    await world.passes()
    with pytest.raises(ssl.SSLCertVerificationError):
        await world.client("https")
    world.trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    other.configure_trust(world.trusted)
    assert (await world.ask(port="https")).body == b"pod-0"


async def test_TestReconcile__ca_rotation(
    new_world: NewWorld, ca: trustme.CA, other: trustme.CA
) -> None:
    """The Secret changes to another authority: only pods with its certificates get requests.

    That also holds for pods with an idle connection.
    """
    world = await encrypted(new_world, ca)
    assert (await world.ask()).body == b"pod-0"
    world.apply(secret(SECRET, serving_certificate(ca, other.cert_pem.bytes())))
    await world.passes()
    (pod,) = world.pods
    pod.traffic.clear()
    await refused(world)
    await pod.listen_tls(presented(other))
    world.apply(revision(timeoutSeconds=30))
    await world.passes()
    assert (await world.ask()).body == b"pod-0"


# certificate.TestVerifySAN


@pytest.mark.parametrize(
    "names",
    [
        (DATA_PLANE, USER),
        (USER, DATA_PLANE),
        (DATA_PLANE, "some.other.name", USER, "kn-user-another"),
    ],
    ids=["second", "first", "among others"],
)
async def test_TestVerifySAN__match(
    new_world: NewWorld, ca: trustme.CA, names: tuple[str, ...]
) -> None:
    """Any of the certificate's names may be the namespace's."""
    world = await encrypted(new_world, ca, names=names)
    assert (await world.ask()).body == b"pod-0"


@pytest.mark.parametrize(
    "names",
    [(DATA_PLANE,), (DATA_PLANE, "kn-user-another"), (USER,), (DATA_PLANE, f"{USER}-2")],
    ids=["none", "another namespace", "not the data plane", "longer"],
)
async def test_TestVerifySAN__mismatch(
    new_world: NewWorld, ca: trustme.CA, names: tuple[str, ...]
) -> None:
    """Without the namespace's name, or without the data plane's, the pod gets no request."""
    await refused(await encrypted(new_world, ca, names=names))


# test/e2e/systeminternaltls


async def test_TestSystemInternalTLS(new_world: NewWorld, ca: trustme.CA) -> None:
    """A request is encrypted from the client and to the pod; the plain ports still work."""
    world = await encrypted(new_world, ca)
    for port in ("https", "http", "h2c"):
        assert (await world.ask(port=port)).body == b"pod-0"
    (pod,) = world.pods
    assert len(pod.traffic) == 3
    assert plain_probes_only(pod)
    probe = b"GET / HTTP/1.1\r\nHost: x\r\nK-Network-Probe: activator\r\n\r\n"
    assert (await world.ask(probe, port="https")).body == b"activator"
    kubelet = b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe/1.34\r\n\r\n"
    assert (await world.ask(kubelet, port="https")).status == 200


async def test_TestTLSCertificateRotation(
    new_world: NewWorld, ca: trustme.CA, other: trustme.CA
) -> None:
    """Certificate and authority change under load, in the order of operators. No request fails.

    First both authorities are trusted. Then pods and activator present the new certificate. Then
    the old authority is removed.
    """
    both = (ca.cert_pem.bytes() + other.cert_pem.bytes()).decode()
    world = await encrypted(new_world, ca, bundle=both)
    (pod,) = world.pods
    pod.pieces = after(0.05)
    other.configure_trust(world.trusted)
    statuses: list[int] = []

    async def some() -> None:
        for _ in range(5):
            clients = [await world.call(port=port) for port in ("https", "http") * 3]
            statuses.extend([(await client.answer()).status for client in clients])

    await some()
    world.apply(secret(SECRET, serving_certificate(other)))
    await some()
    await pod.listen_tls(presented(other))
    await some()
    world.apply(config_map("bundle", {"any-name": other.cert_pem.bytes().decode()}, BUNDLE))
    await some()
    assert statuses == [200] * 120


# Own responses on the port for TLS


async def test_TestProbeHandler__over_tls(new_world: NewWorld, ca: trustme.CA) -> None:
    """Port 8112 sends the same response to each probe as the plain ports, byte for byte."""
    world = await encrypted(new_world, ca)
    client = await world.client("https")
    for fields, expected in PROBES.values():
        client.received.clear()
        client.send(probe(fields, target=b"//healthz"))
        await client.answer()
        assert without_date(client.received) == expected
    assert not world.pods[0].traffic


async def test_TestContextHandlerError__over_tls(new_world: NewWorld, ca: trustme.CA) -> None:
    """An unknown revision is a 404 on that port, too; a revision without pods is a 504."""
    world = await encrypted(new_world, ca)
    answer = await world.ask(to("fooname"), port="https")
    error = 'revision.serving.knative.dev "fooname" not found'
    assert (answer.status, answer.body) == (
        404,
        f"Error getting active endpoint: {error}\n".encode(),
    )
    world.apply(private())
    await world.passes()
    answer = await world.ask(port="https")
    assert (answer.status, answer.body) == (504, b"activator request timeout")
