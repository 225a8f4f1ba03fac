"""Which modules are compiled, and how a process reports its build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from activator import __version__, build
from activator.build import COMPILED, Build
from activator.cli.main import main
from tests.conftest import on_uvloop
from tests.process import ANY_PORTS, activator

#: The modules of these packages must be in one of the two tables.
PACKAGES = ("throttler", "activator/proxy", "activator/proxy/http2")

_BASE: Final = "its class derives from a library's, which makes every access slow"
_TUPLE: Final = "its class derives from tuple, which native code would replace by a plain pair"
_OSERROR: Final = "its class derives from OSError, which mypyc refuses"

#: The modules of throttler and activator.proxy that stay interpreted, and why.
INTERPRETED: Final[dict[str, str]] = {
    "activator.proxy.client.listener": _BASE,
    "activator.proxy.http2.never_indexed": _TUPLE,
    "activator.proxy.pods.dial": _OSERROR,
}


def test_each_module_of_the_byte_path_is_compiled_or_has_a_reason_why_not():
    root = Path(build.__file__).parents[1]
    there = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for package in PACKAGES
        for path in (root / package).glob("*.py")
        if path.name != "__init__.py"
    }
    assert not set(COMPILED) & set(INTERPRETED)
    assert len(set(COMPILED)) == len(COMPILED)
    assert there == {
        name
        for name in {*COMPILED, *INTERPRETED}
        if name.rpartition(".")[0].replace(".", "/") in PACKAGES
    }
    for name in COMPILED:
        assert (root / f"{name.replace('.', '/')}.py").exists()
    assert all(INTERPRETED.values())


def interpreted_table() -> str:
    """Return the table of docs/how-to/build.md; this module prints it as a program."""
    rows = [f"| `{name}` | {why} |" for name, why in INTERPRETED.items()]
    return "\n".join(["| module | why |", "|---|---|", *rows])


def test_the_page_names_the_modules_that_stay_interpreted():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "build.md").read_text()
    _, _, rest = page.partition("<!-- interpreted -->\n")
    assert rest.partition("\n<!-- /interpreted -->")[0] == interpreted_table()


def test_a_process_runs_one_build_whole():
    """Either all modules are extension modules, or none is."""
    found = {build._is_compiled(name) for name in COMPILED}
    assert found == {build.running() is Build.COMPILED}


def test_a_build_is_compiled_only_if_each_module_is(monkeypatch):
    for missing, expected in (("", Build.COMPILED), (COMPILED[-1], Build.PURE)):
        build.running.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(build, "_is_compiled", lambda name, missing=missing: name != missing)
            assert build.running() is expected
        build.running.cache_clear()


def test_the_command_prints_version_build_and_python(capsys):
    assert main(["version"]) == 0
    python = ".".join(map(str, sys.version_info[:3]))
    expected = f"activator {__version__}, {build.running().value} build, Python {python}"
    assert capsys.readouterr().out.startswith(expected)


def test_the_command_imports_no_module_of_the_table():
    check = (
        "import sys; from activator.cli.main import main; main(['version']); "
        "from activator.build import COMPILED; sys.exit(len({*COMPILED} & {*sys.modules}))"
    )
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", check], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0


@pytest.mark.e2e
@on_uvloop
async def test_the_first_log_line_names_the_build(tmp_path):
    async with activator("local", "--manifests", str(tmp_path), *ANY_PORTS) as process:
        await process.address("http")
        first = process.lines[0]
    assert first["message"].startswith(f"activator {__version__}, {build.running().value} build")
    assert first["build"] == build.running().value


if __name__ == "__main__":
    print(interpreted_table())
