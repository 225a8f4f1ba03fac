"""The places in which pages run: as the reader's machine or cluster, and apart from all others."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.howto.pages import ROOT
from tests.howto.table import World
from tests.programs import need

_numbers = itertools.count()


class Place(NamedTuple):
    """Where the reader is: the folder, the command that enters the network, the variables."""

    folder: Path
    enter: Sequence[str]
    environment: Mapping[str, str]


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a reader who has activated the environment of the project.

    The files of ``OUTPUTS`` have what the programs print: a reader copies an address from there.
    """
    for program in ("curl", "jq"):
        need(program, program)
    home.mkdir()
    # A terminal shows no progress of curl, and a file does. Error responses fail the page.
    (home / ".curlrc").write_text("no-progress-meter\nfail-with-body\n")
    return {
        "HOME": str(home),
        "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "COLUMNS": "200",
        "PYTHONUNBUFFERED": "1",
        "OUTPUTS": str(home.parent),
    }


@contextmanager
def network() -> Iterator[Sequence[str]]:
    """Make a network with nothing but loopback addresses, and return what enters it.

    Only root may. Anyone else gets the loopback of the machine, one page at a time.
    """
    if os.geteuid() != 0 or shutil.which("ip") is None:
        with open(Path(tempfile.gettempdir(), f"howto-{os.getuid()}.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield ()
        return
    name = f"howto-{os.getpid()}-{next(_numbers)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield ("ip", "netns", "exec", name)
    finally:
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True)
        for pid in listed.stdout.split():
            os.kill(int(pid), 9)
        subprocess.run(["ip", "netns", "delete", name], check=True)


@contextmanager
def folder(records: Path) -> Iterator[Place]:
    """An empty folder with the environment in `.venv`, on a machine of its own."""
    here = records / "here"
    (here / "objects").mkdir(parents=True)
    (here / ".venv").symlink_to(sys.prefix)
    with network() as enter:
        yield Place(here, enter, environment(records / "home"))


@contextmanager
def checkout(records: Path) -> Iterator[Place]:
    """A copy of the project, with the environment in `.venv`."""
    here = records / "here"
    made = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "results")
    shutil.copytree(ROOT, here, ignore=made, symlinks=True)
    (here / ".venv").symlink_to(sys.prefix)
    os.utime(here / "pyproject.toml", (0, 0))  # so make installs nothing into the environment
    with network() as enter:
        yield Place(here, enter, environment(records / "home"))


WORLDS: Final[Mapping[World, Callable[[Path], AbstractContextManager[Place]]]] = {
    World.FOLDER: folder,
    World.CHECKOUT: checkout,
}
