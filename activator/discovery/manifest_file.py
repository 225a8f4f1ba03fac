"""One file of manifests: what a look at it gives.

Decides which objects a file holds, or why none can be told. It must not know which other files
there are, nor what objects mean.
Knative has no counterpart.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from activator.discovery import documents
from activator.discovery.documents import Document, DocumentError
from activator.discovery.kinds import kind_of
from activator.objects.fields import ManifestError, ObjectKey, identify

# A cluster stores objects of at most 1.5 MiB; a file may hold many, and is read into memory.
MAX_FILE_BYTES = 16 * 2**20

# The kernel dates files by its tick, up to 10 ms: a file that was written just before it was read
# may be written again under the same date.
_RACY_NS = 50_000_000

Signature = tuple[int, int, int, int, int]
Objects = dict[ObjectKey, Document]


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look at a file gave: its objects, or why there are none.

    Attributes:
        signature: where it was, how long, of when; None where there was no file.
        racy: whether the file may be another one under the same signature.
        doubles: what is said of objects that are in it more than once.
        digest: of its bytes.
    """

    signature: Signature | None
    racy: bool = False
    objects: Objects = field(default_factory=dict)
    error: str = ""
    doubles: tuple[str, ...] = ()
    digest: bytes = b""


def signature_of(status: os.stat_result) -> Signature:
    """Returns what tells one state of a file from another without reading it."""
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def read(path: Path) -> Reading:
    """Looks at a file. Never raises: what is wrong is in the reading. Safe in a thread."""
    try:
        with open(path, "rb") as file:
            # Taken before reading: a change meanwhile gives another signature next time.
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
        objects, doubles = _objects(documents.parse(data, is_json=path.suffix == ".json"))
    except DocumentError as error:
        return Reading(signature, racy, error=str(error), digest=digest)
    return Reading(signature, racy, objects, doubles=tuple(doubles), digest=digest)


def digest_of(path: Path) -> bytes:
    """Returns the digest of a file as it is now; of one that cannot be read, nothing."""
    try:
        with open(path, "rb") as file:
            return _digest(file.read(MAX_FILE_BYTES + 1))
    except OSError:
        return b""


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _objects(found: list[Document]) -> tuple[Objects, list[str]]:
    objects: Objects = {}
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
