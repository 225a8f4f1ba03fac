"""ConfigMaps, read key by key and followed: what cannot be used is told, and the last good stays.

One rule for all of them: a key that is not there has its default; one that cannot be used keeps
the value it had, while the other keys are taken; keys that only make sense together are taken
together or not at all. Keys that nobody reads, ``_example`` among them, mean nothing. Must not
know which ConfigMaps there are, nor where their data comes from.
Knative's counterparts: knative.dev/pkg/configmap (parse.go, store.go). There one wrong key holds
up the whole ConfigMap, and at start the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Generic, TypeVar

from activator.settings.values import Kind

logger = logging.getLogger(__name__)

T = TypeVar("T")

# What is echoed must not bury the message around it; templates may be long.
_LONGEST_ECHO: Final = 120


class ConfigMapError(ValueError):
    """Keys of a ConfigMap that cannot be used; ``problems`` says by key what is wrong."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("; ".join(f"{key}: {problem}" for key, problem in problems.items()))


class Reader:
    """One ConfigMap's data while it is read; collects what is wrong with it.

    Keys are read, then settled: ``settle`` ends a group of keys that are taken together.

    Attributes:
        problems: by key, what is wrong and what stays in force.
    """

    def __init__(self, data: Mapping[str, str]) -> None:
        """Args: data of the ConfigMap."""
        self._data = data
        self._wrong: dict[str, str] = {}  # of the group that is being read
        self.problems: dict[str, str] = {}

    def read(self, key: str, kind: Kind[T], default: T) -> T:
        """Return the value of one key.

        Arguments:
            key: its name.
            kind: how it is written.
            default: what it means that it is not there.

        Returns:
            What the data says; the default if that cannot be used, which is noted then.
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

    def refuse(self, key: str, problem: str) -> None:
        """Note what is wrong with a key of this group, as a clause."""
        self._wrong.setdefault(key, problem)

    def settle(self, value: T, last_good: T, shown: str = "", stays: str = "") -> T:
        """End a group of keys.

        Arguments:
            value: what they add up to if all of them were right.
            last_good: what they added up to until now.
            shown: ``last_good`` as somebody would write it.
            stays: what follows from a wrong key, as a clause; that ``shown`` stays in force where
                nothing is said.

        Returns:
            The value, or ``last_good`` if a key of the group cannot be used.
        """
        wrong, self._wrong = self._wrong, {}
        stays = stays or f"{shown or _shown(last_good)} stays in force"
        self.problems.update({key: f"{problem}; {stays}" for key, problem in wrong.items()})
        return last_good if wrong else value


Read = Callable[[Reader, T], T]
"""Reads all keys of one ConfigMap; is given the last good value."""


def strictly(read: Read[T], data: Mapping[str, str], default: T) -> T:
    """Read data in which nothing may be wrong.

    Raises:
        ConfigMapError: something is.
    """
    reader = Reader(data)
    value = read(reader, default)
    if reader.problems:
        raise ConfigMapError(reader.problems)
    return value


class Followed(Generic[T]):
    """The value of one ConfigMap, now and from now on.

    Attributes:
        name: of the ConfigMap.
        value: what is in force.
        problems: by key, what is wrong with the data as they are.
        seen: whether there ever was such a ConfigMap.
    """

    def __init__(
        self,
        name: str,
        read: Read[T],
        default: T,
        changed: Callable[[T], None] = lambda value: None,
    ) -> None:
        """Args: the name; how its keys are read; the value until it is seen; who hears of changes.

        ``changed`` is called with each value that differs from the one before, and not for the
        default.
        """
        self.name = name
        self.value = default
        self.problems: Mapping[str, str] = {}
        self.seen = False
        self._read = read
        self._changed = changed

    def update(self, data: Mapping[str, str]) -> None:
        """Take the ConfigMap's data; empty when it is gone, so that all has its default."""
        self.seen = True
        reader = Reader(data)
        value = self._read(reader, self.value)
        self._tell(reader.problems)
        self.problems = reader.problems
        if value != self.value:
            self.value = value
            self._changed(value)

    def _tell(self, problems: Mapping[str, str]) -> None:
        """Log each problem once, and when it is over."""
        for key, problem in problems.items():
            if self.problems.get(key) != problem:
                extra = {"config_map": self.name, "key": key}
                logger.error("ConfigMap %s, key %s: %s", self.name, key, problem, extra=extra)
        for key in self.problems.keys() - problems.keys():
            extra = {"config_map": self.name, "key": key}
            logger.info("ConfigMap %s, key %s: is right again", self.name, key, extra=extra)


def excerpt(text: str) -> str:
    """Return a value as it is shown in a message: quoted, and not all of a long one."""
    quoted = repr(text)
    return quoted if len(quoted) <= _LONGEST_ECHO else quoted[:_LONGEST_ECHO] + "…"


def _shown(value: object) -> str:
    """A value as somebody would write it into the ConfigMap."""
    if isinstance(value, bool):
        return str(value).lower()
    return excerpt(str(value.value if isinstance(value, Enum) else value))
