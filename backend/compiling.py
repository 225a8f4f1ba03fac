"""The extension modules of a compiled build: mypyc compiles the modules in activator/build.py.

mypyc writes one C file for each module, and links all into one library, so that calls between
modules are direct. As many compilers run in parallel as there are cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

#: Where mypyc writes the C files.
C_FILES = Path("build") / "mypyc"
#: -O3 inlines much into each module's top level: it took minutes longer without a gain.
OPTIMISATION = "2"
#: `make check` checks types; a build may use libraries without types.
_MYPY_OPTIONS = ("--config-file=", "--ignore-missing-imports", "--follow-imports=silent")

_enabled = False


@contextmanager
def enabled() -> Iterator[None]:
    """Make ``arguments`` add the extension modules during the block."""
    global _enabled
    _enabled = True
    try:
        yield
    finally:
        _enabled = False


def modules() -> tuple[str, ...]:
    """Return the modules of the table in activator/build.py, of the tree that is built."""
    sys.path.insert(0, os.getcwd())
    try:
        from activator.build import COMPILED
    finally:
        sys.path.remove(os.getcwd())
    return COMPILED


def arguments() -> dict[str, Any]:
    """Return arguments of ``setup`` in addition to pyproject.toml; none for a pure build."""
    if not _enabled:
        return {}
    return {"ext_modules": _extensions(), "cmdclass": {"build_ext": BuildSideBySide}}


def _extensions() -> list[Extension]:
    from mypyc.build import mypycify

    C_FILES.mkdir(parents=True, exist_ok=True)
    return mypycify(
        [*_MYPY_OPTIONS, *(f"{name.replace('.', '/')}.py" for name in modules())],
        opt_level=OPTIMISATION,
        debug_level="0",
        multi_file=True,
        target_dir=str(C_FILES),
        group_name="activator",
    )


def cores() -> int:
    """Return how many compilers may run in parallel."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class BuildSideBySide(build_ext):
    """Compiles the C files of an extension module in parallel, then links them."""

    def finalize_options(self) -> None:
        """Build the small extension modules in parallel, too."""
        super().finalize_options()
        self.parallel = self.parallel or cores()

    def build_extension(self, ext: Extension) -> None:
        """Compile each source on its own; setuptools links them."""
        if len(ext.sources) > 1:
            with ThreadPoolExecutor(cores()) as pool:
                objects = list(pool.map(lambda source: self._object(ext, source), ext.sources))
            ext.extra_objects = [*(ext.extra_objects or ()), *objects]
            ext.sources = []
        super().build_extension(ext)

    def _object(self, ext: Extension, source: str) -> str:
        (built,) = self.compiler.compile(
            [source],
            output_dir=self.build_temp,
            macros=ext.define_macros,
            include_dirs=ext.include_dirs,
            extra_postargs=ext.extra_compile_args,
            depends=ext.depends,
        )
        return str(built)
