"""Runs a command of Python with the TLS of aiofastnet in place of uvloop's.

``python -m benchmarks.fastnet PYTHON -m MODULE …`` replaces the arguments of this process, and
runs the module in it. It shows the cost of that package, and is no way to run the activator: a
renewed certificate stays unused.
"""

from __future__ import annotations

import runpy
import ssl
import sys
from collections.abc import Callable
from typing import Any

import uvloop


def _loop() -> type[uvloop.Loop]:
    """Return the class of a loop that leaves TLS connections to aiofastnet."""
    import aiofastnet  # optional: only for this comparison

    class Loop(uvloop.Loop):
        async def connect_accepted_socket(  # type: ignore[override] # fewer names than uvloop's
            self,
            make: Callable[[], Any],
            sock: Any,
            *,
            ssl: ssl.SSLContext | None = None,
            **how: Any,
        ) -> Any:
            if ssl is None:
                return await super().connect_accepted_socket(make, sock, **how)
            ssl.sni_callback = None  # with it, aiofastnet 1.2.0 ends the process by SIGSEGV
            return await aiofastnet.connect_accepted_socket(self, make, sock, ssl=ssl, **how)

        async def create_connection(self, *where: Any, **how: Any) -> Any:
            if how.get("ssl") is None:
                return await super().create_connection(*where, **how)
            return await aiofastnet.create_connection(self, *where, **how)

    return Loop


if __name__ == "__main__":
    uvloop.new_event_loop = _loop()
    module = sys.argv[3]
    sys.argv[:] = [module, *sys.argv[4:]]
    runpy.run_module(module, run_name="__main__")
