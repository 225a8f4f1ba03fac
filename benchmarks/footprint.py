"""Memory of idle clients, revisions and pods."""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import trustme

from activator.lab.objects import PodAddress, write_object
from benchmarks import activator
from benchmarks.helpers import helper
from benchmarks.process import free_port, pause, resident_bytes, wait_until
from benchmarks.report import Row, middle

#: The kinds of connections, and their names in the rows.
WAYS = {"http1": "HTTP/1.1", "tls": "HTTP/1.1 over TLS", "h2c": "HTTP/2"}
#: The most bytes of an idle client, by the kind of its connection.
GOALS = {"http1": 1741}
#: Connections before the measurement, so that one-time allocations are not counted.
WARM_UP = 200
#: Seconds to wait for buffers and first probes.
SETTLE = 0.5
#: Revisions of the smaller of two installations, and pods of each in the one with pods.
FEW, PODS_EACH = 250, 10
POD_PORT = 8012
#: The address of the first pod.
FIRST = ipaddress.IPv4Address("127.1.0.1")


def measure(folder: Path, clients: int, revisions: int, rounds: int) -> Iterator[Row]:
    """Yield rows for an idle client by the kind of its connection, for a revision, for a pod.

    Arguments:
        clients: the number of idle clients.
        revisions: the number of revisions in the larger installation.

    Raises:
        CannotMeasure: a process did not start.
    """
    for way, name in WAYS.items():
        each = [_per_client(folder / f"{way}-{turn}", way, clients) for turn in range(rounds)]
        yield _row(f"{clients:,} idle clients, {name}: memory", each, GOALS.get(way))
    few, many, asked, pods = [], [], [], []
    for turn in range(rounds):
        few.append(_resident(folder / f"few-{turn}", FEW, 0)[0])
        many.append(_resident(folder / f"many-{turn}", revisions, 0)[0])
        with_pods, after_requests = _resident(folder / f"pods-{turn}", FEW, PODS_EACH)
        pods.append((with_pods - few[-1]) / (FEW * PODS_EACH))
        asked.append((after_requests - with_pods) / FEW)
    each = [(b - a) / (revisions - FEW) for a, b in zip(few, many, strict=True)]
    yield _row(f"{revisions:,} revisions without pods: memory", each)
    yield _row(f"{FEW * PODS_EACH:,} healthy pods: memory", pods)
    yield _row(f"{FEW:,} revisions with their first request: memory", asked)


def _row(what: str, each: list[float], goal: int | None = None) -> Row:
    size = middle(each)
    return Row(
        what,
        f"{size / 1024:.2f} KiB each",
        goal="" if goal is None else f"<= {goal / 1024:.2f} KiB",
        met=None if goal is None else size <= goal,
        details={"bytesEach": each},
    )


def _per_client(manifests: Path, way: str, clients: int) -> float:
    activator.write_revision(manifests, [])
    flags: tuple[str, ...] = ()
    https_port = free_port()
    if way == "tls":
        authority = trustme.CA()
        encrypt(manifests, authority, authority.issue_cert("data-plane.knative.dev"))
        flags = ("--https-port", str(https_port))
    with activator.running(manifests, *flags) as found:
        port = https_port if way == "tls" else found.port
        with helper("idlers", way, str(port), str(WARM_UP)) as idlers:
            idlers.receive()
        pause(SETTLE)
        before = resident_bytes(found.pid)
        with helper("idlers", way, str(port), str(clients)) as idlers:
            idlers.receive()
            pause(SETTLE)
            return (resident_bytes(found.pid) - before) / clients


def encrypt(manifests: Path, authority: trustme.CA, leaf: trustme.LeafCert) -> None:
    """Write the setting and the certificate that encrypt traffic."""
    data = {
        "tls.crt": b"".join(blob.bytes() for blob in leaf.cert_chain_pems),
        "tls.key": leaf.private_key_pem.bytes(),
        "ca.crt": authority.cert_pem.bytes(),
    }
    _write(manifests, "Secret", "routing-serving-certs", {k: _base64(v) for k, v in data.items()})
    _write(manifests, "ConfigMap", "config-network", {"system-internal-tls": "enabled"})


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _write(manifests: Path, kind: str, name: str, data: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": "knative-serving"}
    write_object(manifests, {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": data})


def _resident(manifests: Path, revisions: int, pods_each: int) -> tuple[int, int]:
    """Return the memory with so many revisions, and with pods also that after a request to each."""
    with helper("pod") as pod:
        pod.send(f"0.0.0.0 {POD_PORT}")  # all of 127.0.0.0/8
        pod.receive()
        for number in range(revisions):
            ips = (FIRST + number * pods_each + each for each in range(pods_each))
            pods = [PodAddress(str(ip), POD_PORT, uid=f"uid-of-{ip}", ready=True) for ip in ips]
            activator.write_revision(manifests, pods, name=f"r-{number}")
        with activator.running(manifests) as found:
            if pods_each:
                wait_until(lambda: _healthy(found) == revisions * pods_each, "all pods are healthy")
            pause(SETTLE)
            before = resident_bytes(found.pid)
            for number in range(revisions if pods_each else 0):
                activator.get(found.port, "/", f"r-{number}.default.svc.cluster.local")
            return before, resident_bytes(found.pid)


def _healthy(found: activator.Activator) -> int:
    return found.admin_get("/api/v1/revisions")[1].count(b'"state":"healthy"')
