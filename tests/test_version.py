"""The version has one source, ``activator/__init__.py``; all other places have the same one.

The wheel takes it from there (pyproject.toml). ``python -m tests.test_version`` writes it into the
other places. ``python -m tests.test_version 1.2.3`` sets a new version everywhere.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from activator import __version__
from tests.guards import expect_none

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = "activator/__init__.py"
#: Three numbers are a version for Python (PEP 440) and for Helm (SemVer), which differ otherwise.
VERSION: Final = r"\d+\.\d+\.\d+"
#: The text in front of each version, by file. Each text must occur.
PLACES: Final[dict[str, tuple[str, ...]]] = {
    "Dockerfile": ('org.opencontainers.image.version="',),
    "activator/cli/main.py": ("activator version    activator ",),
    "docs/how-to/build.md": (r"\nactivator ",),
    "docs/how-to/deploy-on-knative.md": ("registry.example.com/activator:", "newTag: "),
    "docs/how-to/from-keda-http-add-on.md": ("registry.example.com/activator:",),
    "docs/reference.md": (r"\n    activator ",),
    "manifests/chart/Chart.yaml": (r"\nversion: ", r'\nappVersion: "'),
    "manifests/base/deployment.yaml": ("registry.invalid/activator:",),
    "manifests/examples/wake-all.yaml": ("registry.invalid/activator:",),
    "manifests/keda-http/patch.yaml": ("registry.invalid/activator:",),
    "manifests/keda-http-scaler/scaler.yaml": ("registry.invalid/activator:",),
    "manifests/overlays/knative/kustomization.yaml": ("newTag: ",),
    "manifests/overlays/services/kustomization.yaml": ("newTag: ",),
    "manifests/scale/deployment.yaml": ("registry.invalid/activator:",),
}
HINT: Final = "`python -m tests.test_version` writes the version"


def _others(name: str, text: str) -> Iterator[str]:
    for prefix in PLACES[name]:
        found = re.findall(f"{prefix}({VERSION})", text)
        if not found:
            yield f"{name}: no version after {prefix!r}"
        yield from (f"{name}: {each} after {prefix!r}" for each in found if each != __version__)


def test_all_places_have_the_version_of_the_source() -> None:
    expect_none(
        (each for name in PLACES for each in _others(name, (ROOT / name).read_text())), HINT
    )


def test_the_wheel_takes_the_version_from_the_source() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["dynamic"] == ["version"]
    dynamic = settings["tool"]["setuptools"]["dynamic"]["version"]
    assert dynamic == {"attr": "activator.__version__"}
    assert re.fullmatch(VERSION, __version__)


def test_the_newest_version_of_the_changelog_is_this_one() -> None:
    newest = re.search(rf"^## \[({VERSION})\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


def write(version: str) -> None:
    """Write the version into its source and into all places; the changelog is left to people.

    Raises:
        SystemExit: the text is no version.
    """
    if not re.fullmatch(VERSION, version):
        raise SystemExit(f"{version!r} is no version: use three numbers, as in 1.2.3")
    for name, prefixes in {SOURCE: ('__version__ = "',), **PLACES}.items():
        path = ROOT / name
        text = path.read_text()
        for prefix in prefixes:
            text = re.sub(f"({prefix}){VERSION}", rf"\g<1>{version}", text)
        path.write_text(text)


if __name__ == "__main__":
    write(sys.argv[1] if len(sys.argv) > 1 else __version__)
