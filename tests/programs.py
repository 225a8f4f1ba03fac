"""Programs and packages of tests: without one, a test is skipped; in CI it fails."""

from __future__ import annotations

import importlib
import os
import shutil
from typing import Any, Final, NoReturn

import pytest

#: The variable that CI systems set; ``.ci/run`` sets it too. A skipped test would not be noticed.
CI: Final = "CI"


class Missing(Exception):
    """The program is not installed; the text says how to install it."""


def find(program: str, package: str) -> str:
    """Return the path of a program.

    Arguments:
        package: the Debian package that has it.

    Raises:
        Missing: it is not installed.
    """
    # Debian installs servers in /usr/sbin, which is not in the path of each user.
    path = shutil.which(program, path=os.environ.get("PATH", "") + f"{os.pathsep}/usr/sbin")
    if path is None:
        raise Missing(f"{program} is missing; on Debian: apt-get install {package}")
    return path


def need(program: str, package: str) -> str:
    """Return the path of a program that a test runs; see ``find``.

    Raises:
        pytest.skip.Exception: it is not installed.
        pytest.fail.Exception: it is not installed in CI.
    """
    try:
        return find(program, package)
    except Missing as missing:
        skip(str(missing))


def package(name: str) -> Any:
    """Return a Python package that only one file of tests needs.

    Raises:
        pytest.skip.Exception: it is not installed.
        pytest.fail.Exception: it is not installed in CI.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        skip(f"the package {name} is missing; pip install -e '.[dev]'")


def skip(reason: str) -> NoReturn:
    """Skip the test that runs; in CI let it fail."""
    if os.environ.get(CI):
        pytest.fail(f"{reason}; CI skips no test", pytrace=False)
    pytest.skip(reason)
