"""Reads ConfigMaps key by key, and keeps the last good value of an unusable key.

The rule for all ConfigMaps: a missing key has its default. An unusable key keeps its last value,
and the log names it; other keys still change. Keys of a group change together or not at all.
Unknown keys, such as ``_example``, have no effect. Must not know which ConfigMaps exist, nor where
their data comes from.

Knative's counterparts: knative.dev/pkg/configmap (parse.go, store.go). There one wrong key blocks
the whole ConfigMap, and at start the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final, Generic, TypeVar

from activator.settings.values import Kind

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Most characters of a value that a message repeats; templates may be long.
_LONGEST_ECHO: Final = 120


class ConfigMapError(ValueError):
    """A ConfigMap has unusable keys; ``problems`` has the reason by key."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("; ".join(f"{key}: {problem}" for key, problem in problems.items()))


class ConfigMapReader:
    """Reads the data of one ConfigMap, and collects the problems.

    The caller reads the keys of a group with ``read``, and ends the group with ``settle``.

    Arguments:
        data: of the ConfigMap.

    Attributes:
        problems: by key, the problem and the value that stays in force.
    """

    def __init__(self, data: Mapping[str, str]) -> None:
        self._data = data
        self._wrong: dict[str, str] = {}  # problems of the present group
        self.problems: dict[str, str] = {}

    def read(self, key: str, kind: Kind[T], default: T) -> T:
        """Return the value of one key.

        Arguments:
            key: its name.
            kind: the form of its values.
            default: the value of a missing key.

        Returns:
            The value; the default if the value is unusable, which is a problem of the group.
        """
        text = self._data.get(key)
        if text is None:
            return default
        try:
            return kind.parse(text)
        except ValueError as error:
            why = f"accepted is {kind.accepts}" if kind.accepts else str(error)
            self.refuse(key, f"{excerpt(text)} cannot be used: {why}")
            return default

    def __iter__(self) -> Iterator[str]:
        """Yield the keys of the ConfigMap, for one whose keys an operator chooses."""
        return iter(self._data)

    def refuse(self, key: str, problem: str) -> None:
        """Record a problem of a key of this group, as a clause."""
        self._wrong.setdefault(key, problem)

    def settle(self, value: T, last_good: T, shown: str = "", stays: str = "") -> T:
        """End a group of keys.

        Arguments:
            value: of the group, if all its keys are usable.
            last_good: the value of the group until now.
            shown: ``last_good`` in its written form.
            stays: the consequence of an unusable key, as a clause; by default, ``shown`` stays in
                force.

        Returns:
            The value, or ``last_good`` if a key of the group is unusable.
        """
        wrong, self._wrong = self._wrong, {}
        stays = stays or f"{shown or _shown(last_good)} stays in force"
        self.problems.update({key: f"{problem}; {stays}" for key, problem in wrong.items()})
        return last_good if wrong else value


Read = Callable[[ConfigMapReader, T], T]
"""Reads all keys of one ConfigMap; the second argument is the last good value."""


class Followed(Generic[T]):
    """The value of one ConfigMap, which follows its changes.

    Arguments:
        name: of the ConfigMap.
        read: reads its keys.
        default: the value until the ConfigMap is read.
        changed: called with each value that differs from the previous one; not for the default.

    Attributes:
        name: of the ConfigMap.
        value: the value in force.
        problems: the problems of the present data, by key.
        seen: whether the ConfigMap has ever existed.
    """

    def __init__(
        self,
        name: str,
        read: Read[T],
        default: T,
        changed: Callable[[T], None] = lambda value: None,
    ) -> None:
        self.name = name
        self.value = default
        self.problems: Mapping[str, str] = {}
        self.seen = False
        self._read = read
        self._changed = changed

    def update(self, data: Mapping[str, str]) -> None:
        """Apply the ConfigMap's data; empty if it is deleted: then all keys have defaults."""
        self.seen = True
        reader = ConfigMapReader(data)
        value = self._read(reader, self.value)
        self._log(reader.problems)
        self.problems = reader.problems
        if value != self.value:
            self.value = value
            self._changed(value)

    def _log(self, problems: Mapping[str, str]) -> None:
        """Log each problem once, and its end."""
        ended = dict.fromkeys(self.problems.keys() - problems.keys(), "valid again")
        for key, text in (*problems.items(), *ended.items()):
            if self.problems.get(key) != text:
                level = logging.INFO if key in ended else logging.ERROR
                extra = {"config_map": self.name, "key": key}
                logger.log(level, "ConfigMap %s, key %s: %s", self.name, key, text, extra=extra)


def excerpt(text: str) -> str:
    """Return a value for a message: quoted, and shortened if long."""
    quoted = repr(text)
    return quoted if len(quoted) <= _LONGEST_ECHO else quoted[:_LONGEST_ECHO] + "…"


def _shown(value: object) -> str:
    """Return a value in the form of a ConfigMap."""
    if isinstance(value, bool):
        return str(value).lower()
    return excerpt(str(value.value if isinstance(value, Enum) else value))
