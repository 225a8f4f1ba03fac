"""HAProxy as a proxy to compare the activator with, beside nginx."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import nginx
from benchmarks.process import listens, started, wait_until

# Bodies go from socket to socket within the kernel. ``splice-auto`` would copy these.
_CONFIG = """\
global
    nbthread 1
    tune.pipesize 1048576
    maxconn 4096
    ssl-server-verify required
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    option splice-request
    option splice-response
    http-reuse always
frontend clients
    bind 127.0.0.1:{port} {accept}
    http-request return status 200 if {{ req.hdr(user-agent) -m beg kube-probe }}
    default_backend pods
backend pods
{servers}
"""


@contextmanager
def proxy(
    folder: Path,
    port: int,
    *,
    http2: bool = False,
    pod_port: int = nginx.POD_PORT,
    name: str = "",
) -> Iterator[int]:
    """Provide HAProxy in front of the pods of `benchmarks.nginx`; yield its process id.

    It has one thread, as the activator and nginx have.

    Arguments:
        folder: for its files; with `name`, it has ``ca.crt``, ``tls.crt`` and ``tls.key``.
        http2: accept HTTP/2, and forward it.
        pod_port: of the pods.
        name: in the certificates of the pods; then both sides have TLS. Empty for no TLS.

    Raises:
        CannotMeasure: HAProxy is not installed.
    """
    program = nginx.need("haproxy", "haproxy")
    accept = forward = "proto h2" if http2 else ""
    if name:
        both = folder / "haproxy.pem"
        both.write_bytes(b"".join((folder / f"tls.{end}").read_bytes() for end in ("crt", "key")))
        protocol = "alpn h2" if http2 else ""
        accept = f"ssl crt {both} ssl-min-ver TLSv1.3 {protocol}"
        forward = f"ssl ca-file {folder}/ca.crt verifyhost {name} ssl-min-ver TLSv1.3 {protocol}"
    servers = "\n".join(
        f"    server pod-{number} {ip}:{pod_port} {forward}"
        for number, ip in enumerate(nginx.POD_IPS)
    )
    config = folder / "haproxy.cfg"
    config.write_text(_CONFIG.format(port=port, accept=accept, servers=servers))
    with started([program, "-db", "-f", str(config)], "haproxy") as process:
        wait_until(lambda: listens("127.0.0.1", port), "HAProxy listens")
        yield process.pid
