"""The build backend: setuptools, and mypyc if ``ACTIVATOR_COMPILE=1`` requests a compiled build.

A pure build needs only setuptools. A compiled build also needs mypy, a C compiler and Python's
headers. PEP 517 and PEP 660 define the hooks; pyproject.toml names this module.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

import compiling
import toolchain

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

SWITCH = "ACTIVATOR_COMPILE"
#: A new version may miscompile the code: raise it only after all tests pass on a compiled build.
COMPILER = "mypy[mypyc]>=2.4,<2.5"

_Config = Mapping[str, Any] | None


def wants_compiled() -> bool:
    """Return whether the environment requests a compiled build.

    Raises:
        SystemExit: the variable's value is not 0, 1 or empty.
    """
    value = os.environ.get(SWITCH, "")
    if value not in ("", "0", "1"):
        raise SystemExit(f"{SWITCH} is {value!r}: set it to 1 for a compiled build, or unset it")
    return value == "1"


def get_requires_for_build_wheel(config_settings: _Config = None) -> list[str]:
    """Return the build requirements in addition to pyproject.toml's."""
    required = list(build_meta.get_requires_for_build_wheel(config_settings))
    if wants_compiled():
        toolchain.check()
        required.append(COMPILER)
    return required


def build_wheel(
    wheel_directory: str, config_settings: _Config = None, metadata_directory: str | None = None
) -> str:
    """Build a pure wheel or, if requested, a compiled one; return its file name."""
    if not wants_compiled():
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    toolchain.check()
    with compiling.enabled():
        name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    _check_whole(Path(wheel_directory) / name)
    return name


def get_requires_for_build_editable(config_settings: _Config = None) -> list[str]:
    """Return the build requirements of an editable install, which is always pure."""
    _refuse_editable()
    return list(build_meta.get_requires_for_build_editable(config_settings))


def build_editable(
    wheel_directory: str, config_settings: _Config = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel; return its file name."""
    _refuse_editable()
    return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def _refuse_editable() -> None:
    if wants_compiled():
        raise SystemExit(f"an editable install runs the source: unset {SWITCH}, or omit -e")


def _check_whole(wheel: Path) -> None:
    """Exit unless the wheel has an extension module for each module of the table."""
    with zipfile.ZipFile(wheel) as archive:
        built = {name.partition(".")[0].replace("/", ".") for name in _extensions(archive)}
    missing = sorted(set(compiling.modules()) - built)
    if missing:
        raise SystemExit(f"the compiled wheel lacks extension modules of: {', '.join(missing)}")


def _extensions(archive: zipfile.ZipFile) -> list[str]:
    return [name for name in archive.namelist() if name.endswith((".so", ".pyd"))]
