"""Defines the state of a source of objects, which metrics, the API and log lines read.

The module is pure. It must not know what a source is, nor the meaning of its objects; see
``discovery/source.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from throttler.model import RevisionKind


@dataclass(slots=True)
class WatchCounters:
    """Lists and failures of one watch since the start."""

    lists: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class KindStatus:
    """One kind of objects of a source.

    Attributes:
        in_force: objects that are in use.
        rejected: objects that cannot be used at present; their last good state is in force.
        synced: whether the kind has been read once, or need not be.
        age: seconds since the source last confirmed the kind; None if the kind does not age.
        watch: counters of its watch; None if it is not watched.
        error: why the watch fails at present; empty if it does not.
    """

    in_force: int = 0
    rejected: int = 0
    synced: bool = True
    age: float | None = None
    watch: WatchCounters | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class FilesStatus:
    """The files that objects are read from.

    Attributes:
        path: a file or a folder.
        age: seconds since it was last read, changed or not.
        changed_age: seconds since it last changed an object.
    """

    path: str
    age: float
    changed_age: float


@dataclass(slots=True)
class MissedEvents:
    """Results of the self-checks.

    Attributes:
        checks: number of checks by result: ``equal``, ``drifted``, ``failed`` or ``skipped``.
        found: objects with a missed event since the start, by kind.
        present: objects that still differed after the last check, by kind.
    """

    checks: dict[str, int] = field(default_factory=Counter)
    found: dict[str, int] = field(default_factory=Counter)
    present: dict[str, int] = field(default_factory=dict)

    def record(self, kind: str, missed: int, left: int) -> None:
        """Record one check.

        Arguments:
            missed: number of objects that differed.
            left: number of them that still differ after the resync.
        """
        self.checks["drifted" if missed else "equal"] += 1
        self.found[kind] += missed
        self.present[kind] = left


class ObjectWarning(NamedTuple):
    """A problem of an object: it is broken, or a part of it has no effect.

    Attributes:
        kind, namespace, name: the object.
        revision: name of its revision; empty if unknown.
        text: which part has no effect, and why.
        reason: a word for the sort of problem; empty for a part without effect.
        revision_kind: the kind of its revision; None if that is unknown.
    """

    kind: str
    namespace: str
    name: str
    revision: str
    text: str
    reason: str = ""
    revision_kind: RevisionKind | None = None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A source of objects.

    Attributes:
        kind: the sort of source, such as ``kubernetes`` or ``folder``.
        name: where it reads its ConfigMaps, for people: a namespace or a path.
        kinds: the kinds of its objects, in a fixed order.
        files: the files of a source that reads files; else None.
        errors: what is wrong with the files at present, by path.
        missed: results of the self-checks.
        warnings: objects without effect.
    """

    kind: str
    name: str
    kinds: Mapping[str, KindStatus]
    files: FilesStatus | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    missed: MissedEvents = field(default_factory=MissedEvents)
    warnings: tuple[ObjectWarning, ...] = ()

    @property
    def synced(self) -> bool:
        """Whether every kind has been read once, or need not be."""
        return all(each.synced for each in self.kinds.values())

    @property
    def watched(self) -> Mapping[str, KindStatus]:
        """The kinds that are watched."""
        return {name: each for name, each in self.kinds.items() if each.watch is not None}


#: Before the source exists.
NO_SOURCE: Final = SourceStatus("", "", {})
