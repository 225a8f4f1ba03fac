"""Reads label selectors in the text form of Kubernetes' API.

Pure. Sources: "Labels and Selectors" in the Kubernetes documentation, and pkg/labels of
k8s.io/apimachinery.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_KEY: Final = r"(?P<key>[A-Za-z0-9](?:[A-Za-z0-9_./-]{0,315}[A-Za-z0-9])?)"
_VALUE: Final = r"[A-Za-z0-9_.-]{0,63}"
_EQUAL: Final = re.compile(rf"{_KEY}\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})")
_SET: Final = re.compile(
    rf"{_KEY}\s+(?P<operator>in|notin)\s*\(\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)"
)
_EXISTS: Final = re.compile(rf"(?P<absent>!\s*)?{_KEY}")
#: Characters of a selector: an HPA's has a few dozen.
_LONGEST: Final = 4096
_SEPARATOR: Final = re.compile(r"\s*(,?)\s*")


class Requirement(NamedTuple):
    """One condition.

    Attributes:
        values: the label must have one of them; None if any value will do.
        negated: whether the condition must not hold.
    """

    key: str
    values: frozenset[str] | None
    negated: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels fulfil the condition; an absent label has no value."""
        value = labels.get(self.key)
        holds = value is not None if self.values is None else value in self.values
        return holds is not self.negated


def parse(text: str) -> tuple[Requirement, ...]:
    """Return the conditions of a selector; none for an empty one, which selects everything.

    Raises:
        ValueError: the text is no selector.
    """
    text = text[:_LONGEST].strip()
    found: list[Requirement] = []
    at = 0
    while at < len(text):
        if found:
            separator = _SEPARATOR.match(text, at)
            assert separator is not None
            if not separator[1]:
                raise ValueError(f"expected a comma at {text[at : at + 20]!r}")
            at = separator.end()
        requirement, at = _requirement(text, at)
        found.append(requirement)
    return tuple(found)


def matches(selector: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    """Return whether labels fulfil all conditions."""
    return all(each.matches(labels) for each in selector)


def _requirement(text: str, at: int) -> tuple[Requirement, int]:
    if found := _SET.match(text, at):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return Requirement(found["key"], values, found["operator"] == "notin"), found.end()
    if found := _EQUAL.match(text, at):
        negated = found["operator"] == "!="
        return Requirement(found["key"], frozenset({found["value"]}), negated), found.end()
    if found := _EXISTS.match(text, at):
        return Requirement(found["key"], None, bool(found["absent"])), found.end()
    raise ValueError(f"no requirement at {text[at : at + 20]!r}")
