"""Run a Python module in a process that ends when its standard input ends.

The lab starts its activator this way, so that the activator does not outlive a killed lab.

    python -m activator.lab.end_with_stdin activator local --manifests DIR
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


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
