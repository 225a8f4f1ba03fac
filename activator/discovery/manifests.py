"""Keeps the inventory equal to a folder of YAML and JSON files, for work without a cluster.

Decides which files count, which of two files an object belongs to, and when a file that became
shorter is believed. It must not know what objects mean.
A file that cannot be read keeps its last good state, and all other files go on.
Knative has no counterpart: there, the API server plays this part.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from activator.discovery.documents import Document
from activator.discovery.inventory import Inventory
from activator.discovery.listener import Listener
from activator.discovery.manifest_file import (
    Objects,
    Reading,
    Signature,
    digest_of,
    read,
    signature_of,
)
from activator.discovery.missed_events import MissedEventCounters
from activator.discovery.source import SourceError
from activator.objects.fields import ObjectKey
from activator.records.source_status import FilesStatus, SourceStatus

logger = logging.getLogger(__name__)

SUFFIXES = (".yaml", ".yml", ".json")

# Larger files are parsed in a thread: the C parser needs about 1 ms for 2 KiB of YAML, and the loop
# must not stand still for 5.
_PARSE_IN_THREAD_BYTES = 8 * 2**10

# Seconds of work after which other tasks of the loop get a turn. One request needs about six.
_PIECE = 0.002


class ManifestFolderError(SourceError):
    """The folder cannot be used at all. Says which folder, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Timings:
    """How quickly changes are noticed and believed.

    Attributes:
        settle: seconds that a file which vanished, broke or lost objects must stay as it is until
            that is believed. Editors truncate or remove a file just before they write it anew.
        settle_limit: seconds after which a file that keeps changing is read anyway.
        rescan: seconds between scans without a reported change, for file systems that report
            none and for links that lead out of the folder. Without inotify, only scans find
            changes.
        rescan_share: the largest share of one CPU for these scans. A folder whose scan takes
            longer is scanned less often.
        rescan_limit: the most seconds between scans, whatever a scan costs.
        missing: seconds between scans while the folder cannot be read. The kernel reports
            nothing about a folder that is missing.
    """

    settle: float = 0.025
    settle_limit: float = 1.0
    rescan: float = 5.0 if sys.platform == "linux" else 0.25
    rescan_share: float = 0.00025
    rescan_limit: float = 60.0
    missing: float = 0.25

    def next_scan(self, cost: float) -> float:
        """Return the seconds until the next scan; ``cost`` is the CPU seconds of the last."""
        return max(self.rescan, min(cost / self.rescan_share, self.rescan_limit))


