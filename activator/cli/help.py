"""Formats help: lines break at spaces alone, so that options and header fields stay whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import click

#: Click breaks lines at hyphens, but not at this one; it has the same width.
_NO_BREAK: Final = "\u2011"


class _Formatter(click.HelpFormatter):
    """Breaks lines at spaces only, so that the names of options and headers stay whole."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _NO_BREAK))

    def write_dl(self, rows: Iterable[tuple[str, str]], *more: Any, **named: Any) -> None:
        whole = [(term, meaning.replace("-", _NO_BREAK)) for term, meaning in rows]
        super().write_dl(whole, *more, **named)

    def getvalue(self) -> str:
        return super().getvalue().replace(_NO_BREAK, "-")


class Context(click.Context):
    """A context whose help keeps names whole."""

    formatter_class: type[click.HelpFormatter] = _Formatter


class Command(click.Command):
    """A command whose help keeps names whole."""

    context_class: type[click.Context] = Context


class Group(click.Group):
    """A group of commands whose help keeps names whole, and theirs too."""

    context_class: type[click.Context] = Context
    command_class: type[click.Command] | None = Command
