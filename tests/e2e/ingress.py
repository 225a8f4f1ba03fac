"""nginx as the ingress: it names the revision of each request and spreads requests over activators.

nginx retries no request, so tests see each request that an activator loses.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from activator.lab.programs import fetch
from tests.ports import hold, port_of
from tests.process import until
from tests.programs import need

#: The service's host, and the revision that the route names for it.
HOST, REVISION = "app.example.com", "app-00001"

_CONFIG = """\
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  upstream activators {{
    {servers}
    keepalive 16;
  }}
  server {{
    listen 127.0.0.1:{port};
    location = /.ingress/generation {{ return 200 "{generation}"; }}
    location / {{
      proxy_pass http://activators;
      proxy_http_version 1.1;
      proxy_next_upstream off;
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_set_header Host $host;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_set_header Knative-Serving-Namespace default;
      proxy_set_header Knative-Serving-Revision {revision};
    }}
  }}
}}
"""


def need_nginx() -> str:
    """Return the path of nginx; see ``tests.programs.need``."""
    return need("nginx", "nginx-light")


class Ingress:
    """nginx runs inside the block; ``port`` on 127.0.0.1 accepts the requests of clients."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._config = folder / "nginx.conf"
        self._generation = 0
        self._process: Process | None = None
        self._held = hold()
        self.port = port_of(self._held)

    async def __aenter__(self) -> Ingress:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()
        self._held.close()

    async def share_among(self, activators: Sequence[tuple[str, int]]) -> None:
        """Send all further requests to these addresses, in turn."""
        self._generation += 1
        servers = "\n    ".join(f"server {ip}:{port} max_fails=0;" for ip, port in activators)
        self._config.write_text(
            _CONFIG.format(
                folder=self._folder,
                # Under root the worker runs as a user without access to this folder.
                user="user root;" if os.getuid() == 0 else "",
                servers=servers,
                port=self.port,
                generation=self._generation,
                revision=REVISION,
            )
        )
        if self._process is None:
            # -e: before nginx has read its configuration it logs to a file of root alone.
            self._process = await asyncio.create_subprocess_exec(
                *(need_nginx(), "-e", str(self._folder / "error.log")),
                *("-p", str(self._folder), "-c", str(self._config)),
                stdin=DEVNULL,
                stdout=DEVNULL,
            )
        else:
            self._process.send_signal(signal.SIGHUP)
        await until(self._is_programmed, f"nginx goes by its configuration: {self.log}")

    @property
    def log(self) -> str:
        """Return the error log of nginx."""
        log = self._folder / "error.log"
        return log.read_text() if log.exists() else ""

    async def _is_programmed(self) -> bool:
        assert self._process is not None
        assert self._process.returncode is None, f"nginx has ended: {self.log}"
        try:
            reply = await fetch("127.0.0.1", self.port, "/.ingress/generation")
        except OSError:
            return False
        return reply.body == str(self._generation)

    async def fetch(self, path: str = "/", method: str = "GET", **headers: str) -> Any:
        """Send one request on a new connection and return the response, see ``world.fetch``."""
        given = {"Host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return await fetch("127.0.0.1", self.port, path, method, given)
