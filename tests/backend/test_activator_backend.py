"""The build backend: what each build needs, its result, and its error messages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from activator.build import COMPILED

ROOT = Path(__file__).parents[2]
PROJECT = ("activator", "throttler", "backend", "setup.py", "pyproject.toml", "MANIFEST.in")
HOOK = """
import sys
sys.path.insert(0, "backend")
import activator_backend
print(getattr(activator_backend, sys.argv[1])(*sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project, since a build writes into the folder that it builds."""
    folder = tmp_path_factory.mktemp("project")
    for name in (*PROJECT, "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def hook(project, *words, **environment):
    """Call a hook as pip does: in a process of its own, in the project's folder."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HOOK, *map(str, words)],
        cwd=project,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_pure_wheel_is_for_any_python(project, tmp_path):
    done = hook(project, "build_wheel", tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == done.stdout.split()[-1]
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        lines = archive.read(metadata).decode().splitlines()
    assert "Root-Is-Purelib: true" in lines
    assert "Tag: py3-none-any" in lines
    assert not [name for name in names if name.endswith((".so", ".c", ".h"))]
    assert {f"{name.replace('.', '/')}.py" for name in COMPILED} <= set(names)
    assert not [name for name in names if name.startswith("backend")]
    pages = {page.name for page in (ROOT / "docs" / "reasons").glob("*.md")}
    assert {f"activator/pages/reasons/{page}" for page in pages} <= set(names)
    assert "activator/pages/runbooks/ActivatorNotReady.md" in names
    assert "activator/pages/scaler/why-is-my-service-not-scaled.md" in names


def test_a_source_distribution_holds_what_builds_it(project, tmp_path):
    done = hook(project, "build_sdist", tmp_path)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    backend = {path.relative_to(ROOT).as_posix() for path in (ROOT / "backend").glob("*.py")}
    assert backend | {"setup.py", "pyproject.toml", "activator/build.py"} <= names


@pytest.mark.parametrize("value", ["", "0"])
def test_a_pure_build_needs_nothing_more(project, value):
    done = hook(project, "get_requires_for_build_wheel", ACTIVATOR_COMPILE=value)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_compiled_build_needs_the_compiler_of_python(project, stand_in_for_gcc):
    done = hook(project, "get_requires_for_build_wheel", **stand_in_for_gcc)
    assert "mypy" in done.stdout.splitlines()[-1], done.stderr


@pytest.fixture
def stand_in_for_gcc(tmp_path):
    """A C compiler that takes anything, for machines that have none."""
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 0\n")
    compiler.chmod(0o755)
    return {"CC": str(compiler), "ACTIVATOR_COMPILE": "1"}


def test_any_other_value_is_refused_in_one_line(project):
    done = hook(project, "build_wheel", "unused", ACTIVATOR_COMPILE="yes")
    assert done.returncode == 1
    assert done.stderr == (
        "ACTIVATOR_COMPILE is 'yes': set it to 1 for a compiled build, or unset it\n"
    )


@pytest.mark.parametrize("step", ["get_requires_for_build_wheel", "build_wheel"])
def test_without_a_c_compiler_one_line_says_what_to_install(project, step):
    words = ["unused"] if step == "build_wheel" else []
    done = hook(project, step, *words, ACTIVATOR_COMPILE="1", CC="no-such-compiler")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("a compiled build needs a C compiler (no-such-compiler)")
    assert "apt-get install gcc libc6-dev" in line


@pytest.mark.parametrize("step", ["get_requires_for_build_editable", "build_editable"])
def test_an_editable_install_is_never_compiled(project, step):
    words = ["unused"] if step == "build_editable" else []
    done = hook(project, step, *words, ACTIVATOR_COMPILE="1")
    assert done.returncode == 1
    assert done.stderr == (
        "an editable install runs the source: unset ACTIVATOR_COMPILE, or omit -e\n"
    )


def test_a_wheel_that_lacks_an_extension_module_is_refused(project, tmp_path):
    check = (
        "import sys; from pathlib import Path; sys.path.insert(0, 'backend');"
        "import activator_backend; activator_backend._check_whole(Path(sys.argv[1]))"
    )
    paths = [f"{name.replace('.', '/')}.cpython-311-any.so" for name in COMPILED]
    for names, words in ((paths, ""), (paths[1:], f"lacks extension modules of: {COMPILED[0]}")):
        wheel = tmp_path / "some.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in names:
                archive.writestr(name, b"")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", check, str(wheel)],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, words in done.stderr) == (1 if words else 0, True), done.stderr
