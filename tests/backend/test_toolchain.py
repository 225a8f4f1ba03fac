"""What is said of a machine that cannot compile."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "backend"))

import toolchain


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """A stand-in for a C compiler; its exit status is in a file beside it."""
    program = tmp_path / "cc"
    program.write_text(f"#!/bin/sh\nexit $(cat {tmp_path}/status)\n")
    program.chmod(0o755)
    (tmp_path / "status").write_text("0")
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("CC", f"{program} -pthread")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    return tmp_path


def test_nothing_is_missing(compiler):
    toolchain.check()


@pytest.mark.parametrize(
    ("break_it", "packages"),
    [
        (lambda folder: (folder / "cc").unlink(), "gcc libc6-dev"),
        (lambda folder: (folder / "Python.h").unlink(), "python3-dev"),
        (lambda folder: (folder / "status").write_text("1"), "libc6-dev"),
    ],
    ids=["compiler", "headers of Python", "headers of C"],
)
def test_one_sentence_names_what_is_missing_and_its_packages(compiler, break_it, packages):
    break_it(compiler)
    with pytest.raises(SystemExit) as error:
        toolchain.check()
    assert str(error.value).startswith("a compiled build needs ")
    assert str(error.value).endswith(f"; on Debian: apt-get install {packages}")


def test_all_that_is_missing_is_named_at_once(compiler):
    (compiler / "cc").unlink()
    (compiler / "Python.h").unlink()
    with pytest.raises(SystemExit, match=r"gcc libc6-dev python3-dev$"):
        toolchain.check()
