"""What a template is made of, as its parser found it."""

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
    """Commands, each given the value of the one before, and the variables that take the last.

    Attributes:
        names: no, one or (in range) two variables.
        declares: whether they are new.
    """

    at: At
    commands: tuple[tuple[Operand, ...], ...]
    names: tuple[str, ...] = ()
    declares: bool = False


Operand = Dot | Constant | Variable | Function | Field | Pipe


@dataclass(frozen=True, slots=True)
class Text:
    """What is written as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Action:
    """A pipeline whose value is written."""

    pipe: Pipe


@dataclass(frozen=True, slots=True)
class Branch:
    """``if``, ``with`` or ``range``.

    Attributes:
        word: which of them.
    """

    word: str
    pipe: Pipe
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement = Text | Action | Branch
