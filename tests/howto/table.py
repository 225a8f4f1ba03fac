"""What the rows of `table.yaml` mean: how each console block runs, or why it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml


class World(Enum):
    """The places in which pages run; those that take longest begin first."""

    BARE = "bare"
    KNATIVE = "knative"
    SERVICES = "services"
    CHECKOUT = "checkout"
    FOLDER = "folder"


class Shows(NamedTuple):
    """The command's output comes to contain a text."""

    text: str


class Holds(NamedTuple):
    """A shell command comes to succeed."""

    command: str


@dataclass(frozen=True)
class Row:
    """What a reader does at one block beside typing; commands are known by their numbers.

    Attributes:
        not_run: why no command of the block runs.
        skips: why one command does not run.
        world: where the block runs, if not in the world of the page.
        replace: a text of the commands, and what the reader types instead.
        before: what the reader has done, or the page tells in words, before the block.
        stops: a text of a running command, which the reader ends by Ctrl-C before the block.
        waits: commands that end only after later steps, so they run in another terminal.
        again: commands that the reader repeats until they print what the page shows.
        fails: commands that may fail: the page, or a comment, says why.
        then: what the reader waits for after a command.
    """

    not_run: str = ""
    skips: Mapping[int, str] = field(default_factory=dict)
    world: World | None = None
    replace: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str | Holds, ...] = ()
    stops: str = ""
    waits: tuple[int, ...] = ()
    again: tuple[int, ...] = ()
    fails: tuple[int, ...] = ()
    then: Mapping[int, Shows | Holds] = field(default_factory=dict)


class Page(NamedTuple):
    """One page: its world, and the rows of each section."""

    world: World
    sections: Mapping[str, tuple[Row, ...]]


RUNS: Final = Row()
#: Commands that stay until the page ends, and what the reader sees when they work.
STAYING: Final[Mapping[str, Shows | Holds]] = {
    r"\bactivator local\b": Shows("listening: "),
    r"-m activator\.lab\.pod\b": Shows('"listening"'),
    r"-m http\.server\b": Shows("Serving HTTP"),
    r"^python3 auth\.py": Holds("> /dev/tcp/127.0.0.1/9000"),
    r"^make demo": Shows("Ctrl-C"),
    r"\bport-forward\b|^forward$": Shows("Forwarding from"),
    r"--keep$": Shows("Ctrl-C"),
    r"^curl -sN .*/api/v1/events": Shows("event: "),
    r"^redis-server ": Shows("Ready to accept connections"),
    r"^nginx ": Holds("> /dev/tcp/127.0.0.1/80"),
}


def staying(command: str) -> Shows | Holds | None:
    """Return what shows that a command works which stays, or None for one that ends."""
    return next((sign for pattern, sign in STAYING.items() if re.search(pattern, command)), None)


def _sign(given: str | Mapping[str, str]) -> Any:
    if isinstance(given, str):
        return given
    return Shows(given["shows"]) if "shows" in given else Holds(given["holds"])


def _row(given: Mapping[str, Any]) -> Row:
    """Return a row of the file.

    Raises:
        TypeError: a key is unknown.
    """
    found = dict(given)
    for key in ("waits", "again", "fails"):
        found[key] = tuple(found.get(key, ()))
    found["world"] = World(found["world"]) if "world" in found else None
    found["before"] = tuple(map(_sign, found.get("before", ())))
    found["then"] = {number: _sign(sign) for number, sign in found.get("then", {}).items()}
    return Row(**found)


def _page(given: Mapping[str, Any]) -> Page:
    sections = {name: tuple(map(_row, rows)) for name, rows in given.items() if name != "world"}
    return Page(World(given["world"]), sections)


TABLE: Final[Mapping[str, Page]] = {
    page: _page(given)
    for page, given in yaml.load(
        Path(__file__).with_name("table.yaml").read_text(), yaml.CSafeLoader
    ).items()
}
