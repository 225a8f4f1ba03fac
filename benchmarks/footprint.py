"""What clients that say nothing, revisions and pods cost in memory."""

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

#: How clients are connected, and what their row is called.
WAYS = {"http1": "HTTP/1.1", "tls": "HTTP/1.1 over TLS", "h2c": "HTTP/2"}
#: The most bytes that an idle client may take, by the way it is connected.
GOALS = {"http1": 1741}
#: Connections before those that are counted, so that what is allocated once is not.
WARM_UP = 200
#: Seconds for what is still under way: buffers, first probes.
SETTLE = 0.5
#: Revisions of the smaller of two installations, and pods of each in the one with pods.
FEW, PODS_EACH = 250, 10
POD_PORT = 8012
#: The first of the pods' addresses.
FIRST = ipaddress.IPv4Address("127.1.0.1")


def measure(folder: Path, clients: int, revisions: int, rounds: int) -> Iterator[Row]:
    """Rows for an idle client by the way it is connected, a revision, a pod.

    Arguments:
        clients: how many are connected; revisions: how many there are in the larger installation.

    Raises:
        CannotMeasure: something did not come up.
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
        _encrypt(manifests)
        flags = ("--https-port", str(https_port))
    with activator.running(manifests, *flags) as found:
        port = https_port if way == "tls" else found.port
        with helper("idlers", way, str(port), str(WARM_UP)) as idlers:
            idlers.hear()
        pause(SETTLE)
        before = resident_bytes(found.pid)
        with helper("idlers", way, str(port), str(clients)) as idlers:
            idlers.hear()
            pause(SETTLE)
            return (resident_bytes(found.pid) - before) / clients


def _encrypt(manifests: Path) -> None:
    """Writes what has traffic go over TLS: the switch and the certificate."""
    authority = trustme.CA()
    leaf = authority.issue_cert("data-plane.knative.dev")
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
    """Memory with so many revisions; and, if they have pods, after a request to each as well."""
    with helper("pod") as pod:
        pod.say(f"0.0.0.0 {POD_PORT}")  # all of 127.0.0.0/8
        pod.hear()
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
    return found.ask("/api/v1/revisions")[1].count(b'"state":"healthy"')
