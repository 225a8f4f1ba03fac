"""What both writers of manifests share: the image that they name, and the program that they run."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME = re.compile(rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Image(NamedTuple):
    """The parts of the name of an image; tag and digest may be empty."""

    name: str
    tag: str
    digest: str


def image(text: str) -> Image:
    """Return the parts of ``NAME``, ``NAME:TAG``, ``NAME@sha256:DIGEST`` or ``NAME:TAG@…``.

    Raises:
        SystemExit: kubelet or a registry would refuse the name.
    """
    name, at, digest = text.partition("@")
    stem, colon, tag = name.rpartition(":")
    tagged = bool(colon) and "/" not in tag
    if tagged:
        name = stem
    if not _NAME.fullmatch(name):
        hint = "write it in lower case and without https://, as in ghcr.io/owner/activator"
        raise SystemExit(f"IMAGE: {name!r} is not the name of an image: {hint}")
    if tagged and not _TAG.fullmatch(tag):
        raise SystemExit(f"IMAGE: {text!r} has the tag {tag!r}, which no registry accepts")
    if at and not _DIGEST.fullmatch(digest):
        expected = "a digest is sha256: and 64 digits of 0-9a-f"
        raise SystemExit(f"IMAGE: {text!r} has the digest {digest!r}: {expected}")
    return Image(name, tag if tagged else "", digest)


def program(path: str) -> str:
    """Return the path of a program, or of the one with its name in ``PATH``.

    Raises:
        SystemExit: there is neither.
    """
    name = Path(path).name
    if Path(path).exists():
        return path
    if found := shutil.which(name):
        print(f"{path} is missing: using {found}")
        return found
    raise SystemExit(f"{name} is missing: repeat with network, or install {name}")


def output(command: Sequence[str]) -> str:
    """Run a command, and return its output.

    Raises:
        SystemExit: it failed, after it wrote its error.
    """
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with status {done.returncode}")
    return done.stdout
