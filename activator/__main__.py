"""Starts the program, by ``python -m activator`` or by the console script ``activator``.

The first process of a container gets no SIGTERM without a handler for it. Python loads the modules
for 0.3 s and more. A SIGTERM during that time would be lost, and Kubernetes would kill the pod
minutes later. So this module sets handlers before it loads anything else; the loop's handlers
replace them (activator/app.py).
"""

from __future__ import annotations

import sys

from activator.process.signals import end_by_ctrl_c, end_by_sigterm


def main() -> int:
    """Run the command that the arguments of this process name; see activator.cli.main.main."""
    end_by_ctrl_c()
    if sys.argv[1:2] != ["status"]:  # it serves nothing, and is no container's first process
        end_by_sigterm()
    from activator.cli.main import main as run_command

    status = run_command()
    end_by_ctrl_c()  # the end of a loop removes the handlers
    return status


if __name__ == "__main__":
    sys.exit(main())
