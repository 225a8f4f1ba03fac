"""Gives the same bytes to the parsers of both builds: ``make fuzz``, with a compiled build.

Two processes run the same inputs, one the compiled build, the other the source beside it. Each
prints a digest for each input; where two differ, the input and both outcomes are printed.

    python -m tests.fuzz --inputs 200000
    python -m tests.fuzz --only 4711      one input, with its outcomes
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from tests.fuzz.outcome import digest, outcome
from tests.fuzz.source import run_source

#: At most so many differences are printed.
SHOWN: Final = 5
WORKER: Final = ("-m", "tests.fuzz", "--worker")


def main() -> int:
    """Compare two builds.

    Returns:
        0 if all outcomes are equal, 1 if one is not, 2 if there is no compiled build.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--inputs", type=int, default=200_000, help="how many (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of all inputs (default: %(default)s)")
    parser.add_argument("--only", type=int, help="one input by its number")
    parser.add_argument("--worker", choices=("source", "installed"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    numbers = (
        range(options.inputs) if options.only is None else range(options.only, options.only + 1)
    )
    if options.worker:
        _work(options.worker, options.seed, numbers, whole=options.only is not None)
        return 0
    if not _is_compiled():
        print("this Python runs the source: run make fuzz")
        return 2
    if options.only is not None:
        show(options.seed, options.only)
        return 0
    return compare(options.seed, numbers)


def _is_compiled() -> bool:
    from activator.build import Build, running

    return running() is Build.COMPILED


def compare(seed: int, numbers: range) -> int:
    different = []
    for number, (source, installed) in zip(numbers, outcomes(seed, numbers), strict=True):
        if source != installed:
            different.append(number)
            if len(different) <= SHOWN:
                show(seed, number)
    print(f"{len(numbers):,} inputs of seed {seed}: {len(different) or 'no'} different outcomes")
    return 1 if different else 0


def outcomes(seed: int, numbers: range) -> Iterator[tuple[str, str]]:
    """Yield the digests of each input, of the source and of the installed build."""
    with ExitStack() as stack:
        workers = [
            stack.enter_context(_worker(build, seed, "--inputs", str(len(numbers))))
            for build in ("source", "installed")
        ]
        outputs: list[IO[str]] = [worker.stdout for worker in workers if worker.stdout]
        yield from zip(*outputs, strict=True)
    assert all(worker.returncode == 0 for worker in workers), "a worker has failed, see above"


def _worker(build: str, seed: int, *more: str) -> subprocess.Popen[str]:
    # One hash seed for both: sets of bytes are written in the order of their hashes.
    return subprocess.Popen(
        [sys.executable, *WORKER, build, "--seed", str(seed), *more],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


def show(seed: int, number: int) -> None:
    from tests.fuzz.inputs import made

    parser, pieces = made(seed, number)
    print(f"input {number} of seed {seed}, for {parser}:")
    print(f"  pieces     {pieces!r}")
    for build in ("source", "installed"):
        with _worker(build, seed, "--only", str(number)) as worker:
            assert worker.stdout is not None
            print(f"  {build:9}  {worker.stdout.read().rstrip()}")


def _work(build: str, seed: int, numbers: range, *, whole: bool) -> None:
    if build == "source":
        run_source()
    from tests.fuzz.inputs import made  # of the build that was chosen
    from tests.fuzz.parsers import PARSERS

    for number in numbers:
        name, pieces = made(seed, number)
        found = outcome(PARSERS[name].parse, pieces)
        print(found if whole else digest(found))


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    sys.exit(main())
