"""Prints what a compiled build requires: pyproject.toml's lines and mypy. For ``make lock``."""

import tomllib
from pathlib import Path

from activator_backend import COMPILER

if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text())
    print(*project["build-system"]["requires"], COMPILER, sep="\n")
