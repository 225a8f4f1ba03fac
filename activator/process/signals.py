"""Ends a process by a signal at once, while no loop handles its signals.

Python's own handler raises KeyboardInterrupt wherever the signal arrives. There it can become
another error, as in ``threading.Condition.wait``, in a class body or in an extension module that is
being loaded. In a finalizer it is lost. So the handlers of this module raise nothing. It imports
only what is fast to load: until then, Python's own handler is in force.
"""

from __future__ import annotations

import os
import signal

#: The exit status after Ctrl-C: 128 + SIGINT, as shells have it.
INTERRUPTED = 130


def end_by_ctrl_c() -> None:
    """Let SIGINT end the process with status 130, unless the process ignores SIGINT.

    A shell without job control starts commands in the background with SIGINT ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)


def end_by_sigterm() -> None:
    """Let SIGTERM end the process with status 0."""
    signal.signal(signal.SIGTERM, _terminated)


def write(descriptor: int, data: bytes) -> None:
    """Write to a terminal, if it still exists."""
    try:  # contextlib takes milliseconds to load
        os.write(descriptor, data)
    except OSError:
        pass


def _interrupted(number: int, frame: object) -> None:
    write(2, b"\n")  # the shell's prompt belongs below the terminal's ^C
    os._exit(INTERRUPTED)


def _terminated(number: int, frame: object) -> None:
    os._exit(0)