class _Turns:
    """Divides long work into pieces, so that requests are served between them."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def pause(self) -> None:
        """Give other tasks a turn if the current piece has lasted long enough."""
        if time.monotonic() - self._since >= _PIECE:
            await asyncio.sleep(0)
            self._since = time.monotonic()


@dataclass(slots=True)
class _Doubt:
    """A look at a file that is not believed yet."""

    signature: Signature | None
    seen_at: float
    since: float


@dataclass(slots=True)
class _File:
    reading: Reading
    objects: Objects
    doubt: _Doubt | None = None

    @property
    def vanished(self) -> bool:
        return self.doubt is not None and self.doubt.signature is None


class ManifestFolder:
    """Reads a folder into an inventory and follows its changes (discovery.source.Source).

    Arguments:
        path: the folder. Its subfolders are not read.
        inventory: takes every object.
        timings: how quickly changes are noticed and believed.
        self_check_interval: seconds after which all files are read again although they seem
            unchanged; 0 for never.
    """

    def __init__(
        self,
        path: str | Path,
        inventory: Inventory,
        timings: Timings | None = None,
        self_check_interval: float = 0.0,
    ) -> None:
        self._path = Path(path)
        self._inventory = inventory
        self._timings = timings or Timings()
        self._files: dict[str, _File] = {}
        self._owners: dict[ObjectKey, str] = {}
        self._applied: dict[ObjectKey, Document] = {}
        self._rejected: dict[ObjectKey, str] = {}
        self._errors: dict[str, str] = {}
        self._folder_error = ""
        self._missed = MissedEventCounters()
        self._check_after = self_check_interval
        self._checked_at = self._looked_at = self._changed_at = time.monotonic()

    def status(self, now: float) -> SourceStatus:
        """See Source; the kind of a missed change is ``file``."""
        path = str(self._path)
        return SourceStatus(
            kind="folder",
            name=path,
            kinds=self._inventory.status(),
            files=FilesStatus(
                path, max(0.0, now - self._looked_at), max(0.0, now - self._changed_at)
            ),
            errors=self.errors,
            missed=self._missed.snapshot(),
            warnings=tuple(self._inventory.warnings),
        )

    @property
    def errors(self) -> Mapping[str, str]:
        """What is wrong at present: path of a file (or of the folder) -> reason."""
        return MappingProxyType(self._errors)

    async def start(self) -> None:
        """See Source and ``load``."""
        self.load()

    async def wait_synced(self) -> None:
        """See Source: ``start`` has read all files."""

    async def follow_secret(self, name: str) -> None:
        """See Source: all Secrets of the folder are read."""

    def hurry(self) -> None:
        """See Source: the folder is read at once when it changes."""

    async def close(self) -> None:
        """See Source: nothing is open."""

    def load(self) -> None:
        """Reads the folder once, before traffic is accepted.

        Broken files are reported in ``errors`` and do not stop the others.

        Raises:
            ManifestFolderError: there is no such folder, or it may not be read.
        """
        try:
            names = self._names()
        except OSError as error:
            raise ManifestFolderError(self._explain(error)) from error
        for name in names:
            reading = read(self._path / name)
            self._files[name] = _File(reading, reading.objects)
        for _ in self._resolve():
            pass  # there is no traffic yet

    async def run(self) -> None:
        """Follows changes until cancelled; call ``load`` first.

        No bad file and no loss of the folder ends it.
        """
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            listener = Listener(self._path, self._timings.rescan, changed.set)
            group.create_task(listener.run())
            await self._follow(listener, changed)

    async def _follow(self, listener: Listener, changed: asyncio.Event) -> None:
        while True:
            began = time.thread_time()
            doubtful = await self._scan()
            cost = time.thread_time() - began
            listener.renew_if_replaced()
            pause = self._timings.settle if doubtful else self._timings.next_scan(cost)
            if self._folder_error:
                pause = self._timings.missing
            try:
                async with asyncio.timeout(pause):
                    await changed.wait()
            except TimeoutError:
                pass
            changed.clear()

    async def _scan(self) -> bool:
        """Read what changed. Return whether a file must be read again soon.

        Other tasks get turns between files and between objects.
        """
        turns = _Turns()
        try:
            names = self._names()
        except OSError as error:
            # Nothing is taken away: an unmounted folder says nothing about its objects.
            explained = f"{self._explain(error)}; the last state stays in force"
            if explained != self._folder_error:
                self._folder_error = explained
                for _ in self._publish_errors():
                    await turns.pause()
            return False
        changed = self._folder_error != ""
        self._folder_error = ""
        for name in self._files.keys() - names:
            self._consider(name, Reading(None))
            changed = True
        for name, status in names.items():
            if self._is_stale(name, status):
                self._consider(name, await self._look(name, status))
                changed = True
                await turns.pause()
        if self._check_after and time.monotonic() - self._checked_at >= self._check_after:
            changed |= await self._check(names)
        self._looked_at = time.monotonic()
        if not changed:  # almost always; a doubtful file counts as changed
            return False
        for _ in self._resolve():
            await turns.pause()
        return any(file.doubt for file in self._files.values())

    async def _check(self, names: Mapping[str, os.stat_result]) -> bool:
        """Read all files again: a file system may change one under the same date and size.

        Return whether one differs from what was read before.
        """
        found = 0
        for name, status in names.items():
            digest = await asyncio.to_thread(digest_of, self._path / name)
            known = self._files.get(name)
            if not digest or known is None or digest == known.reading.digest:
                continue
            reading = await self._look(name, status)
            if reading.signature != known.reading.signature:
                continue  # it has just been changed, which the next look takes in
            found += 1
            logger.warning(
                "self-check: %s is not what was read, under the same date and size; it is taken "
                "in now",
                self._path / name,
            )
            self._consider(name, reading)
        self._missed.record("file", found, 0)
        self._checked_at = time.monotonic()
        return found > 0

    async def _look(self, name: str, status: os.stat_result) -> Reading:
        path = self._path / name
        if status.st_size <= _PARSE_IN_THREAD_BYTES:
            return read(path)
        return await asyncio.to_thread(read, path)

    def _names(self) -> dict[str, os.stat_result]:
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
                    continue  # the file was removed meanwhile, or the link is broken
                if stat.S_ISREG(status.st_mode):
                    found[name] = status
        return dict(sorted(found.items()))

    def _is_stale(self, name: str, status: os.stat_result) -> bool:
        file = self._files.get(name)
        if file is None or file.doubt or file.reading.racy:
            return True
        return file.reading.signature != signature_of(status)

    def _consider(self, name: str, reading: Reading) -> None:
        """Takes a look at a file for true, or waits for a second one that says the same."""
        if name not in self._files:
            self._files[name] = _File(Reading(None), {})
        file = self._files[name]
        if not self._is_believable(file, reading):
            return
        if reading.signature is None:
            del self._files[name]
        else:
            objects = file.objects if reading.error else reading.objects
            self._files[name] = _File(reading, objects)

    def _is_believable(self, file: _File, reading: Reading) -> bool:
        if not reading.error and reading.objects.keys() >= file.objects.keys():
            return True
        now = time.monotonic()
        doubt = file.doubt
        if doubt is None or doubt.signature != reading.signature:
            since = doubt.since if doubt else now
            file.doubt = _Doubt(reading.signature, now, since)
            return now - since > self._timings.settle_limit
        # A timer may fire a little early; that must not cost a second round.
        return now - doubt.seen_at >= 0.9 * self._timings.settle

    def _resolve(self) -> Iterator[None]:
        """Assign each object to one file, and pass the changes to the inventory.

        The assignment is one step, so that a renamed file leaves no gap. Additions and changes
        come before removals. Yields after each object; the caller may pause there.
        """
        wanted = {key: self._choose(key, names) for key, names in self._holders().items()}
        self._owners = wanted
        for key, name in wanted.items():
            document = self._files[name].objects[key]
            if self._applied.get(key) is not document:
                self._apply(key, document)
                yield
        for key in [key for key in self._applied if key not in wanted]:
            del self._applied[key]
            self._changed_at = time.monotonic()
            self._rejected.pop(key, None)
            self._inventory.remove(key.kind, key.namespace, key.name)
            yield
        yield from self._publish_errors()

    def _holders(self) -> dict[ObjectKey, list[str]]:
        holders: dict[ObjectKey, list[str]] = {}
        for name in sorted(self._files):
            for key in self._files[name].objects:
                holders.setdefault(key, []).append(name)
        return holders

    def _choose(self, key: ObjectKey, names: list[str]) -> str:
        """The file that had the object first; a renamed file hands it over."""
        present = [name for name in names if not self._files[name].vanished] or names
        owner = self._owners.get(key)
        return owner if owner in present else present[0]

    def _apply(self, key: ObjectKey, document: Document) -> None:
        known = self._applied.get(key)
        if known is None or known.value != document.value:
            self._changed_at = time.monotonic()
        self._applied[key] = document
        reason = self._inventory.apply(document.value)
        if reason is None:
            self._rejected.pop(key, None)
        else:
            self._rejected[key] = reason

    def _publish_errors(self) -> Iterator[None]:
        """Replace the errors and log what changed. Yields after each line."""
        errors: dict[str, str] = {}
        if self._folder_error:
            errors[str(self._path)] = self._folder_error
        for name, file in sorted(self._files.items()):
            problems = list(self._problems(name, file))
            if problems:
                errors[str(self._path / name)] = "; ".join(problems)
        known, self._errors = self._errors, errors
        for path, reason in errors.items():
            if known.get(path) != reason:
                logger.error("%s: %s", path, reason, extra={"path": path, "reason": reason})
                yield
        for path in known.keys() - errors.keys():
            is_there = path == str(self._path) or Path(path).name in self._files
            how = "in order again" if is_there else "deleted, no longer an error"
            logger.info("%s: %s", path, how, extra={"path": path})
            yield

    def _problems(self, name: str, file: _File) -> Iterator[str]:
        if file.reading.error:
            # What was wrong with its objects is said with lines that it has no more.
            kept = "the last good state of this file stays" if file.objects else "nothing of it is"
            yield f"{file.reading.error}; {kept} in force"
            return
        yield from file.reading.doubles
        for key, document in file.objects.items():
            owner = self._owners.get(key)
            if owner == name:
                if key in self._rejected:
                    reason = (
                        f"the object that starts on line {document.line}: {self._rejected[key]}"
                    )
                    kept = "its last good state stays in force"
                    yield f"{reason}; {kept if key in self._inventory else 'it is not in use'}"
            elif owner is not None and not file.vanished:
                yield f"line {document.line}: {key} is also in {owner}, which stays in force"

    def _explain(self, error: OSError) -> str:
        where = f"the folder of manifests {self._path}"
        if isinstance(error, FileNotFoundError):
            return f"{where} does not exist: create it or name another one"
        if isinstance(error, NotADirectoryError):
            return f"{where} is no folder: name the folder that holds the files"
        return f"{where} cannot be read: {error.strerror or error}"
