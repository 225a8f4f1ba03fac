"""The program, by ``python -m activator`` or by the console script ``activator``.

The first process of a container does not get a SIGTERM for which it has no handler: one that came
while modules are loaded, 0.3 s and more, would be lost, and the pod be killed minutes later. So a
handler is there before anything is loaded; the loop's takes its place (activator/app.py).
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command that the words of this process name; see activator.cli.main."""
    if sys.argv[1:2] != ["status"]:  # which has nothing to end, and no first process's duties
        signal.signal(signal.SIGTERM, _end)
    from activator.cli import main as run_command

    return run_command()


def _end(number: int, frame: object) -> None:
    """End at once: no listener is open, so there is nobody to tell. An exception could be caught
    by whatever is being loaded."""
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
