"""The coverage that ``make test`` demands: fails with each line and branch that is missing.

``python -m tests.coverage_gate`` reads ``.coverage``, which pytest writes with ``--cov``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from coverage import Coverage
from coverage.exceptions import NoDataError

#: The least coverage of each package, lines and branches, per cent. It may only grow.
LEAST: Final = {"throttler": 100.0, "activator": 92.5}
#: Started as processes of their own, which are not traced: tests/e2e and test_app.py run them.
PROCESSES: Final = ("activator/lab/*", "activator/app.py", "activator/__main__.py")


def percent(files: dict[str, Any]) -> float:
    """Return which part of the lines and branches of these files is covered."""
    sums = [one["summary"] for one in files.values()]
    covered = sum(one["covered_lines"] + one["covered_branches"] for one in sums)
    return 100.0 * covered / sum(one["num_statements"] + one["num_branches"] for one in sums)


def missing(files: dict[str, Any]) -> Iterator[str]:
    """Yield each line and branch that is not covered, as ``file:line: what``."""
    for name, one in files.items():
        for line in one["missing_lines"]:
            yield f"{name}:{line}: no test runs this line"
        for begin, end in one["missing_branches"]:
            if begin not in one["missing_lines"]:
                target = "the end of the function" if end < 0 else f"line {end}"
                yield f"{name}:{begin}: no test goes from here to {target}"


def report(data: Coverage) -> dict[str, Any]:
    """Return coverage's report on each file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "coverage.json")
        data.json_report(outfile=str(file), omit=list(PROCESSES))
        files: dict[str, Any] = json.loads(file.read_text())["files"]
    return files


def main() -> int:
    """Print the coverage of each package; return 1 if one has too little, 2 without any data."""
    data = Coverage()
    data.load()
    try:
        files = report(data)
    except NoDataError:
        print("no coverage was measured: run pytest with --cov")
        return 2
    failed = False
    for package, least in LEAST.items():
        own = {name: one for name, one in files.items() if name.startswith(f"{package}/")}
        found = percent(own)
        print(f"coverage of {package}: {found:.1f} %, at least {least:g} %")
        if found < least:
            failed = True
            print(*missing(own), sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
