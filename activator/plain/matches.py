"""Finds the workloads behind each Service, and the Services that a changed workload concerns."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from activator.objects.fields import ObjectKey
from activator.plain.annotations import ScaleTarget
from activator.plain.workloads import KINDS, Workload, matches

# Keeps values by key in little memory, for indexes of thousands of objects.

K = TypeVar("K")
V = TypeVar("V")


class Index(Generic[K, V]):
    """Values by key. Nearly all keys have one value, and a dict for each would take 200 bytes."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[K, V | dict[V, None]] = {}

    def add(self, key: K, value: V) -> None:
        """Add a value; a known one is no error."""
        known = self._values.get(key)
        if known is None:
            self._values[key] = value
        elif isinstance(known, dict):
            known[value] = None
        elif known != value:
            self._values[key] = {known: None, value: None}

    def discard(self, key: K, value: V) -> None:
        """Remove a value; an unknown one is no error."""
        known = self._values.get(key)
        if isinstance(known, dict):
            known.pop(value, None)
            if len(known) == 1:
                self._values[key] = next(iter(known))
        elif known == value:
            del self._values[key]

    def get(self, key: K) -> Collection[V]:
        """Return the values of a key."""
        known = self._values.get(key)
        if known is None:
            return ()
        return known if isinstance(known, dict) else (known,)


# Finds the workloads behind each Service, and the Services that a changed workload concerns.
#
# A change costs as much as the objects it concerns: both sides are indexed by their labels.

Name = TypeVar("Name", bound=Hashable)

_GROUP: Final = "apps"
#: Kinds of workloads by their spelling in ``target``, which ignores case.
_KINDS: Final = {kind.lower(): kind for kind in KINDS}


class _Label(NamedTuple):
    namespace: str
    name: str
    value: str


class _Wish(NamedTuple):
    """The workloads that a Service asks for: by name, or by the labels of their pods."""

    namespace: str
    selector: Mapping[str, str]
    target: ObjectKey | None
    label: _Label | None


def known_target(target: ScaleTarget, namespace: str) -> ObjectKey | None:
    """Return the key of a named target; None for a kind that the activator does not read."""
    kind = _KINDS.get(target.kind.lower())
    if kind is None or target.group not in ("", _GROUP):
        return None
    return ObjectKey(kind, namespace, target.name)


class Matches(Generic[Name]):
    """The workloads of all namespaces, and the Services that ask for them."""

    def __init__(self) -> None:
        self._workloads: dict[ObjectKey, Workload] = {}
        self._labelled: dict[_Label, dict[ObjectKey, None]] = {}
        self._wishes: dict[Name, _Wish] = {}
        self._selecting: dict[_Label, dict[Name, None]] = {}
        self._naming: dict[ObjectKey, dict[Name, None]] = {}

    def follow(
        self, name: Name, namespace: str, selector: Mapping[str, str], target: ObjectKey | None
    ) -> None:
        """Add a Service, or replace its wish.

        Arguments:
            name: identifies the Service.
            selector: labels of its pods.
            target: the workload that it names; None to find workloads by the selector.
        """
        self.unfollow(name)
        if target is not None:
            self._naming.setdefault(target, {})[name] = None
            self._wishes[name] = _Wish(namespace, selector, target, None)
            return
        labels = [_Label(namespace, *pair) for pair in selector.items()]
        # The rarest label: many Services may share one such as app.kubernetes.io/part-of.
        index = min(labels, key=lambda label: len(self._selecting.get(label, ())), default=None)
        if index is not None:
            self._selecting.setdefault(index, {})[name] = None
        self._wishes[name] = _Wish(namespace, selector, None, index)

    def unfollow(self, name: Name) -> None:
        """Remove a Service; an unknown one is no error."""
        wish = self._wishes.pop(name, None)
        if wish is None:
            return
        if wish.target is not None:
            _discard(self._naming, wish.target, name)
        elif wish.label is not None:
            _discard(self._selecting, wish.label, name)

    def put(self, key: ObjectKey, workload: Workload | None) -> Iterable[Name]:
        """Replace a workload; None if it is deleted.

        Returns:
            The Services that the change may concern.
        """
        old = self._workloads.pop(key, None)
        if old is not None:
            for label in _labels(old):
                _discard(self._labelled, label, key)
        if workload is not None:
            self._workloads[key] = workload
            for label in _labels(workload):
                self._labelled.setdefault(label, {})[key] = None
        found = dict(self._naming.get(key, {}))
        for each in (old, workload):
            if each is not None:
                found.update(dict.fromkeys(self._selectors_of(each)))
        return found

    def _selectors_of(self, workload: Workload) -> Iterable[Name]:
        for label in _labels(workload):
            for name in self._selecting.get(label, ()):
                if matches(self._wishes[name].selector, workload):
                    yield name

    def find(self, name: Name) -> list[Workload]:
        """Return the workloads of a Service, sorted by kind and name."""
        wish = self._wishes[name]
        if wish.target is not None:
            workload = self._workloads.get(wish.target)
            return [] if workload is None else [workload]
        labels = [_Label(wish.namespace, *pair) for pair in wish.selector.items()]
        candidates = min((self._labelled.get(label, {}) for label in labels), key=len, default={})
        found = [self._workloads[key] for key in candidates]
        return sorted(
            (each for each in found if matches(wish.selector, each)), key=lambda each: each.key
        )


def _labels(workload: Workload) -> list[_Label]:
    return [_Label(workload.key.namespace, *pair) for pair in workload.labels.items()]


Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


def _discard(index: dict[Key, dict[Item, None]], key: Key, item: Item) -> None:
    """Remove an item from an index, without an empty rest."""
    items = index[key]
    del items[item]
    if not items:
        del index[key]
