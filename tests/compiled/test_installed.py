"""The compiled build as it is installed; these tests run by ``make test-compiled`` alone."""

from __future__ import annotations

import os
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from activator import build
from activator.build import COMPILED, Build

pytestmark = pytest.mark.skipif(
    build.running() is Build.PURE, reason="this run is on the source: make test-compiled"
)


def test_the_wheel_is_for_this_python_and_this_platform_alone():
    metadata = distribution("activator").read_text("WHEEL")
    assert metadata is not None
    assert "Root-Is-Purelib: false" in metadata.splitlines()
    (tag,) = (line for line in metadata.splitlines() if line.startswith("Tag: "))
    python, abi, platform = tag.removeprefix("Tag: ").split("-")
    assert python == f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert abi.startswith(python)
    assert platform != "any"


def test_it_holds_the_source_beside_each_extension_module_and_no_c():
    files = {str(path) for path in distribution("activator").files or ()}
    compiled = {path.partition(".")[0].replace("/", ".") for path in files if path.endswith(".so")}
    assert set(COMPILED) <= compiled
    assert compiled - set(COMPILED) == {"activator__mypyc"}
    assert {f"{name.replace('.', '/')}.py" for name in COMPILED} <= files
    assert not [path for path in files if path.endswith((".c", ".h", ".o"))]


def test_what_the_tests_import_is_what_was_installed():
    assert os.environ["EXPECT_BUILD"] == "compiled"
    here = Path(build.__file__).resolve()
    assert Path.cwd() not in here.parents
    assert "site-packages" in here.parts
