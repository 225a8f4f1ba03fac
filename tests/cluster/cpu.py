"""Limits the CPU of a container's processes, as kubelet and the runtime do by control groups."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

#: Microseconds of CPU time that a limit is about.
_PERIOD: Final = 100_000
_ROOT: Final = Path("/sys/fs/cgroup")


def thousandths(resources: Any, kind: str) -> int:
    """Return a container's ``requests`` or ``limits`` of CPU in thousandths; 0 for none."""
    text = str((resources.get(kind) or {}).get("cpu", 0))
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


class CpuGroup:
    """One container. Without control groups for CPU, a process with a small limit is stopped."""

    def __init__(self, name: str) -> None:
        self._version_1 = (_ROOT / "cpu" / "cpu.cfs_quota_us").exists()
        self._folder = _ROOT / ("cpu" if self._version_1 else "") / name

    def limit(self, pid: int, limit: int) -> None:
        """Limit a process and its later children; 0 removes the limit."""
        quota = max(1000, limit * _PERIOD // 1000) if limit else -1
        try:
            self._folder.mkdir(exist_ok=True)
            if self._version_1:
                (self._folder / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                text = "max" if quota < 0 else str(quota)
                (self._folder / "cpu.max").write_text(f"{text} {_PERIOD}")
            (self._folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP if 0 < limit <= 10 else signal.SIGCONT)

    def remove(self) -> None:
        """Remove the group of a container that has ended."""
        with suppress(OSError):
            self._folder.rmdir()
