"""Keeps the inventory equal to a folder of YAML and JSON files, for use without a cluster.

Decides when to read the folder, and to which of two files an object belongs. It must not know the
meaning of objects. A broken file keeps its last good state, and does not affect other files.
Knative has no counterpart: it always has an API server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from activator.discovery.backoff import Turns
from activator.discovery.documents import Document
from activator.discovery.inventory import INVALID, Inventory
from activator.discovery.manifest_file import File, ManifestFiles, Reading, digest_of
from activator.discovery.source import Source, SourceError
from activator.objects.fields import ObjectKey
from activator.records.source_status import FilesStatus, MissedEvents, ObjectWarning, SourceStatus

logger = logging.getLogger(__name__)


# Calls a function as soon as the kernel reports a change in a folder.
#
# Decides nothing about files. The loop itself reads inotify's descriptor. A thread would poll its
# own queue every few milliseconds. That costs an idle process 1 % of a core. It costs a busy
# process 8 µs per request, through the interpreter's lock (measured with watchfiles 1.3).


class FolderListener:
    """Calls a function after each change in a folder, while ``run`` is in progress.

    Arguments:
        path: the folder.
        retry: seconds until the next attempt to watch the folder, unless ``renew_if_replaced``
            comes first.
        changed: the function. It is also called when a watch begins, since changes before that are
            unknown.
    """

    def __init__(self, path: Path, retry: float, changed: Callable[[], None]) -> None:
        self._path = path
        self._retry = retry
        self._changed = changed
        self._identity = _identity(path)
        self._replaced = asyncio.Event()

    def renew_if_replaced(self) -> None:
        """Watch the new folder if the path has one: the kernel still reports the old one."""
        if _identity(self._path) != self._identity:
            self._replaced.set()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            self._identity = _identity(self._path)
            self._replaced.clear()
            try:
                await self._until_replaced()
            except* OSError as errors:
                self._log(errors.exceptions[0])
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._retry):
                        await self._replaced.wait()

    async def _until_replaced(self) -> None:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._listen())
            await self._replaced.wait()
            listening.cancel()

    async def _listen(self) -> None:
        if sys.platform != "linux":
            await asyncio.Event().wait()  # there is no inotify; ManifestFolder scans instead
        from asyncinotify import Inotify, Mask

        of_content = Mask.CREATE | Mask.MODIFY | Mask.CLOSE_WRITE | Mask.ATTRIB | Mask.DELETE
        of_place = Mask.MOVED_FROM | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.MOVE_SELF
        with Inotify() as inotify:
            inotify.add_watch(self._path, of_content | of_place | Mask.ONLYDIR)
            self._changed()
            async for _ in inotify:
                self._changed()

    def _log(self, error: Exception) -> None:
        # ManifestFolder reports a missing folder.
        if self._identity is not None:
            logger.warning(
                "cannot watch %s, trying again in %g s: %s", self._path, self._retry, error
            )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class ManifestFolderError(SourceError):
    """The folder is unusable; the text has its path, the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class FolderTimings:
    """Times between scans, and before a change counts.

    Attributes:
        settle: seconds that a file must stay unchanged before the loss of objects counts: the file
            is missing, broken or shorter. Editors truncate or remove a file before they write it.
        settle_limit: seconds after which the present state of a changing file counts.
        rescan: seconds between scans without a reported change. Some file systems report no
            changes, and the kernel reports none behind links that lead out of the folder. Without
            inotify, only scans find changes.
        rescan_share: the largest share of one CPU for these scans. If a scan takes longer, scans
            are rarer.
        rescan_limit: the most seconds between scans.
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


class ManifestFolder(Source):
    """Reads a folder into an inventory and follows its changes.

    Arguments:
        path: the folder. Its subfolders are not read.
        inventory: takes every object.
        timings: times between scans, and before a change counts.
        self_check_interval: seconds after which all files are read again, also unchanged ones; 0
            for never.

    Attributes:
        errors: the present errors, a line each, by path of a file, or of the folder.
    """

    def __init__(
        self,
        path: str | Path,
        inventory: Inventory,
        timings: FolderTimings | None = None,
        self_check_interval: float = 0.0,
    ) -> None:
        self._path = Path(path)
        self._inventory = inventory
        self._timings = timings or FolderTimings()
        self._files = ManifestFiles(self._path, self._timings.settle, self._timings.settle_limit)
        self._owners: dict[ObjectKey, str] = {}
        self._applied: dict[ObjectKey, Document] = {}
        self.errors: Mapping[str, str] = {}
        self._ignored: dict[str, str] = {}
        self._folder_error = ""
        self._missed = MissedEvents()
        self._check_after = self_check_interval
        self._checked_at = self._looked_at = self._changed_at = time.monotonic()

    def status(self, now: float) -> SourceStatus:
        """Return the state of the folder; missed changes have the kind ``file``."""
        path = str(self._path)
        return SourceStatus(
            kind="folder",
            name=path,
            kinds=self._inventory.status(),
            files=FilesStatus(
                path, max(0.0, now - self._looked_at), max(0.0, now - self._changed_at)
            ),
            errors=self.errors,
            missed=deepcopy(self._missed),
            warnings=tuple(self._warnings()),
        )

    def _warnings(self) -> Iterator[ObjectWarning]:
        """Yield the warnings about objects; a broken file keeps only older ones."""
        for each in self._inventory.warnings:
            file = self._owners.get(ObjectKey(each.kind, each.namespace, each.name))
            if file is None or not self._files[file].reading.error:
                yield each
            elif each.reason != INVALID:  # that one is about fields which the file may not have
                yield each._replace(text=f"{each.text} (in the last good state of {file})")

    async def start(self) -> None:
        self.load()

    def load(self) -> None:
        """Read the folder once, before the activator accepts traffic.

        ``errors`` has the broken files, which do not affect other files.

        Raises:
            ManifestFolderError: there is no such folder, or it is not readable.
        """
        try:
            names = self._files.names()
        except OSError as error:
            raise ManifestFolderError(self._files.explain(error)) from error
        self._files.load(names)
        for _ in self._resolve():
            pass  # there is no traffic yet
        self._inventory.settled()

    async def run(self) -> None:
        """Follow changes until cancelled; call ``load`` first.

        Neither a broken file nor a missing folder ends this.
        """
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            listener = FolderListener(self._path, self._timings.rescan, changed.set)
            group.create_task(listener.run())
            await self._follow(listener, changed)

    async def _follow(self, listener: FolderListener, changed: asyncio.Event) -> None:
        while True:
            began = time.thread_time()
            must_repeat = await self.scan()
            cost = time.thread_time() - began
            listener.renew_if_replaced()
            pause = self._timings.settle if must_repeat else self._timings.next_scan(cost)
            if self._folder_error:
                pause = self._timings.missing
            try:
                async with asyncio.timeout(pause):
                    await changed.wait()
            except TimeoutError:
                pass
            changed.clear()

    async def scan(self) -> bool:
        """Read changed files. Return whether a file must be read again soon.

        Other tasks get turns between files and between objects.
        """
        turns = Turns()
        try:
            names = self._files.names()
        except OSError as error:
            # No object is removed: the folder may be unmounted.
            explained = f"{self._files.explain(error)}; the last state stays in force"
            if explained != self._folder_error:
                self._folder_error = explained
                for _ in self._publish_errors():
                    await turns.pause()
            return False
        changed = self._folder_error != ""
        self._folder_error = ""
        for name in self._files.keys() - names:
            self._files.consider(name, Reading(None))
            changed = True
        for name, status in names.items():
            if self._files.is_stale(name, status):
                self._files.consider(name, await self._files.look(name, status))
                changed = True
                await turns.pause()
        if self._check_after and time.monotonic() - self._checked_at >= self._check_after:
            changed |= await self._check(names)
        self._looked_at = time.monotonic()
        if not changed:  # almost always; an unconfirmed file counts as changed
            return False
        for _ in self._resolve():
            await turns.pause()
        return not self._files.is_settled

    async def _check(self, names: Mapping[str, os.stat_result]) -> bool:
        """Read all files again: a file may have changed without a new time and size.

        Return whether a file differs from its last read.
        """
        found = 0
        for name, status in names.items():
            digest = await asyncio.to_thread(digest_of, self._path / name)
            known = self._files.get(name)
            if not digest or known is None or digest == known.reading.digest:
                continue
            reading = await self._files.look(name, status)
            if reading.signature != known.reading.signature:
                continue  # it has just changed, and the next scan reads it
            found += 1
            logger.warning(
                "self-check: %s has changed without a new time or size; the new content is now in "
                "force",
                self._path / name,
            )
            self._files.consider(name, reading)
        self._missed.record("file", found, 0)
        self._checked_at = time.monotonic()
        return found > 0

    def _resolve(self) -> Iterator[None]:
        """Assign each object to one file, and pass the changes to the inventory.

        The assignment is one step, so that a renamed file leaves no gap. Additions and changes
        come before removals. Yields after each object; the caller may pause there.
        """
        wanted = {key: self._choose(key, names) for key, names in self._files.holders().items()}
        self._owners = wanted
        for key, name in wanted.items():
            document = self._files[name].objects[key]
            if self._applied.get(key) is not document:
                self._apply(key, document)
                yield
        for key in [key for key in self._applied if key not in wanted]:
            del self._applied[key]
            self._changed_at = time.monotonic()
            self._inventory.remove(key.kind, key.namespace, key.name)
            yield
        yield from self._publish_errors()

    def _choose(self, key: ObjectKey, names: list[str]) -> str:
        """Return the file to which an object belongs: the first one that had it and still does."""
        present = [name for name in names if not self._files[name].vanished] or names
        owner = self._owners.get(key)
        return owner if owner in present else present[0]

    def _apply(self, key: ObjectKey, document: Document) -> None:
        known = self._applied.get(key)
        if known is None or known.value != document.value:
            self._changed_at = time.monotonic()
        self._applied[key] = document
        self._inventory.apply(document.value)

    def _publish_errors(self) -> Iterator[None]:
        """Replace the errors and log what changed. Yields after each line."""
        errors: dict[str, str] = {}
        if self._folder_error:
            errors[str(self._path)] = self._folder_error
        for name, file in sorted(self._files.items()):
            problems = list(self._problems(name, file))
            if problems:
                errors[str(self._path / name)] = "\n".join(problems)
        ignored = {
            str(self._path / name): "; ".join(filter(None, self._ignored_in(file)))
            for name, file in self._files.items()
        }
        for path, text in ignored.items():
            if text and self._ignored.get(path) != text:
                logger.warning("%s: %s", path, text, extra={"path": path})
                yield
        self._ignored = ignored
        known, self.errors = self.errors, errors
        for path, text in errors.items():
            logged = known.get(path, "").split("\n")
            for reason in text.split("\n"):
                if reason not in logged:
                    logger.error("%s: %s", path, reason, extra={"path": path, "reason": reason})
                    yield
        for path in known.keys() - errors.keys():
            is_there = path == str(self._path) or Path(path).name in self._files
            how = "valid again" if is_there else "deleted, no longer an error"
            logger.info("%s: %s", path, how, extra={"path": path})
            yield

    def _ignored_in(self, file: File) -> Iterator[str]:
        """Yield which objects of a file nothing reads, with the line of the first of each kind."""
        yield file.reading.ignored
        first: dict[str, int] = {}
        for key, document in file.objects.items():
            first.setdefault(key.kind, document.line)
        for kind, line in first.items():
            if dialect := self._inventory.missing_dialect(kind):
                yield f"{kind} (line {line}) is ignored: only --dialect {dialect} reads this kind"

    def _problems(self, name: str, file: File) -> Iterator[str]:
        if file.reading.error:
            # The errors of its objects name lines that the file may not have any more.
            kept = "the last good state of this file stays in force"
            yield f"{file.reading.error}; {kept if file.objects else 'the file has no effect'}"
            return
        yield from file.reading.duplicates
        for key, document in file.objects.items():
            owner = self._owners.get(key)
            if owner == name:
                if problem := self._inventory.problem(key):
                    yield f"line {document.line}: {problem}"
            elif owner is not None and not file.vanished:
                yield f"line {document.line}: {key} is also in {owner}, which stays in force"
