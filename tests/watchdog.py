"""End a worker of pytest whose test hangs, so that pytest-xdist names the test.

A time limit per test, by a signal or a thread, would cost each of them time. It would not interrupt
a hang outside Python's code, as in the end of a loop. This limit is set for many tests at a time.
"""

from __future__ import annotations

import faulthandler
import os
import time
from pathlib import Path
from typing import Final

import pytest

#: Seconds that each test has at least, on a busy machine.
LIMIT: Final = 180.0
#: The same for tests that wait for the controllers of a cluster.
CLUSTER_LIMIT: Final = 600.0
_CLUSTER: Final = Path(__file__).with_name("cluster")
#: Seconds from one time that the limit is set to the next.
STEP: Final = 10.0


class Watchdog:
    """Prints the stacks of all threads and ends the process when a test has had its time.

    Arguments:
        file: the descriptor of the file that gets the stacks.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._set_at = float("-inf")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Set the limit again, unless that was just done."""
        limit = CLUSTER_LIMIT if item.path.parent == _CLUSTER else LIMIT
        now = time.monotonic()
        if now - self._set_at >= STEP:
            self._set_at = now
            faulthandler.dump_traceback_later(limit + STEP, exit=True, file=self._file)

    def pytest_enter_pdb(self) -> None:
        """Remove the limit: a person debugs the test."""
        self._set_at = float("inf")
        faulthandler.cancel_dump_traceback_later()

    def pytest_unconfigure(self) -> None:
        """Remove the limit."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self._file)


def pytest_configure(config: pytest.Config) -> None:
    """Watch this process; its standard error is not captured yet."""
    config.pluginmanager.register(Watchdog(os.dup(2)))
