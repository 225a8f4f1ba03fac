"""Certificates by the host that a client names, from files that may change."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import nullcontext
from pathlib import Path

import pytest
import trustme

from activator.settings.config import load
from activator.settings.values import TlsParameters
from activator.tls.certificates import (
    HTTP1,
    HTTP2,
    ServerContext,
    TlsFileError,
    TlsFiles,
    dns_names,
    server_context,
)
from activator.tls.store import StoreTls, store_tls, upstream_tls
from tests.activator.scale.keda.test_listener import CA, OTHER
from tests.handshakes import handshake


def write(folder: Path, certificate: str, key: str, *hosts: str, ca: trustme.CA = CA) -> None:
    leaf = ca.issue_cert(*hosts)
    folder.mkdir(exist_ok=True, parents=True)
    (folder / certificate).write_bytes(b"".join(each.bytes() for each in leaf.cert_chain_pems))
    (folder / key).write_bytes(leaf.private_key_pem.bytes())


def settings(folder: Path, **more: str) -> StoreTls | None:
    variables = {
        "ACTIVATOR_DIALECT": "keda",
        "KEDA_HTTP_PROXY_TLS_ENABLED": "true",
        "KEDA_HTTP_PROXY_TLS_CERT_PATH": f"{folder}/tls.crt",
        "KEDA_HTTP_PROXY_TLS_KEY_PATH": f"{folder}/tls.key",
    }
    return store_tls(load("local", {"manifests": str(folder)}, variables | more))


def shown(tls: StoreTls, host: str | None, ca: trustme.CA = CA, **versions: ssl.TLSVersion) -> str:
    """Return the first host name of the certificate that a client gets, or the error."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    ca.configure_trust(client)
    for name, version in versions.items():
        setattr(client, name, version)
    try:
        end = handshake(client, tls.context, host)  # type: ignore[arg-type] # None: no name
    except ssl.SSLError as error:
        return error.reason or "?"
    certificate = end.getpeercert()
    assert certificate is not None
    return str(certificate["subjectAltName"][0][1])


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    write(tmp_path, "tls.crt", "tls.key", "default.example")
    write(tmp_path / "store", "a.crt", "a.key", "a.example", "second.example")
    write(tmp_path / "store" / "below", "b.pem", "b-key.pem", "b.example", "*.wild.example")
    return tmp_path


def test_a_client_gets_the_certificate_of_the_host_that_it_names(stored: Path) -> None:
    tls = settings(stored, KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS=f"{stored}/store")
    assert tls is not None
    found = {
        host: shown(tls, host)
        for host in ("a.example", "A.Example", "second.example", "b.example", "x.wild.example")
    }
    assert found == {
        "a.example": "a.example",
        "A.Example": "a.example",
        "second.example": "a.example",
        "b.example": "b.example",
        "x.wild.example": "default.example",  # only the exact name counts, as in the add-on
    }
    assert shown(tls, None) == shown(tls, "other") == "default.example"


def test_folders_that_are_linked_to_each_other_are_read_once(stored: Path) -> None:
    for name in ("one", "other"):  # each path would have 40 links, in any order
        (stored / "store" / "below" / name).symlink_to(stored / "store")
    tls = settings(stored, KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS=f"{stored}/store")
    assert tls is not None
    assert shown(tls, "b.example") == "b.example"


def test_it_is_off_unless_asked_for(stored: Path) -> None:
    assert settings(stored, KEDA_HTTP_PROXY_TLS_ENABLED="false") is None
    assert settings(stored, ACTIVATOR_DIALECT="services") is None


def test_versions_are_those_of_the_settings(stored: Path) -> None:
    tls = settings(stored, KEDA_HTTP_TLS_MIN_VERSION="1.3")
    assert tls is not None
    assert shown(tls, "x", maximum_version=ssl.TLSVersion.TLSv1_2) != "default.example"
    old = settings(stored, KEDA_HTTP_TLS_MIN_VERSION="1.2", KEDA_HTTP_PROXY_TLS_MAX_VERSION="1.2")
    assert old is not None
    assert shown(old, "x", minimum_version=ssl.TLSVersion.TLSv1_3) != "default.example"
    assert shown(old, "x") == "default.example"


@pytest.mark.parametrize(
    ("broken", "text"),
    [
        (
            "tls.crt",
            r"tls\.crt, .*tls\.key\): \[Errno 2\].*; mount the Secret there, or correct the path",
        ),
        ("store/a.key", r"a\.crt, .*a\.key\): \[Errno 2\].*; mount the Secret"),
        ("store", "is no folder: mount it, or correct the path"),
    ],
)
def test_unusable_files_are_an_error_at_start(stored: Path, broken: str, text: str) -> None:
    (stored / broken).rename(stored / "away")
    with pytest.raises(TlsFileError, match=text):
        settings(stored, KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS=f"{stored}/store")


