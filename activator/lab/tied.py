"""Runs a program of Python's that ends when its standard input does, however its parent went.

The lab's activator is an ordinary one, which knows no parent: without this, it would outlive a lab
that was killed.

    python -m activator.lab.tied activator local --manifests DIR
"""

from __future__ import annotations

import os
import runpy
import sys
import threading


def main() -> None:
    """Runs the module that the first word names, with the others as its own."""
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _end_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
