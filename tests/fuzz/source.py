"""Runs the source of an installed compiled build: a wheel holds it beside the extension modules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Final

PACKAGES: Final = ("activator", "throttler")


class _SourceFinder(MetaPathFinder):
    """Finds only the source of modules of this project."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in PACKAGES:
            return None
        for folder in sys.path if path is None else path:
            found = FileFinder(folder or ".", (SourceFileLoader, [".py"])).find_spec(name)
            if found is not None and found.loader is not None:
                return found
        return None


def run_source() -> None:
    """Make this process import the source of this project, even beside compiled modules."""
    early = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
    assert not early, f"imported before: {early}"
    sys.meta_path.insert(0, _SourceFinder())
    from activator.build import Build, running

    assert running() is Build.PURE
