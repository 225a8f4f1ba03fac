"""Parse the project's Dockerfile: stages, steps, and the command of a container.

It supports the instructions that this Dockerfile uses, in the form in which it uses them. Any other
instruction is an error. https://docs.docker.com/reference/dockerfile/
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class UnsupportedError(ValueError):
    """A Dockerfile has an instruction or an option that this reader refuses."""


ROOT = Path(__file__).resolve().parents[2]

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")

#: The PATH of a container whose image sets none.
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Copy(NamedTuple):
    """Files into the image; from the build context if ``stage`` is empty."""

    stage: str
    sources: tuple[str, ...]
    target: str


class Run(NamedTuple):
    """A command for ``/bin/sh -c``, with its folder and environment."""

    command: str
    folder: str
    environment: Mapping[str, str]


@dataclass
class Stage:
    """One ``FROM`` with its instructions.

    Attributes:
        base: the image of ``FROM``.
        steps: the instructions that change files, in order.
        folder: the working directory at its end.
        user: the user of its processes, as written.
        entrypoint, command: the program of a container, and its default arguments.
        ports: the ports of ``EXPOSE``.
    """

    base: str
    name: str = ""
    steps: list[Copy | Run] = field(default_factory=list)
    folder: str = "/"
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": DEFAULT_PATH})
    user: str = ""
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    stop_signal: str = "SIGTERM"
    labels: dict[str, str] = field(default_factory=dict)


def read(text: str) -> list[Stage]:
    """Return the stages of a Dockerfile.

    Raises:
        UnsupportedError: an instruction or an option is not known here.
    """
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for name, rest in _instructions(text):
        if name == "ARG" and not stages:
            arguments.update(_pairs(rest, arguments))
        elif name == "FROM":
            base, *alias = _substituted(rest, arguments).split()
            stages.append(Stage(base, name=alias[1] if alias else ""))
        else:
            _apply(stages[-1], name, rest)
    return stages


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if line.strip():
            name, _, rest = line.strip().partition(" ")
            yield name.upper(), rest.strip()


def _apply(stage: Stage, name: str, rest: str) -> None:
    if name == "RUN":
        if rest.startswith(("-", "[")):
            raise UnsupportedError(f"RUN {rest}")
        stage.steps.append(Run(rest, stage.folder, dict(stage.environment)))
    elif name == "COPY":
        stage.steps.append(_copy(stage, rest))
    elif name == "WORKDIR":
        stage.folder = rest
        stage.steps.append(Run(f"mkdir -p {shlex.quote(rest)}", "/", dict(stage.environment)))
    elif name == "ENV":
        stage.environment.update(_pairs(rest, stage.environment))
    elif name == "LABEL":
        stage.labels.update(_pairs(rest, stage.environment))
    elif name == "EXPOSE":
        stage.ports += [int(port) for port in rest.split()]
    elif name == "USER":
        stage.user = rest
    elif name == "STOPSIGNAL":
        stage.stop_signal = rest
    elif name in ("ENTRYPOINT", "CMD"):
        setattr(stage, {"ENTRYPOINT": "entrypoint", "CMD": "command"}[name], json.loads(rest))
    else:
        raise UnsupportedError(name)


def _copy(stage: Stage, rest: str) -> Copy:
    words = shlex.split(rest)
    source = ""
    if words[0].startswith("--from="):
        source = words.pop(0).removeprefix("--from=")
    if words[0].startswith("--"):
        raise UnsupportedError(f"COPY {words[0]}")
    *sources, target = words
    return Copy(source, tuple(sources), str(Path(stage.folder) / target))


def _pairs(rest: str, known: Mapping[str, str]) -> dict[str, str]:
    words = (word.partition("=") for word in shlex.split(rest))
    return {name: _substituted(value, known) for name, _, value in words}


def _substituted(text: str, known: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: known[match[1] or match[2]], text)
