"""Defines the errors of a template: when it is compiled, and when it renders a line."""

from __future__ import annotations

from typing import NamedTuple


class At(NamedTuple):
    """A place in a template: line and column, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class TemplateError(ValueError):
    """An invalid template; the text begins with ``line:column: ``."""

    def __init__(self, at: At, reason: str) -> None:
        self.at = at
        self.reason = reason
        super().__init__(f"{at}: {reason}")


class ExecutionError(Exception):
    """A valid template that cannot render the values of a line."""
