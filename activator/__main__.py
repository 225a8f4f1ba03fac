"""Starts the program, by ``python -m activator`` or by the console script ``activator``.

The first process of a container gets no SIGTERM without a handler for it. Python loads the modules
for 0.3 s and more. A SIGTERM during that time would be lost, and Kubernetes would kill the pod
minutes later. So this module sets a handler before it loads anything; the loop's handler replaces
it (activator/app.py).
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command that the arguments of this process name; see activator.cli.main.main."""
    if sys.argv[1:2] != ["status"]:  # it serves nothing, and is no container's first process
        signal.signal(signal.SIGTERM, _end)
    from activator.cli.main import main as run_command

    return run_command()


def _end(number: int, frame: object) -> None:
    """End the process at once, as no listener is open yet.

    A module that is being loaded could catch an exception.
    """
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
