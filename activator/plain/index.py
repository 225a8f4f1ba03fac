"""Keeps values by key in little memory, for indexes of thousands of objects."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

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
