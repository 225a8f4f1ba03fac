"""Defines the nodes of a parsed template."""

from __future__ import annotations

from dataclasses import dataclass

from activator.telemetry.gotemplate.errors import At


@dataclass(frozen=True, slots=True)
class Dot:
    """The value under the cursor."""

    at: At


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, a boolean, or nil (None)."""

    at: At
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Variable:
    """``$`` or ``$x``."""

    at: At
    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function's name."""

    at: At
    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A field of another operand: ``.X`` is one of Dot."""

    at: At
    of: Operand
    name: str


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands, where each gets the value of the previous one. Variables get the last value.

    Attributes:
        names: no, one or (in range) two variables.
        declares: whether the variables are new.
    """

    at: At
    commands: tuple[tuple[Operand, ...], ...]
    names: tuple[str, ...] = ()
    declares: bool = False


Operand = Dot | Constant | Variable | Function | Field | Pipe


@dataclass(frozen=True, slots=True)
class Text:
    """Text outside actions, written unchanged."""

    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """A pipeline whose value is written."""

    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Branch:
    """``if``, ``with`` or ``range``.

    Attributes:
        word: ``if``, ``with`` or ``range``.
    """

    word: str
    pipe: Pipe
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement = Text | Action | Branch
