"""Print the requirements of a compiled build, pyproject.toml's lines and mypy."""

import tomllib
from pathlib import Path

from activator_backend import COMPILER

if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text())
    print(*project["build-system"]["requires"], COMPILER, sep="\n")
