"""The part that serves HPAs, and its own certificate."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from activator.scale import external_metrics
from activator.scale.external_metrics import self_signed
from activator.scale.http_server import AddressError
from activator.tls.certificates import TlsFileError, context
from tests.activator.scale.keda.test_listener import CA, write
from tests.activator.scale.keda.test_part import until_leader
from tests.activator.scale.world import cluster, scaler
from tests.conftest import on_uvloop
from tests.handshakes import handshake

METRIC = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/activator_requests"
PARTS = [external_metrics.make]


def unverified() -> ssl.SSLContext:
    """Return a client that skips verification, as an APIService may."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def value(client: httpx.AsyncClient) -> Any:
    response = await client.get(METRIC, params={"labelSelector": "service=hello"})
    return [item["value"] for item in response.json()["items"]]


@on_uvloop
async def test_the_metric_is_there_before_the_patch(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube:
        await kube.add(owner="hpa")
        async with scaler(kube, parts=PARTS, external_metrics_port="0") as running:
            await until_leader(running)
            address = running.scaler.addresses["external-metrics"].replace("0.0.0.0", "127.0.0.1")
            async with (
                httpx.AsyncClient(base_url=f"https://{address}", verify=unverified()) as client,
                running.activator() as activator,
            ):
                assert (await client.get("/readyz")).text == "ok"
                assert await value(client) == ["0"]
                await activator.report(0.2)
                seen = []
                while not kube.replicas():
                    seen.append((await value(client), kube.replicas()))
                assert await value(client) == ["1"]
                assert (["0"], 1) not in seen


@on_uvloop
async def test_the_port_is_off_by_default(tmp_path: Path) -> None:
    async with cluster(tmp_path) as kube, scaler(kube, parts=PARTS) as running:
        assert "external-metrics" not in running.scaler.addresses


@on_uvloop
async def test_certificates_of_files(tmp_path: Path) -> None:
    files = write(tmp_path, client_ca=True)
    settings = {
        "external_metrics_port": "0",
        "external_metrics_tls_cert": str(files.certificate),
        "external_metrics_tls_key": str(files.key),
        "external_metrics_client_ca": str(files.client_ca),
    }
    async with cluster(tmp_path) as kube, scaler(kube, parts=PARTS, **settings) as running:
        port = running.scaler.addresses["external-metrics"].rpartition(":")[2]
        known, unknown = ssl.create_default_context(), ssl.create_default_context()
        for context in (known, unknown):
            CA.configure_trust(context)
        CA.issue_cert("front-proxy").configure_cert(known)
        async with httpx.AsyncClient(verify=known) as client:
            response = await client.get(f"https://localhost:{port}/apis")
        assert response.json()["kind"] == "APIGroupList"
        async with httpx.AsyncClient(verify=unknown) as client:
            with pytest.raises(httpx.HTTPError):
                await client.get(f"https://localhost:{port}/apis")


@on_uvloop
@pytest.mark.parametrize(
    "wrong",
    [
        {"external_metrics_tls_cert": "missing", "external_metrics_tls_key": "missing"},
        {"external_metrics_client_ca": "missing"},
    ],
)
async def test_unusable_files_name_the_setting(tmp_path: Path, wrong: dict[str, str]) -> None:
    async with cluster(tmp_path) as kube:
        with pytest.raises(AddressError, match=r"--external-metrics-port: .*missing"):
            async with scaler(kube, parts=PARTS, external_metrics_port="0", **wrong):
                pass


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
