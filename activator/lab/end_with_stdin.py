"""Run a Python module in a process that ends when its standard input ends.

The lab starts its programs and pods this way, so that they do not outlive a killed lab.

    python -m activator.lab.end_with_stdin activator local --manifests DIR
"""

from __future__ import annotations

import asyncio
import os
import runpy
import sys
import threading
from asyncio.subprocess import PIPE, Process
from typing import Any


async def start(module: str, *arguments: str, **more: Any) -> Process:
    """Start a Python module in a process that ends with this one, even if this one is killed.

    Arguments:
        more: as `asyncio.create_subprocess_exec` takes them.
    """
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "activator.lab.end_with_stdin", module, *arguments),
        stdin=PIPE,
        start_new_session=True,  # a Ctrl-C must not reach it: the lab ends it in order
        **more,
    )


def main() -> None:
    """Run the module of the first argument; it gets the other arguments."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
