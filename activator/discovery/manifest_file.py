"""The files of a folder of manifests: each with its objects or its error, and which counts."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from activator.discovery import documents
from activator.discovery.documents import Document, DocumentError
from activator.discovery.inventory import GROUPS, kind_of
from activator.objects.fields import ManifestError, ObjectKey, identify, show

# Reads one file of manifests: its objects, or its error.

# A cluster stores objects of at most 1.5 MiB. A file may have many, and is read into memory.
MAX_FILE_BYTES = 16 * 2**20

# The kernel's file times have a resolution of up to 10 ms. A file that was written just before the
# read may change again without a new time.
_RACY_NS = 50_000_000

#: Kinds of Kubernetes that often stand beside the objects that are read, without any effect here.
_COMPANIONS = frozenset(
    (
        *("ClusterRole", "ClusterRoleBinding", "Gateway", "HTTPRoute", "HorizontalPodAutoscaler"),
        *("Ingress", "Namespace", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget"),
        *("Role", "RoleBinding", "ScaledObject", "ServiceAccount"),
    )
)
#: Most kinds that a text lists.
_SHOWN = 5

Signature = tuple[int, int, int, int, int]
Objects = dict[ObjectKey, Document]


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one read of a file: its objects, or an error.

    Attributes:
        signature: its place, size and times; None if there is no file.
        racy: whether the file may change without a new signature.
        objects: empty after an error.
        error: empty for a valid file.
        duplicates: texts about objects that are in the file more than once.
        ignored: a text about the objects of kinds that nothing reads; empty without any.
        digest: of its bytes.
    """

    signature: Signature | None
    racy: bool = False
    objects: Objects = field(default_factory=dict)
    error: str = ""
    duplicates: tuple[str, ...] = ()
    digest: bytes = b""
    ignored: str = ""


def signature_of(status: os.stat_result) -> Signature:
    """Return values that differ between two states of a file, without reading it."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def read(path: Path) -> Reading:
    """Read a file. Never raises: the result has the error. May run in a thread."""
    try:
        with open(path, "rb") as file:
            # Before the read: a change during the read gives another signature next time.
            status = os.fstat(file.fileno())
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return Reading(None)
    except OSError as error:
        return Reading((0, 0, 0, 0, 0), racy=True, error=f"cannot be read: {error.strerror}")
    signature = signature_of(status)
    racy = time.time_ns() - status.st_mtime_ns < _RACY_NS
    digest = _digest(data)
    if len(data) > MAX_FILE_BYTES:
        why = f"larger than {MAX_FILE_BYTES} bytes: split it"
        return Reading(signature, racy, error=why, digest=digest)
    try:
        found = documents.parse(data, is_json=path.suffix == ".json")
        objects, duplicates, ignored = _objects(found)
    except DocumentError as error:
        return Reading(signature, racy, error=str(error), digest=digest)
    return Reading(signature, racy, objects, "", tuple(duplicates), digest, ignored)


def digest_of(path: Path) -> bytes:
    """Return the digest of a file; empty if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return _digest(file.read(MAX_FILE_BYTES + 1))
    except OSError:
        return b""


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _objects(found: list[Document]) -> tuple[Objects, list[str], str]:
    objects: Objects = {}
    duplicates, ignored = [], list[Document]()
    for document in _flattened(found):
        kind = kind_of(document.value)
        if kind is None:
            ignored.append(document)
            continue
        try:
            key = identify(document.value, kind)
        except ManifestError as error:
            # The object is unknown, so the whole file keeps its last state.
            raise DocumentError(document.line, 1, str(error)) from None
        if key in objects:
            first = objects[key].line
            duplicates.append(
                f"line {document.line}: {key} is already on line {first}, which stays"
            )
        else:
            objects[key] = Document(_without_version(document.value), document.line)
    return objects, duplicates, _ignored(ignored)


def _ignored(found: Iterable[Document]) -> str:
    """Return a text about objects that nothing reads, by kind with the line of the first."""
    kinds: dict[str, int] = {}
    for value, line in ((each.value, each.line) for each in found):
        if isinstance(value, dict) and (kind := str(value["kind"])) not in _COMPANIONS:
            kinds.setdefault(show(f"{value.get('apiVersion') or ''} {kind}".lstrip()), line)
    first = ", ".join(f"{kind} (line {line})" for kind, line in islice(kinds.items(), _SHOWN))
    known = ", ".join(sorted(GROUPS))
    return (
        f"objects of these kinds are ignored: {first}; the known kinds are {known}" if first else ""
    )


def _flattened(found: list[Document]) -> Iterator[Document]:
    """Yield the objects of all documents, also from lists."""
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
            # The items of a list of one kind do not have the kind.
            inherited = {"kind": kind.removesuffix("List"), "apiVersion": value.get("apiVersion")}
            yield Document(item if "kind" in item else {**inherited, **item}, document.line)


def _without_version(obj: object) -> object:
    """Return the object without ``resourceVersion``: a file may contain an old dump."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(obj, dict) or not isinstance(metadata, dict):
        return obj
    kept = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return {**obj, "metadata": kept}


# The files of a folder of manifests: which of their states counts, and the objects of each.
#
# A file that loses objects counts only after a second reading, since editors truncate or remove a
# file before they write it.

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
        settle, settle_limit: as in ``manifests.FolderTimings``.
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
