"""The files of a folder of manifests: which of their states counts, and the objects of each.

A file that loses objects counts only after a second reading, since editors truncate or remove a
file before they write it. It must not know the inventory, nor which of two files has an object.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from activator.discovery.manifest_file import Objects, Reading, Signature, read, signature_of
from activator.objects.fields import ObjectKey

SUFFIXES = (".yaml", ".yml", ".json")

# A thread parses larger files. The C parser takes about 1 ms for 2 KiB of YAML, and the loop must
# not stop for 5 ms.
_PARSE_IN_THREAD_BYTES = 8 * 2**10


@dataclass(slots=True)
class _Unconfirmed:
    """A state of a file that does not count yet."""

    signature: Signature | None
    seen_at: float
    since: float


@dataclass(slots=True)
class File:
    """One file.

    Attributes:
        reading: the last reading that counts.
        objects: its objects, or the objects of its last good reading.
        unconfirmed: a later state that does not count yet.
    """

    reading: Reading
    objects: Objects
    unconfirmed: _Unconfirmed | None = None

    @property
    def vanished(self) -> bool:
        """Whether the file is missing, which does not count yet."""
        return self.unconfirmed is not None and self.unconfirmed.signature is None


class ManifestFiles(Mapping[str, File]):
    """The files of one folder, by name.

    Arguments:
        path: the folder. Its subfolders are not read.
        settle, settle_limit: as in ``manifests.Timings``.
    """

    def __init__(self, path: Path, settle: float, settle_limit: float) -> None:
        self._path = path
        self._settle = settle
        self._settle_limit = settle_limit
        self._files: dict[str, File] = {}

    def __getitem__(self, name: str) -> File:
        return self._files[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def is_settled(self) -> bool:
        """Whether no file has a state that does not count yet."""
        return not any(file.unconfirmed for file in self._files.values())

    def load(self, names: Mapping[str, os.stat_result]) -> None:
        """Read files for the first time; each reading counts at once."""
        for name in names:
            reading = read(self._path / name)
            self._files[name] = File(reading, reading.objects)

    async def look(self, name: str, status: os.stat_result) -> Reading:
        """Read a file, a large one in a thread. The result counts after ``consider``."""
        path = self._path / name
        if status.st_size <= _PARSE_IN_THREAD_BYTES:
            return read(path)
        return await asyncio.to_thread(read, path)

    def names(self) -> dict[str, os.stat_result]:
        """Return the status of each manifest file by name, sorted by name.

        Raises:
            OSError: the folder cannot be read.
        """
        found = {}
        with os.scandir(self._path) as entries:
            for entry in entries:
                name = entry.name
                if not name.endswith(SUFFIXES) or name.startswith((".", "#", "~")):
                    continue
                try:
                    status = entry.stat()
                except OSError:
                    continue  # the file has just been removed, or the link is broken
                if stat.S_ISREG(status.st_mode):
                    found[name] = status
        return dict(sorted(found.items()))

    def is_stale(self, name: str, status: os.stat_result) -> bool:
        """Return whether a file must be read: it has changed, or may have."""
        file = self._files.get(name)
        if file is None or file.unconfirmed or file.reading.racy:
            return True
        return file.reading.signature != signature_of(status)

    def consider(self, name: str, reading: Reading) -> None:
        """Apply a reading of a file, or wait for a second one that confirms it."""
        if name not in self._files:
            self._files[name] = File(Reading(None), {})
        file = self._files[name]
        if not self._is_confirmed(file, reading):
            return
        if reading.signature is None:
            del self._files[name]
        else:
            objects = file.objects if reading.error else reading.objects
            self._files[name] = File(reading, objects)

    def _is_confirmed(self, file: File, reading: Reading) -> bool:
        if not reading.error and reading.objects.keys() >= file.objects.keys():
            return True
        now = time.monotonic()
        unconfirmed = file.unconfirmed
        if unconfirmed is None or unconfirmed.signature != reading.signature:
            since = unconfirmed.since if unconfirmed else now
            file.unconfirmed = _Unconfirmed(reading.signature, now, since)
            return now - since > self._settle_limit
        # A timer may fire a little early; that must not need a further reading.
        return now - unconfirmed.seen_at >= 0.9 * self._settle

    def holders(self) -> dict[ObjectKey, list[str]]:
        """Return the names of the files that have each object, sorted."""
        holders: dict[ObjectKey, list[str]] = {}
        for name in sorted(self._files):
            for key in self._files[name].objects:
                holders.setdefault(key, []).append(name)
        return holders

    def explain(self, error: OSError) -> str:
        """Return why the folder cannot be read, and a remedy."""
        where = f"the folder of manifests {self._path}"
        if isinstance(error, FileNotFoundError):
            return f"{where} does not exist: create it or name another one"
        if isinstance(error, NotADirectoryError):
            return f"{where} is no folder: name the folder that contains the files"
        return f"{where} cannot be read: {error.strerror or error}"
