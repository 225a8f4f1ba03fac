"""Compile all test files before pytest's workers start: each worker would compile all of them.

pytest rewrites assertions, which takes 10 s for all files. ``python -m tests.bytecode`` collects
the files that are new or have changed, with one process per core.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import cache_from_source, source_hash
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
#: Changed files that the workers may compile; fewer would not pay for the start of pytest.
FEW: Final = 20


def stale(folder: Path) -> Iterator[Path]:
    """Yield the test files below a folder that pytest has not compiled as they are now."""
    for path in sorted(folder.rglob("test_*.py")):
        plain = cache_from_source(path, optimization="")
        compiled = Path(f"{plain.removesuffix('.pyc')}-pytest-{pytest.__version__}.pyc")
        try:
            header = compiled.read_bytes()[:16]
        except OSError:
            header = b""
        if header[8:] != source_hash(path.read_bytes()):
            yield path


def main() -> None:
    found = list(stale(TESTS))
    if len(found) < FEW:
        return
    parts = os.cpu_count() or 1
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    processes = [
        subprocess.Popen([*command, *map(str, found[part::parts])], stdout=subprocess.DEVNULL)
        for part in range(parts)
    ]
    for process in processes:
        process.wait()  # pytest itself reports errors of the collection, to the user of the suite


if __name__ == "__main__":
    main()
