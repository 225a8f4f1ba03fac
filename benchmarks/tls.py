"""CPU time of TLS on both sides, beside nginx and HAProxy: per request, and per handshake.

If aiofastnet is installed, further rows compare its TLS with uvloop's. It is no dependency.
"""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import trustme

from activator.lab.objects import PodAddress
from activator.tls.internal_encryption import POD_PORT
from benchmarks import activator, haproxy, instructions, nginx
from benchmarks.activator import HOST
from benchmarks.footprint import encrypt
from benchmarks.process import CannotMeasure, cpu_seconds, free_port, listens, wait_until
from benchmarks.proxying import CONNECTIONS, CONTAINER_CONCURRENCY, POST, Proxy, Run, compare
from benchmarks.report import Row

STREAMS, HTTP2_CONNECTIONS = 4, 16
_NAMES = ("data-plane.knative.dev", "kn-user-default")
#: kubelet's probe. The activator responds without a pod.
_PROBE = b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe/1\r\nConnection: close\r\n\r\n"
_GET = b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % HOST.encode()
#: Requests on each connection, in the shorter part of a turn with counted instructions.
_FEW = 10
_Goals = tuple[float, float]
#: At most so many times the cost of nginx and of HAProxy: for requests as without TLS.
_GET_GOAL, _POST_GOAL, _HANDSHAKE_GOAL = (2.2, 2.2), (2.4, 2.4), (2.0, 2.0)
_HTTP2_GOAL = (1.6, 1.4)
#: Before the command of the activator: runs it with the TLS of aiofastnet.
_FASTNET = (sys.executable, "-m", "benchmarks.fastnet")

_CERTIFICATE = """\
    ssl_certificate {folder}/tls.crt; ssl_certificate_key {folder}/tls.key; ssl_protocols TLSv1.3;
"""
_PROXY = """\
    upstream pods {{ {servers} keepalive 128; keepalive_requests {endless}; }}
    server {{
        listen 127.0.0.1:{port} ssl{http2};
        if ($http_user_agent ~ ^kube-probe) {{ return 200; }}
        location / {{
            {pass_to}s://pods;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            {kind}_ssl_protocols TLSv1.3;
            {kind}_ssl_verify on;
            {kind}_ssl_name data-plane.knative.dev;
            {kind}_ssl_trusted_certificate {folder}/ca.crt;
        }}
    }}
"""


@dataclass(frozen=True, slots=True)
class Turns:
    """The size of a turn.

    Attributes:
        rounds: turns of each proxy.
        seconds: of a turn of HTTP/1.
        requests: of a turn of HTTP/2.
        handshakes: of a turn of handshakes.
        counted: of the longer part of a turn with counted instructions, on each connection.
    """

    rounds: int
    seconds: int
    requests: int
    handshakes: int
    counted: int


def measure(folder: Path, turns: Turns) -> Iterator[Row]:
    """Yield one row for each kind of request and of handshake.

    Raises:
        CannotMeasure: a program is missing, or requests failed.
    """
    wrk, h2load = nginx.need("wrk", "wrk"), nginx.need("h2load", "nghttp2-client")
    script = folder / "post.lua"
    script.write_text(POST)
    post = [wrk, "-s", str(script)]
    full = partial(_handshakes, count=turns.handshakes, resume=False)
    resumed = partial(_handshakes, count=turns.handshakes, resume=True)
    http1: dict[str, tuple[Run, _Goals]] = {
        "TLS, GET, keep-alive": (lambda proxy: _wrk(proxy, [wrk], turns.seconds), _GET_GOAL),
        "TLS, POST of 10 KB": (lambda proxy: _wrk(proxy, post, turns.seconds), _POST_GOAL),
        "TLS handshake, full": (full, _HANDSHAKE_GOAL),
        "TLS handshake, resumed": (resumed, _HANDSHAKE_GOAL),
    }
    yield from _group(folder / "http1", http1, turns.rounds, http2=False)
    http2: dict[str, tuple[Run, _Goals]] = {
        "TLS, HTTP/2 GET": (lambda proxy: _h2load(proxy, h2load, turns.requests), _HTTP2_GOAL)
    }
    yield from _group(folder / "http2", http2, turns.rounds, http2=True)
    yield from _counts(folder / "counts", turns.counted)