def test_each_ending_of_a_certificate_may_come_with_each_ending_of_a_key(tmp_path: Path) -> None:
    write(tmp_path, "tls.crt", "tls.key", "default.example")
    pairs = ("a.crt", "a-key.pem"), ("b.pem", "b.key")
    for certificate, key in pairs:
        write(tmp_path / "store", certificate, key, f"{certificate}.example")
    tls = settings(tmp_path, KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS=f"{tmp_path}/store")
    assert tls is not None
    for certificate, _ in pairs:
        assert shown(tls, f"{certificate}.example") == f"{certificate}.example"


async def test_changed_files_count_within_seconds_and_broken_ones_change_nothing(
    anyio_backend: object, stored: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reads, looked = list[bytes](), asyncio.Event()
    loop = asyncio.get_running_loop()
    default = TlsFiles(stored / "tls.crt", stored / "tls.key")

    def make(certificate: bytes, key: bytes) -> ServerContext:
        reads.append(certificate)
        return server_context(TlsParameters("1.2"), certificate, key)

    class Watched(StoreTls):
        def renew(self) -> None:
            super().renew()
            loop.call_soon_threadsafe(looked.set)

    async def look() -> None:
        looked.clear()
        await looked.wait()

    tls = Watched(default, (stored / "store",), make)
    following = asyncio.ensure_future(tls.follow())
    assert len(reads) == 3
    write(stored / "store", "a.crt", "a.key", "new.example", ca=OTHER)
    assert shown(tls, "new.example") == "default.example", "no handshake reads a file"
    await look()
    assert shown(tls, "new.example", OTHER) == "new.example"
    assert shown(tls, "a.example") == "default.example"
    assert len(reads) == 4, "only changed files are read"
    (stored / "store" / "a.key").write_text("junk")
    (stored / "tls.crt").unlink()
    await look()
    assert shown(tls, "new.example", OTHER) == "new.example"
    assert shown(tls, None) == "default.example"
    assert "stays in force" in caplog.text
    write(stored, "tls.crt", "tls.key", "renewed.example")
    (stored / "store" / "a.crt").unlink()
    await look()
    assert shown(tls, "new.example") == "renewed.example"
    following.cancel()


def test_the_names_of_a_certificate_are_its_hosts() -> None:
    many = [f"h{number}.example" for number in range(300)]  # long lengths in DER
    leaf = CA.issue_cert("10.0.0.1", "UPPER.example", *many, "user@mail.example")
    names = dns_names(leaf.cert_chain_pems[0].bytes())
    assert names == {"upper.example", *many}
    assert dns_names(CA.cert_pem.bytes()) == frozenset()


@pytest.mark.parametrize(
    ("server", "signer", "skip", "error"),
    [
        ("web.shop", CA, "false", ""),
        ("other.shop", CA, "false", "CERTIFICATE_VERIFY_FAILED"),
        ("web.shop", OTHER, "false", "CERTIFICATE_VERIFY_FAILED"),
        ("other.shop", OTHER, "true", ""),
    ],
)
def test_a_pod_is_verified_by_the_name_of_its_service(
    tmp_path: Path, server: str, signer: trustme.CA, skip: str, error: str
) -> None:
    (tmp_path / "ca.crt").write_bytes(CA.cert_pem.bytes())
    (tmp_path / "..data").mkdir()  # as kubelet mounts a Secret
    variables = {"KEDA_HTTP_TLS_CA_DIRS": str(tmp_path), "KEDA_HTTP_TLS_SKIP_VERIFY": skip}
    flags = {"manifests": str(tmp_path), "dialect": "keda"}
    side = upstream_tls(load("local", flags, variables))("web.shop")
    for context in map(side.context_of, (HTTP1, HTTP2)):
        pod = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        signer.issue_cert(server).configure_cert(pod)
        expected = pytest.raises(ssl.SSLError, match=error) if error else nullcontext()
        with expected:
            handshake(context, pod, side.server_name)


def test_an_unusable_authority_is_an_error_at_start(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("junk")
    flags = {"manifests": str(tmp_path), "dialect": "keda"}
    settings = load("local", flags, {"KEDA_HTTP_TLS_CA_DIRS": str(tmp_path)})
    with pytest.raises(TlsFileError, match=r"KEDA_HTTP_TLS_CA_DIRS.*ca\.crt.*no PEM"):
        upstream_tls(settings)
