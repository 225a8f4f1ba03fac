"""Records and logs unusable objects, and the parts of valid objects that have no effect."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from activator.discovery.dialect import Dialect
from activator.objects.fields import ManifestError, ObjectKey, root
from activator.records.source_status import ObjectWarning
from throttler.model import RevisionKind

logger = logging.getLogger(__name__)


# Records and logs unusable objects.
#
# Must not know the reasons; the parsers give them.


class Effect(StrEnum):
    """What is in force of an invalid object; the value is a clause for people."""

    KEPT = "its last good state stays in force"
    DEFAULTS = "it has no last good state, so each wrong annotation has a safe default"
    UNUSED = "it is not in use"


@dataclass(frozen=True, slots=True)
class Rejection:
    """An invalid object, and the reason; ``effect``: its state in force."""

    kind: str
    namespace: str
    name: str
    reason: str
    effect: Effect


def log_rejection(rejection: Rejection) -> None:
    """Log a rejection, with its parts as fields."""
    logger.warning(
        "invalid object: %s; %s",
        rejection.reason,
        rejection.effect,
        extra={
            "object_kind": rejection.kind,
            "object_namespace": rejection.namespace,
            "object_name": rejection.name,
            "reason": rejection.reason,
        },
    )


def revision_of(key: ObjectKey, obj: object, dialect: Dialect) -> str:
    """Return the name of the revision that an object belongs to; empty if no label names it."""
    if key.kind in dialect.main:
        return key.name
    try:
        name = root(obj, key.kind)["metadata"]["labels"].at(dialect.label).value
    except ManifestError:  # the object is broken, too
        return ""
    return name if isinstance(name, str) else ""


class ObjectWarnings:
    """The current warnings, one for each object.

    Arguments:
        revision_kind: the kind of the revisions that the objects belong to.
        limit: maximum of warnings; the log reports once that there are more.
    """

    def __init__(self, revision_kind: RevisionKind | None, limit: int = 100) -> None:
        self._revision_kind = revision_kind
        self._limit = limit
        self._is_full = False
        self._by_object: dict[ObjectKey, ObjectWarning] = {}

    def __iter__(self) -> Iterator[ObjectWarning]:
        return iter(self._by_object.values())

    def put(self, key: ObjectKey, revision: str, text: str) -> None:
        """Replace the warning of an object, and log a new text.

        Arguments:
            revision: as from ``revision_of``.
            text: empty if the object has no warning, or none any more.
        """
        warning = ObjectWarning(*key, revision, text, "", self._revision_kind)
        if not text:
            self.remove(key)
        elif self._by_object.get(key) != warning:
            if key not in self._by_object and len(self._by_object) >= self._limit:
                self._log_full()
                return
            self._by_object[key] = warning
            logger.warning("%s: %s", key, text, extra={"object_kind": key.kind})

    def remove(self, key: ObjectKey) -> None:
        """Remove the warning of an object, if it has one."""
        if self._by_object.pop(key, None) is not None:
            self._is_full = False

    def _log_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            logger.warning("more than %d objects have warnings: no more are logged", self._limit)
