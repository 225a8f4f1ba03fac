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
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from activator.discovery import documents
from activator.discovery.documents import Document, DocumentError
from activator.discovery.fields import ManifestError, ObjectKey, identify
from activator.discovery.inventory import Inventory, kind_of
from activator.discovery.listener import Listener

logger = logging.getLogger(__name__)

SUFFIXES = (".yaml", ".yml", ".json")

# A cluster stores objects of at most 1.5 MiB; a file may hold many, and is read into memory.
MAX_FILE_BYTES = 16 * 2**20

# Larger files are parsed in a thread: the C parser needs about 1 ms for 2 KiB of YAML, and the loop
# must not stand still for 5.
_PARSE_IN_THREAD_BYTES = 8 * 2**10

# The kernel dates files by its tick, up to 10 ms: a file that was written just before it was read
# may be written again under the same date.
_RACY_NS = 50_000_000


class ManifestFolderError(Exception):
    """The folder cannot be used at all. Says which folder, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Timings:
    """How quickly changes are noticed and believed.

    Attributes:
        settle: seconds that a file which vanished, broke or lost objects must stay as it is until
            that is believed. Editors truncate or remove a file just before they write it anew.
        settle_limit: seconds after which a file that keeps changing is believed anyway.
        rescan: seconds after which the folder is looked at without a reason, for the file systems
            that do not report changes and links that lead out of the folder. Where there is no
            inotify this is how changes are noticed at all.
    """

    settle: float = 0.025
    settle_limit: float = 1.0
    rescan: float = 5.0 if sys.platform == "linux" else 0.25


_Signature = tuple[int, int, int, int, int]
_Objects = dict[ObjectKey, Document]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What one look at a file gave: its objects, or why there are none."""

    signature: _Signature | None
    racy: bool = False
    objects: _Objects = field(default_factory=dict)
    error: str = ""
    doubles: tuple[str, ...] = ()


@dataclass(slots=True)
class _Doubt:
    """A look at a file that is not believed yet."""

    signature: _Signature | None
    seen_at: float
    since: float


@dataclass(slots=True)
class _File:
    reading: _Reading
    objects: _Objects
    doubt: _Doubt | None = None

    @property
    def vanished(self) -> bool:
        return self.doubt is not None and self.doubt.signature is None


