"""The coverage that ``make test`` demands: fails with each line and branch that is missing.

``python -m tests.coverage_gate`` reads ``.coverage``, which pytest writes with ``--cov``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from coverage import Coverage
from coverage.exceptions import NoDataError
from coverage.report_core import get_analysis_to_report
from coverage.results import Analysis

#: The least coverage of each package, lines and branches, per cent. It may only grow.
LEAST: Final = {"throttler": 100.0, "activator": 92.5}
#: Started as processes of their own, which are not traced: tests/e2e and test_app.py run them.
PROCESSES: Final = ("activator/lab/*", "activator/app.py", "activator/__main__.py")


def percent(files: Mapping[str, Analysis]) -> float:
    """Return which part of the lines and branches of these files is covered."""
    ratios = [one.numbers.ratio_covered for one in files.values()]
    return 100.0 * sum(covered for covered, _ in ratios) / sum(count for _, count in ratios)


def missing(files: Mapping[str, Analysis]) -> Iterator[str]:
    """Yield each line and branch that is not covered, as ``file:line: what``."""
    for name, one in files.items():
        for line in sorted(one.missing):
            yield f"{name}:{line}: no test runs this line"
        for begin, ends in sorted(one.missing_branch_arcs().items()):
            if begin in one.missing:
                continue
            for end in ends:
                target = "the end of the function" if end < 0 else f"line {end}"
                yield f"{name}:{begin}: no test goes from here to {target}"


def report(data: Coverage) -> dict[str, Analysis]:
    """Return coverage's analysis of each file; a report of coverage takes twice as long."""
    data.set_option("report:omit", list(PROCESSES))
    return {file.relative_filename(): found for file, found in get_analysis_to_report(data, None)}


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
