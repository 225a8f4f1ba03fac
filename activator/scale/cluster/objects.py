"""Keeps the versions of all watched objects, and passes each change to the views of its kind.

Decides whether an object is new, changed, outdated or broken, as ``discovery.inventory`` does for
the activator. A broken object is reported, and its last good state stays in force.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import Final, Protocol

from activator.discovery.object_warnings import Effect, Rejection, log_rejection
from activator.objects.fields import ManifestError, ObjectKey, identify, root


class View(Protocol):
    """Takes the objects of one kind."""

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed object.

        Raises:
            ManifestError: a field is wrong. The view has not changed, or it uses ``instead``.
        """

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted object; an unknown one is no error."""


#: Identity and version of an object in one number, which takes a quarter of the memory of two
#: texts: the hash of the uid above the version.
_Version = int
_VERSION_BITS: Final = 64
_VERSION_MASK: Final = (1 << _VERSION_BITS) - 1


class Objects:
    """All objects in force (discovery.reflector.Objects).

    Arguments:
        views: the views of each kind.
        report: called with each unusable object.

    Attributes:
        rejected: the present unusable objects, each with the reason.
    """

    def __init__(
        self,
        views: Mapping[str, Sequence[View]],
        report: Callable[[Rejection], None] = log_rejection,
    ) -> None:
        self._views = views
        self._report = report
        self._versions: dict[ObjectKey, _Version] = {}
        self._counts = Counter[str]()
        self.rejected: dict[ObjectKey, str] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of objects in force, by kind."""
        return {kind: self._counts[kind] for kind in self._views}

    def apply(self, obj: object) -> None:
        """Apply an object that may be new, changed or unchanged; its ``kind`` must be known."""
        kind = obj.get("kind") if isinstance(obj, dict) else None
        if isinstance(kind, str) and kind in self._views:
            self._apply(kind, obj, listed=False)

    def remove(self, kind: str, namespace: str, name: str, uid: str = "") -> None:
        """Remove a deleted object; an unknown one, or an older one of that name, is no error."""
        key = ObjectKey(kind, namespace, name)
        known = self._versions.get(key)
        if known is None or not uid or known >> _VERSION_BITS in (0, hash(uid)):
            self._delete(key)

    def replacing(self, kind: str, objects: Iterable[object]) -> Iterator[None]:
        """Apply the complete list of a kind in steps, and remove all others of that kind."""
        present = set()
        for obj in objects:
            present.add(self._apply(kind, obj, listed=True))
            yield
        known = self._versions.keys() | self.rejected.keys()
        for key in [key for key in known if key.kind == kind and key not in present]:
            self._delete(key)

    def _apply(self, kind: str, obj: object, *, listed: bool) -> ObjectKey:
        """Pass an object to the views, unless it is known; return its key as far as readable."""
        key = ObjectKey(kind, "?", "?")
        try:
            key = identify(obj, kind)
            # Thousands of objects have the same namespace, each its own text. And a Service, its
            # workload and their labels often have one name.
            key = ObjectKey(kind, intern(key.namespace), intern(key.name))
            metadata = root(obj, kind)["metadata"]
            fresh = _packed(metadata["uid"].text(), metadata["resourceVersion"].text())
            known = self._versions.get(key)
            # After a restore of etcd, a list may have an older version than the known one.
            if known is not None and (_is_same if listed else _is_old)(fresh, known):
                return key
            for view in self._views[kind]:
                view.put(key, obj)
        except ManifestError as error:
            self._reject(key, error)
            return key
        self.rejected.pop(key, None)
        self._counts[kind] += key not in self._versions
        self._versions[key] = fresh
        return key

    def _delete(self, key: ObjectKey) -> None:
        # A view may know a broken object that was never in force.
        was_broken = self.rejected.pop(key, None) is not None
        was_in_force = self._versions.pop(key, None) is not None
        self._counts[key.kind] -= was_in_force
        if was_in_force or was_broken:
            for view in self._views[key.kind]:
                view.remove(key)

    def _reject(self, key: ObjectKey, error: ManifestError) -> None:
        reason = str(error)
        if self.rejected.get(key) == reason:
            return
        if key.name != "?":
            self.rejected[key] = reason
        effect = Effect.KEPT if key in self._versions else Effect.UNUSED
        if error.instead is not None:
            effect = Effect.DEFAULTS
        self._report(Rejection(*key, reason, effect))


def _packed(uid: str, version: str) -> _Version:
    """Return identity and version as one number.

    A version that is no number counts as 0: each such object is new.
    """
    is_number = len(version) < 20 and version.isascii() and version.isdigit()
    return (hash(uid) << _VERSION_BITS) | (int(version) & _VERSION_MASK if is_number else 0)


def _is_same(fresh: _Version, known: _Version) -> bool:
    """Return whether an object is a known one in the same version."""
    return fresh == known and fresh & _VERSION_MASK > 0


def _is_old(fresh: _Version, known: _Version) -> bool:
    """Return whether an object is a known one in the same version or an older one."""
    if fresh >> _VERSION_BITS != known >> _VERSION_BITS:
        return False
    return 0 < fresh & _VERSION_MASK <= known & _VERSION_MASK
