"""Readers of annotations: each reads a value, and has the shape of the texts that it allows.

manifests/admission_policy.py makes an expression of each shape, so the API server refuses the same
values. A pattern must mean the same to ``re`` and to RE2: without look-around, classes such as
``\\d`` and counts above 1000.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from activator.objects.fields import Field

T = TypeVar("T")
_Enum = TypeVar("_Enum", bound=Enum)


@dataclass(frozen=True, slots=True)
class Words:
    """One of these words."""

    words: tuple[str, ...]

    def allows(self, text: str) -> bool:
        """Return whether it is one of the words."""
        return text in self.words


@dataclass(frozen=True, slots=True)
class Number:
    """A decimal number without sign and exponent, within limits.

    Attributes:
        least, most: the limits.
        decimals: the most digits behind the point; 0: an integer.
    """

    least: float
    most: float
    decimals: int = 0

    @property
    def text(self) -> Text:
        """The shape of the number without its limits."""
        fraction = rf"(?:\.[0-9]{{1,{self.decimals}}})?" if self.decimals else ""
        return Text(rf"[0-9]{{1,10}}{fraction}")

    def allows(self, text: str) -> bool:
        """Return whether it is a number within the limits."""
        return self.text.allows(text) and self.least <= float(text) <= self.most


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a pattern.

    Attributes:
        pattern: of the whole text.
        most: characters.
        but: a pattern of texts that are not allowed; empty for none.
    """

    pattern: str
    most: int = 1024
    but: str = ""

    def allows(self, text: str) -> bool:
        """Return whether the whole text has the pattern."""
        return (
            len(text) <= self.most
            and re.fullmatch(self.pattern, text) is not None
            and not (self.but and re.fullmatch(self.but, text))
        )


@dataclass(frozen=True, slots=True)
class Members:
    """Members with separators between them; empty ones do not count.

    Attributes:
        each: what is allowed for a member, without white space around it.
        most: members, empty ones too.
    """

    each: Shape
    most: int
    separator: str = ","

    def of(self, text: str) -> list[str]:
        """Return the members of a text."""
        return [each for each in map(str.strip, text.split(self.separator)) if each]

    def allows(self, text: str) -> bool:
        """Return whether all members are allowed."""
        is_short = text.count(self.separator) < self.most
        return is_short and all(map(self.each.allows, self.of(text)))


#: Which texts are allowed; white space around them does not count.
Shape = Words | Number | Text | Members


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """Reads the value of one annotation. White space around it does not count.

    Attributes:
        shape: which texts are allowed.
        allowed: the same for people, behind "expected".
        value: returns the value of such a text. Its ``ValueError`` refuses what no shape can tell.
        wrong: the safe default for a wrong value; None for that of an absent one.
    """

    shape: Shape
    allowed: str
    value: Callable[[str], T | None]
    wrong: T | None = None

    def __call__(self, field: Field) -> T | None:
        """Return the value; None if it is absent or empty.

        Raises:
            ManifestError: it is not allowed; the error has the allowed ones, and the safe default.
        """
        if field.value is not None and not isinstance(field.value, str):
            field.expected("a string in quotes", self.wrong)
        text = field.text().strip()
        if not text:
            return None
        if not self.shape.allows(text):
            field.expected(self.allowed, self.wrong)
        try:
            return self.value(text)
        except ValueError as error:
            field.expected(f"{self.allowed} ({error})", self.wrong)


def words(values: Mapping[str, T], wrong: T | None = None) -> Reader[T]:
    """Return a reader of words, each with its value."""
    return Reader(Words(tuple(values)), f"one of {', '.join(values)}", values.__getitem__, wrong)


def enum_of(values: type[_Enum], wrong: _Enum | None = None) -> Reader[_Enum]:
    """Return a reader of the words of an enum."""
    return words({each.value: each for each in values if each.value}, wrong)


def switch(*, wrong: bool | None = None) -> Reader[bool]:
    """Return a reader of ``true`` and ``false``."""
    return words({"true": True, "false": False}, wrong)


def members(
    each: Shape, most: int, allowed: str, value: Callable[[str], T]
) -> Reader[tuple[T, ...]]:
    """Return a reader of a list, in order and each value once; the safe default is ().

    Arguments:
        allowed: the members for people, behind their largest number.
    """
    shape = Members(each, most)
    return Reader(
        shape,
        f"up to {most} {allowed}",
        lambda text: tuple(dict.fromkeys(map(value, shape.of(text)))) or None,
        (),
    )
