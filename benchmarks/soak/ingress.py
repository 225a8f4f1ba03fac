"""nginx as the ingress: it names revisions, spreads requests over two activators, and retries.

It takes an activator out of use while a file exists, without a reload, which would close the
connections of clients. It retries as its documentation recommends: a request that is not idempotent
only if it was not sent. Such requests have no upstream connection of earlier requests, because a
kept connection may end at the moment of the next request.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.mixed.kinds import COLD, LIAR, RPC, WEB
from benchmarks.nginx import ENDLESS, need
from benchmarks.process import RESULTS, free_port, listens, started, wait_until

_CONFIG: Final = """\
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {logs}/ingress-error.log;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_requests {endless};
    keepalive_timeout 300s;
    client_max_body_size 0;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    map $http_upgrade $upgraded {{ default upgrade; '' ''; }}
    map $host $revision {{ ~^(?<name>{revisions})\\. $name; default ''; }}
    map $revision $namespace {{ '' ''; default default; }}
{upstreams}
    server {{
        listen 127.0.0.1:{http1};
        {choice}
        location / {{
            set $how kept;
            if ($request_method = POST) {{ set $how fresh; }}
            if ($http_upgrade) {{ set $how fresh; }}
            proxy_pass http://${{who}}_$how;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_request_buffering off;
            proxy_read_timeout 300s;
            proxy_connect_timeout 5s;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $upgraded;
            proxy_set_header Knative-Serving-Namespace $namespace;
            proxy_set_header Knative-Serving-Revision $revision;
            add_header X-Via $upstream_addr always;
        }}
    }}
    server {{
        listen 127.0.0.1:{http2} http2;
        http2_max_concurrent_streams 1000;
        {choice}
        location / {{
            set $how kept_http2;
            if ($request_method = POST) {{ set $how fresh; }}
            grpc_pass grpc://${{who}}_$how;
            grpc_read_timeout 300s;
            grpc_connect_timeout 5s;
            grpc_set_header Host $http_host;
            grpc_set_header Knative-Serving-Namespace $namespace;
            grpc_set_header Knative-Serving-Revision $revision;
            add_header X-Via $upstream_addr always;
        }}
    }}
}}
"""


#: nginx would use a connection of one HTTP version for the other, so each version has its group.
_KEPT: Final = "keepalive 64; keepalive_requests 1000000;"


class Ingress:
    """A running ingress.

    Attributes:
        http1, http2: its ports on 127.0.0.1.
    """

    def __init__(self, folder: Path, http1: int, http2: int) -> None:
        self.http1 = http1
        self.http2 = http2
        self._folder = folder

    @property
    def addresses(self) -> str:
        """Both addresses, for the clients."""
        return f"127.0.0.1:{self.http1},127.0.0.1:{self.http2}"

    def misnumbered(self) -> list[float]:
        """Return when nginx sent a request of HTTP/2 by a wrong stream number, in whole seconds.

        Times are of CLOCK_MONOTONIC. nginx 1.22 (and the source of 1.31) keeps the number of a
        kept connection when it repeats a request on a new one, where it expects number 1. So it
        takes the response for one of another stream, and responds with 502.
        """
        to_monotonic = time.monotonic() - time.time()
        return [
            time.mktime(time.strptime(line[:19], "%Y/%m/%d %H:%M:%S")) + to_monotonic
            for line in Path(f"{RESULTS}/ingress-error.log").read_text().splitlines()
            if "upstream sent frame for unknown stream" in line
        ]

    def take_out(self, number: int) -> None:
        """Send no new request to an activator, by its number."""
        (self._folder / f"out-{number}").touch()

    def put_in(self, number: int) -> None:
        """End the effect of `take_out`."""
        (self._folder / f"out-{number}").unlink(missing_ok=True)


@contextmanager
def running(folder: Path, activators: Sequence[str]) -> Iterator[Ingress]:
    """Provide an ingress in front of two activators.

    Arguments:
        activators: their addresses, as IP:PORT.

    Raises:
        CannotMeasure: nginx is missing, or does not start.
    """
    program = need("nginx", "nginx-light")
    folder.mkdir()
    ingress = Ingress(folder, free_port(), free_port())
    config = folder / "nginx.conf"
    config.write_text(configuration(ingress, folder, activators))
    command = [program, "-e", f"{RESULTS}/ingress-error.log", "-p", f"{folder}", "-c", f"{config}"]
    with started(command, "ingress"):
        wait_until(lambda: listens("127.0.0.1", ingress.http1), "the ingress listens")
        yield ingress


def configuration(ingress: Ingress, folder: Path, activators: Sequence[str]) -> str:
    """Return nginx's configuration."""
    groups = {"both": activators, **{f"only{n}": [each] for n, each in enumerate(activators)}}
    upstreams = "".join(
        f"    upstream {name}_{how} {{ {_servers(members)} {kept} }}\n"
        for name, members in groups.items()
        for how, kept in (("kept", _KEPT), ("kept_http2", _KEPT), ("fresh", ""))
    )
    choice = "set $who both;" + "".join(
        f" if (-f {folder}/out-{n}) {{ set $who only{1 - n}; }}" for n in range(len(activators))
    )
    return _CONFIG.format(
        user="user root;" if os.geteuid() == 0 else "",
        folder=folder,
        logs=RESULTS,
        endless=ENDLESS,
        revisions="|".join((WEB, RPC, COLD, LIAR)),
        upstreams=upstreams,
        choice=choice,
        http1=ingress.http1,
        http2=ingress.http2,
    )


def _servers(members: Sequence[str]) -> str:
    return " ".join(f"server {each} max_fails=0;" for each in members)