def _group(
    folder: Path, runs: Mapping[str, tuple[Run, _Goals]], rounds: int, *, http2: bool
) -> Iterator[Row]:
    """Yield the rows of one version of HTTP."""
    folder.mkdir()
    with ExitStack() as open_until_then:
        certificates = _write_certificates(folder)
        open_until_then.enter_context(_pods(folder, http2=http2))
        by_nginx = open_until_then.enter_context(_nginx(folder, http2=http2))
        port = free_port()
        running = haproxy.proxy(folder, port, http2=http2, pod_port=POD_PORT, name=_NAMES[0])
        by_haproxy = Proxy(port, open_until_then.enter_context(running))
        ours = open_until_then.enter_context(_activator(folder / "ours", certificates, http2))
        for what, (run, (goal, goal_of_haproxy)) in runs.items():
            each = "handshake" if "handshake" in what else "request"
            yield compare(what, goal, ours, by_nginx, rounds, run, each=each)
            yield compare(
                *(f"{what} [HAProxy]", goal_of_haproxy, ours, by_haproxy, rounds, run),
                name="HAProxy",
                each=each,
            )
        if find_spec("aiofastnet") is None:
            return
        fast = open_until_then.enter_context(
            _activator(folder / "fast", certificates, http2, _FASTNET)
        )
        for what, (run, _) in runs.items():
            each = "handshake" if "handshake" in what else "request"
            name = f"{what}, with aiofastnet"
            yield compare(name, None, fast, ours, rounds, run, name="uvloop", each=each)


def _counts(folder: Path, many: int) -> Iterator[Row]:
    """Yield the instructions of a GET over TLS; see `instructions`."""
    valgrind = nginx.need("valgrind", "valgrind")
    control = nginx.need("callgrind_control", "valgrind")
    folder.mkdir()
    certificates = _write_certificates(folder)
    kinds: list[tuple[str, Sequence[str]]] = [("", ())]
    if find_spec("aiofastnet") is not None:
        kinds.append((", with aiofastnet", _FASTNET))
    with _pods(folder, http2=False):
        for number, (name, before) in enumerate(kinds):
            command = (*instructions.callgrind(valgrind, folder), *before)
            with _activator(folder / f"counted-{number}", certificates, False, command) as ours:
                found = _counted(control, ours, (_FEW, many))
            load = instructions.Load(f"TLS, GET, keep-alive{name}", _GET)
            yield instructions.row(load, found, _FEW, many)


def _counted(control: str, proxy: Proxy, counts: Sequence[int]) -> Sequence[int]:
    """Return the instructions of so many requests on each connection, after as many others."""
    clients = [_client(proxy) for _ in range(instructions.CONNECTIONS)]
    found = []
    try:
        for count in (counts[0], *counts):
            before = instructions.total(control, proxy.pid)
            for _ in range(count):
                for client in clients:
                    client.sendall(_GET)
                for client in clients:
                    instructions.read_response(client)
            found.append(instructions.total(control, proxy.pid) - before)
    finally:
        for client in clients:
            client.close()
    return found[1:]


