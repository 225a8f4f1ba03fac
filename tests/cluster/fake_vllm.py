"""A server with the paths of vLLM's sleep mode: ``python -m tests.cluster.fake_vllm``.

``GET /counts`` returns how many requests came while it slept, which must be none.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event
from typing import Final

#: Seconds to load the model from the memory of the machine.
LOADS: Final = 0.3


class State:
    """What all requests share."""

    asleep = False
    lost = 0


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        """Respond to a GET."""
        if self.path == "/is_sleeping":
            self._respond({"is_sleeping": State.asleep})
        elif self.path == "/counts":
            self._respond({"lost": State.lost})
        elif self.path == "/healthz":
            self._respond({})
        else:
            State.lost += State.asleep
            self._respond({"model": "m"})

    def do_POST(self) -> None:
        """Respond to a POST."""
        if self.path == "/wake_up":
            Event().wait(LOADS)
        State.asleep = self.path.startswith("/sleep")
        self._respond({})

    def _respond(self, found: object) -> None:
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", 8080), Handler).serve_forever()
