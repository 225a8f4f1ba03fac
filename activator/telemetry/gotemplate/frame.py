"""Defines the state of one execution of a template, and the compiled parts that use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from activator.telemetry.gotemplate.errors import ExecutionError

#: Limit of the cost of one line. A character that is read or made costs 1, a statement or an
#: argument STEP. No request passes while a line is made; the slowest line within the limit takes
#: about 20 ms. Few log readers accept lines of more than 16 KiB.
MOST_WORK: Final = 128 << 10
STEP: Final = 8


class Frame:
    """The state of one execution."""

    __slots__ = ("dot", "left", "out", "root", "variables")

    def __init__(self, root: object, variables: int) -> None:
        self.left = MOST_WORK
        self.root = root
        self.dot = root
        self.variables: list[object] = [None] * variables
        self.out: list[str] = []

    def spend(self, work: int) -> None:
        """Count work; raise ``ExecutionError`` if a line exceeds its limit."""
        self.left -= work
        if self.left < 0:
            raise ExecutionError(
                f"a line may read and make {MOST_WORK} characters; this needs more"
            )

    def write(self, text: str) -> None:
        """Append to the line; raises as ``spend``."""
        self.spend(len(text))
        self.out.append(text)


Evaluate = Callable[[Frame], object]
Execute = Callable[[Frame], None]


class Expression(NamedTuple):
    """A compiled operand or pipeline.

    Attributes:
        evaluate: returns the value; raises ``ExecutionError``.
        type: the type of the value; ``object`` if only a line shows it.
        constant: whether the template contains the value itself.
    """

    evaluate: Evaluate
    type: type
    constant: bool = False
