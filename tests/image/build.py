"""Execute a Dockerfile's steps in folders: one root file system for each stage, by chroot.

Every stage begins as a copy of the same root and ignores its ``FROM``. The root is a Debian of
debootstrap with its own Python, so that no image must be fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from glob import glob
from pathlib import Path

from tests.image.dockerfile import ROOT, Copy, Run, Stage

#: Of Debian bookworm, as in the Dockerfile's base image.
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "libpython3-dev", "python3", "python3-pip", "python3-venv")

#: How this machine reaches the package index, if that takes settings of its own.
NETWORK = ("PIP_CERT", "PIP_INDEX_URL", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def base(folder: Path) -> Path:
    """Return a Debian with Python; made once, which takes a minute, and then kept."""
    if not all((folder / path).exists() for path in ("usr/bin/pip", "usr/include/python3.11")):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        include = f"--include={','.join(PACKAGES)}"
        _call(["debootstrap", "--variant=minbase", include, SUITE, str(folder)])
    return folder


def build(stages: Sequence[Stage], base: Path, folder: Path) -> Path:
    """Follow every stage and return the root of the last one."""
    roots: dict[str, Path] = {}
    root = base
    for number, stage in enumerate(stages):
        root = folder / (stage.name or f"stage-{number}")
        _call(["cp", "--archive", str(base), str(root)])
        for step in stage.steps:
            if isinstance(step, Run):
                _run(step, root)
            else:
                _copy(step, roots, root)
        roots[stage.name or str(number)] = root
    return root


def _run(step: Run, root: Path) -> None:
    for path in ("/etc/resolv.conf", CERTIFICATES):
        shutil.copyfile(path, root / path[1:])
    network = {name: os.environ[name] for name in NETWORK if name in os.environ}
    environment = {"HOME": "/root", **network, **step.environment}
    command = f"cd {step.folder} && {step.command}"
    _call(["chroot", str(root), "/bin/sh", "-ec", command], environment)


def _copy(step: Copy, roots: Mapping[str, Path], root: Path) -> None:
    source_root = roots[step.stage] if step.stage else ROOT
    target = root / step.target[1:]
    for pattern in step.sources:
        for found in glob(str(source_root / pattern.lstrip("/"))):
            _copy_one(Path(found), target)


def _copy_one(source: Path, target: Path) -> None:
    if source.is_dir():  # its content goes into the target, as Docker does it
        compiled = shutil.ignore_patterns("__pycache__") if source.is_relative_to(ROOT) else None
        shutil.copytree(source, target, symlinks=True, ignore=compiled, dirs_exist_ok=True)
    else:
        into_folder = target.is_dir()
        shutil.copy2(source, target / source.name if into_folder else target)


def _call(command: list[str], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
