"""nginx as pods behind a proxy, and as the proxy to compare the activator with."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.process import CannotMeasure, listens, started, wait_until

POD_IPS = ("127.0.0.21", "127.0.0.22")
POD_PORT = 8012
#: Bytes of the response to ``/large``.
LARGE = 1 << 20
#: Requests over one connection; nginx would close it after 1,000.
ENDLESS = 1_000_000_000

_COMMON = """\
daemon off;
user root;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    keepalive_requests {endless};
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{inside}
}}
"""

_PODS = """\
    map $http_user_agent $answer {{
        default "hello\\n";
        ~^Knative-Activator-Probe "queue";
    }}
    server {{
        {listen}
        client_max_body_size 0;
        location / {{ return 200 $answer; }}
        location /large {{ root {folder}; }}
        location /upload {{  # reads the body before it responds
            client_body_buffer_size 2m;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_pass http://{ip}:{port}/;
        }}
    }}
"""

_PROXY = """\
    upstream pods {{
        {servers}
        keepalive 128;
        keepalive_requests {endless};
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://pods;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_max_temp_file_size 0;
            # For large bodies: each of the defaults costs nginx twice the CPU time.
            proxy_request_buffering off;
            client_body_buffer_size 128k;
            proxy_buffer_size 64k;
            proxy_buffers 8 64k;
            client_max_body_size 0;
        }}
    }}
"""

_HTTP2_PROXY = """\
    upstream pods {{
        {servers}
        keepalive 128;
        keepalive_requests {endless};
    }}
    server {{
        listen 127.0.0.1:{port} http2;
        http2_max_concurrent_streams 1000;
        client_max_body_size 0;
        location / {{ grpc_pass grpc://pods; }}
    }}
"""


def need(program: str, package: str) -> str:
    """Return the program's path.

    Raises:
        CannotMeasure: it is not installed.
    """
    # Debian keeps servers in /usr/sbin, which may be missing from PATH.
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        raise CannotMeasure(f"{program} is missing: apt-get install {package}")
    return found


@contextmanager
def pods(folder: Path) -> Iterator[None]:
    """Provide two pods that respond with ``hello``, or ``queue`` to the activator's probe."""
    for ip in POD_IPS:
        if listens(ip, POD_PORT):
            raise CannotMeasure(f"another process listens on {ip}:{POD_PORT}")
    listen = " ".join(f"listen {ip}:{POD_PORT};" for ip in POD_IPS)
    with running(folder, "pods", servers(folder, listen)):
        wait_until(lambda: all(listens(ip, POD_PORT) for ip in POD_IPS), "the pods listen")
        yield


@contextmanager
def proxy(folder: Path, port: int, *, http2: bool = False) -> Iterator[int]:
    """Provide a reverse proxy in front of these pods; yield the process id of its one worker.

    Arguments:
        http2: accept HTTP/2 without TLS, and forward it by grpc_pass.
    """
    servers = " ".join(f"server {ip}:{POD_PORT};" for ip in POD_IPS)
    config = _HTTP2_PROXY if http2 else _PROXY
    inside = config.format(servers=servers, port=port, endless=ENDLESS)
    with running(folder, "proxy", inside) as process:
        wait_until(lambda: listens("127.0.0.1", port), "nginx listens")
        yield worker(process)


def servers(folder: Path, listen: str) -> str:
    """Return the configuration of these pods.

    Arguments:
        folder: for the file of ``/large``.
        listen: the directives of all addresses.
    """
    (folder / "large").write_bytes(bytes(LARGE))
    return _PODS.format(listen=listen, folder=folder, ip=POD_IPS[0], port=POD_PORT)


def worker(process: subprocess.Popen[str]) -> int:
    """Return the process id of the one worker of an nginx that listens."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: children.read_text() != "", "nginx has its worker")
    return int(children.read_text().split()[0])


@contextmanager
def running(folder: Path, name: str, inside: str) -> Iterator[subprocess.Popen[str]]:
    """Provide a running nginx.

    Arguments:
        folder: for its files.
        name: of its own folder and of its log.
        inside: the lines of its ``http`` block.
    """
    program = need("nginx", "nginx-light")
    own = folder / f"nginx-{name}"
    own.mkdir()
    config = own / "nginx.conf"
    config.write_text(_COMMON.format(folder=own, endless=ENDLESS, inside=inside))
    # -e: until nginx has read its configuration, its default log is writable only for root.
    command = [program, "-e", str(own / "error.log"), "-p", str(own), "-c", str(config)]
    with started(command, f"nginx-{name}") as process:
        yield process