class ManifestFolder:
    """Reads a folder into an inventory and follows its changes.

    Arguments:
        path: the folder. Its subfolders are not read.
        inventory: is told of every object.
        timings: how quickly changes are noticed and believed.
    """

    def __init__(
        self, path: str | Path, inventory: Inventory, timings: Timings | None = None
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

    @property
    def errors(self) -> Mapping[str, str]:
        """What is wrong at present: path of a file (or of the folder) -> reason."""
        return MappingProxyType(self._errors)

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
            reading = _read(self._path / name)
            self._files[name] = _File(reading, reading.objects)
        self._resolve()

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
            doubtful = await self._scan()
            listener.renew_if_replaced()
            pause = self._timings.settle if doubtful else self._timings.rescan
            try:
                async with asyncio.timeout(pause):
                    await changed.wait()
            except TimeoutError:
                pass
            changed.clear()

    async def _scan(self) -> bool:
        """Looks at what changed. Returns whether something is to be looked at again soon."""
        try:
            names = self._names()
        except OSError as error:
            # Nothing is taken away: an unmounted folder says nothing about its objects.
            self._folder_error = f"{self._explain(error)}; the last state stays in force"
            self._publish_errors()
            return False
        self._folder_error = ""
        for name in self._files.keys() - names:
            self._consider(name, _Reading(None))
        for name, status in names.items():
            if self._is_stale(name, status):
                self._consider(name, await self._look(name, status))
        self._resolve()
        return any(file.doubt for file in self._files.values())

    async def _look(self, name: str, status: os.stat_result) -> _Reading:
        path = self._path / name
        if status.st_size <= _PARSE_IN_THREAD_BYTES:
            return _read(path)
        return await asyncio.to_thread(_read, path)

    def _names(self) -> dict[str, os.stat_result]:
        """The files that count, by name, in their order. Raises OSError for the folder itself."""
        found = {}
        for name in sorted(os.listdir(self._path)):
            if not name.endswith(SUFFIXES) or name.startswith((".", "#", "~")):
                continue
            try:
                status = os.stat(self._path / name)
            except OSError:
                continue  # removed meanwhile, or a link that leads nowhere
            if stat.S_ISREG(status.st_mode):
                found[name] = status
        return found

    def _is_stale(self, name: str, status: os.stat_result) -> bool:
        file = self._files.get(name)
        if file is None or file.doubt or file.reading.racy:
            return True
        return file.reading.signature != _signature(status)

    def _consider(self, name: str, reading: _Reading) -> None:
        """Takes a look at a file for true, or waits for a second one that says the same."""
        if name not in self._files:
            self._files[name] = _File(_Reading(None), {})
        file = self._files[name]
        if not self._is_believable(file, reading):
            return
        if reading.signature is None:
            del self._files[name]
        else:
            objects = file.objects if reading.error else reading.objects
            self._files[name] = _File(reading, objects)

    def _is_believable(self, file: _File, reading: _Reading) -> bool:
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

    def _resolve(self) -> None:
        """Gives each object to one file, and the inventory what changed by that."""
        wanted = {key: self._choose(key, names) for key, names in self._holders().items()}
        self._owners = wanted
        for key, name in wanted.items():
            document = self._files[name].objects[key]
            if self._applied.get(key) is not document:
                self._apply(key, document)
        for key in [key for key in self._applied if key not in wanted]:
            del self._applied[key]
            self._rejected.pop(key, None)
            self._inventory.remove(key.kind, key.namespace, key.name)
        self._publish_errors()

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
        self._applied[key] = document
        reason = self._inventory.apply(document.value)
        if reason is None:
            self._rejected.pop(key, None)
        else:
            self._rejected[key] = reason

    def _publish_errors(self) -> None:
        errors: dict[str, str] = {}
        if self._folder_error:
            errors[str(self._path)] = self._folder_error
        for name, file in sorted(self._files.items()):
            problems = list(self._problems(name, file))
            if problems:
                errors[str(self._path / name)] = "; ".join(problems)
        for path, reason in errors.items():
            if self._errors.get(path) != reason:
                logger.error("%s: %s", path, reason, extra={"path": path, "reason": reason})
        for path in self._errors.keys() - errors.keys():
            logger.info("%s: in order again", path, extra={"path": path})
        self._errors = errors

    def _problems(self, name: str, file: _File) -> Iterator[str]:
        if file.reading.error:
            # What was wrong with its objects is said with lines that it has no more.
            yield f"{file.reading.error}; the last good state of this file stays in force"
            return
        yield from file.reading.doubles
        for key, document in file.objects.items():
            owner = self._owners.get(key)
            if owner == name:
                if key in self._rejected:
                    yield f"line {document.line}: {self._rejected[key]}"
            elif owner is not None and not file.vanished:
                yield f"line {document.line}: {key} is also in {owner}, which stays in force"

    def _explain(self, error: OSError) -> str:
        where = f"the folder of manifests {self._path}"
        if isinstance(error, FileNotFoundError):
            return f"{where} does not exist: create it or name another one"
        if isinstance(error, NotADirectoryError):
            return f"{where} is no folder: name the folder that holds the files"
        return f"{where} cannot be read: {error.strerror or error}"


def _signature(status: os.stat_result) -> _Signature:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _read(path: Path) -> _Reading:
    """Looks at a file. Never raises: what is wrong is in the reading. Safe in a thread."""
    try:
        with open(path, "rb") as file:
            # Taken before reading: a change meanwhile gives another signature next time.
            status = os.fstat(file.fileno())
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return _Reading(None)
    except OSError as error:
        return _Reading((0, 0, 0, 0, 0), racy=True, error=f"cannot be read: {error.strerror}")
    signature = _signature(status)
    racy = time.time_ns() - status.st_mtime_ns < _RACY_NS
    if len(data) > MAX_FILE_BYTES:
        return _Reading(signature, racy, error=f"larger than {MAX_FILE_BYTES} bytes: split it")
    try:
        objects, doubles = _objects(documents.parse(data, is_json=path.suffix == ".json"))
    except DocumentError as error:
        return _Reading(signature, racy, error=str(error))
    return _Reading(signature, racy, objects, doubles=tuple(doubles))


def _objects(found: list[Document]) -> tuple[_Objects, list[str]]:
    objects: _Objects = {}
    doubles = []
    for document in _flattened(found):
        kind = kind_of(document.value)
        if kind is None:
            continue
        try:
            key = identify(document.value, kind)
        except ManifestError as error:
            # Which object was meant cannot be told, so no state of the file is safe but the last.
            raise DocumentError(document.line, 1, str(error)) from None
        if key in objects:
            first = objects[key].line
            doubles.append(f"line {document.line}: {key} is already on line {first}, which stays")
        else:
            objects[key] = Document(_without_version(document.value), document.line)
    return objects, doubles


def _flattened(found: list[Document]) -> Iterator[Document]:
    """The objects of all documents, those inside of lists too."""
    for document in found:
        value = document.value
        kind = value.get("kind") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(kind, str):
            raise DocumentError(document.line, 1, "no Kubernetes object: it has no `kind`")
        if not kind.endswith("List"):
            yield document
            continue
        items = value.get("items")
        if not isinstance(items, list | None):
            raise DocumentError(document.line, 1, f"`items` of this {kind} is no list")
        for item in items or ():
            if not isinstance(item, dict):
                raise DocumentError(document.line, 1, f"an item of this {kind} is no object")
            # Lists of one kind do not repeat it in their items.
            inherited = {"kind": kind.removesuffix("List"), "apiVersion": value.get("apiVersion")}
            yield Document(item if "kind" in item else {**inherited, **item}, document.line)


def _without_version(obj: object) -> object:
    """The object without ``resourceVersion``: here the file is right, however old its dump is."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(obj, dict) or not isinstance(metadata, dict):
        return obj
    kept = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return {**obj, "metadata": kept}
