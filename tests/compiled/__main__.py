"""Run tests on the compiled build: ``make test-compiled``, or this module by that environment.

The source must not be found before the installed build. So the tests are copied to a folder
without ``activator`` and ``throttler``, with links to other files that they read, and run there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
STAGE: Final = ROOT / "build" / "tests"
#: Files and folders that tests read, except their own folder.
LINKED: Final = (
    *("pyproject.toml", "README.md", "LICENSE", "setup.py", "Dockerfile", ".dockerignore"),
    *("requirements.lock", "requirements-build.lock"),
    *("backend", "benchmarks", "docs", "manifests"),
)
#: The tests that reach the compiled modules.
TESTED: Final = (
    "tests/throttler",
    "tests/activator/proxy",
    "tests/activator/autoscaler/test_concurrency.py",
    "tests/activator/test_build.py",
    "tests/activator/records/test_counters.py",
    "tests/activator/test_driver.py",
    "tests/activator/records/test_entries.py",
    "tests/activator/process/test_timers.py",
    "tests/compiled/test_installed.py",
    "tests/e2e",
    "tests/fuzz",
    "tests/grpc",
    "tests/image",
)
#: The fixture of tests/conftest.py that reads it fails each run on another build.
EXPECTED: Final = "EXPECT_BUILD"


def stage(folder: Path) -> None:
    """Create the folder in which the tests run."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)


def main() -> int:
    """Run pytest, or the fuzzer if the first word is ``fuzz``; return its exit status."""
    stage(STAGE)
    environment = {**os.environ, EXPECTED: "compiled"}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-m", *_command(sys.argv[1:])]
    return subprocess.run(command, cwd=STAGE, env=environment, check=False).returncode


def _command(words: list[str]) -> list[str]:
    if words[:1] == ["fuzz"]:
        return ["tests.fuzz", *words[1:]]
    named = any(word.startswith("tests/") for word in words)
    return ["pytest", "-n", "3", "--dist", "worksteal", *words, *(() if named else TESTED)]


if __name__ == "__main__":
    sys.exit(main())