def _client(proxy: Proxy, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
    """Return a connection after its handshake."""
    raw = socket.create_connection(("127.0.0.1", proxy.port))
    return _TRUSTING.wrap_socket(raw, session=session)


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


_TRUSTING = _trusting()


def _wrk(proxy: Proxy, command: Sequence[str], seconds: int) -> tuple[float, float]:
    """Run a turn of HTTP/1; return the CPU seconds per request, and requests per second."""
    command = [*command, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-H", f"Host: {HOST}"]
    text, spent = _spent(proxy, [*command, f"https://127.0.0.1:{proxy.port}/"])
    found = re.search(r"(\d+) requests in", text)
    if found is None or "Non-2xx" in text or "Socket errors" in text or found[1] == "0":
        raise CannotMeasure(f"requests failed: {' '.join(text.split())}")
    return spent / int(found[1]), int(found[1]) / seconds


def _h2load(proxy: Proxy, program: str, count: int) -> tuple[float, float]:
    """Run a turn of HTTP/2; return the CPU seconds per request, and requests per second."""
    counts = ["-n", str(count), f"-c{HTTP2_CONNECTIONS}", f"-m{STREAMS}"]
    command = [program, *counts, "-H", f":authority: {HOST}", f"https://127.0.0.1:{proxy.port}/"]
    text, spent = _spent(proxy, command)
    found = re.search(r"([\d.]+) req/s", text)
    if found is None or f"{count} 2xx" not in text:
        raise CannotMeasure(f"requests failed: {' '.join(text.split())}")
    return spent / count, float(found[1])


def _spent(proxy: Proxy, command: Sequence[str]) -> tuple[str, float]:
    """Return the output of a client, and the CPU seconds of the proxy meanwhile."""
    before = cpu_seconds(proxy.pid)
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return text, cpu_seconds(proxy.pid) - before


def _handshakes(proxy: Proxy, count: int, *, resume: bool) -> tuple[float, float]:
    """Open and close connections, with a probe on each; return CPU seconds each, and a zero."""
    session: ssl.SSLSession | None = None
    reused = 0
    before = cpu_seconds(proxy.pid)
    for _ in range(count):
        with _client(proxy, session if resume else None) as client:
            client.sendall(_PROBE)
            while client.recv(4096):
                pass
            reused += bool(client.session_reused)
            session = client.session
    if resume and reused < count - 1:
        raise CannotMeasure(f"{count - reused} of {count} sessions were not resumed")
    return (cpu_seconds(proxy.pid) - before) / count, 0.0


_Certificates = tuple[trustme.CA, trustme.LeafCert]


def _write_certificates(folder: Path) -> _Certificates:
    """Write a certificate for nginx; return it with its authority."""
    authority = trustme.CA()
    leaf = authority.issue_cert(*_NAMES)
    (folder / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    (folder / "tls.key").write_bytes(leaf.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    return authority, leaf


@contextmanager
def _pods(folder: Path, *, http2: bool) -> Iterator[None]:
    """Provide pods that accept probes in clear text, and requests over TLS."""
    listen = "".join(
        f"listen {ip}:{nginx.POD_PORT}; listen {ip}:{POD_PORT} ssl{_http2(http2)};"
        for ip in nginx.POD_IPS
    )
    inside = _CERTIFICATE.format(folder=folder) + nginx.servers(folder, listen)
    with nginx.running(folder, "pods", inside):
        wait_until(lambda: all(listens(ip, POD_PORT) for ip in nginx.POD_IPS), "the pods listen")
        yield


@contextmanager
def _nginx(folder: Path, *, http2: bool) -> Iterator[Proxy]:
    port = free_port()
    kind = "grpc" if http2 else "proxy"
    inside = _CERTIFICATE.format(folder=folder) + _PROXY.format(
        folder=folder,
        servers=" ".join(f"server {ip}:{POD_PORT};" for ip in nginx.POD_IPS),
        endless=nginx.ENDLESS,
        port=port,
        http2=_http2(http2),
        kind=kind,
        pass_to="grpc_pass grpc" if http2 else "proxy_pass http",
    )
    with nginx.running(folder, "proxy", inside) as process:
        wait_until(lambda: listens("127.0.0.1", port), "nginx listens")
        yield Proxy(port, nginx.worker(process))


def _http2(on: bool) -> str:
    return " http2" if on else ""


@contextmanager
def _activator(
    folder: Path, certificates: _Certificates, http2: bool, before: Sequence[str] = ()
) -> Iterator[Proxy]:
    pods = [
        PodAddress(ip, nginx.POD_PORT, uid=f"uid-{ip}", name=f"pod-{ip}", ready=True)
        for ip in nginx.POD_IPS
    ]
    activator.write_revision(folder, pods, container_concurrency=CONTAINER_CONCURRENCY, h2c=http2)
    encrypt(folder, *certificates)
    port = free_port()
    with activator.running(
        folder, "--https-port", str(port), before=before, log=f"activator-{folder.name}"
    ) as found:
        yield Proxy(port, found.pid)
