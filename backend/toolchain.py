"""A check whether this machine can compile an extension module."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

_PROGRAM = "#include <Python.h>\nint main(void) { return 0; }\n"


def check() -> None:
    """Check that a C compiler and the headers of C and Python are installed.

    Raises:
        SystemExit: with one sentence that names what is missing and the Debian packages.
    """
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    headers = Path(sysconfig.get_path("include"))
    missing: list[tuple[str, str]] = []
    if not shutil.which(compiler[0]):
        missing.append((f"a C compiler ({compiler[0]})", "gcc libc6-dev"))
    if not (headers / "Python.h").exists():
        missing.append((f"Python's headers ({headers}/Python.h)", "python3-dev"))
    if not missing and not _compiles(compiler, headers):
        missing.append(("the headers of the C library", "libc6-dev"))
    if missing:
        what = " and ".join(name for name, _ in missing)
        packages = " ".join(package for _, package in missing)
        raise SystemExit(f"a compiled build needs {what}; on Debian: apt-get install {packages}")


def _compiles(compiler: list[str], headers: Path) -> bool:
    command = [*compiler, f"-I{headers}", "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(command, input=_PROGRAM, capture_output=True, text=True, check=False)
    return done.returncode == 0
