"""Print rows: in colours on a terminal, as plain text to any other stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from activator.lab.report import ReportRow

#: rich's styles, by the style of a `Row`; rich reads NO_COLOR.
STYLES = {
    "title": "bold",
    "text": "",
    "fault": "bold magenta",
    "scaler": "bright_blue",
    "pod": "blue",
    "kubernetes": "cyan",
    "activator": "yellow",
    "client": "",
    "passed": "green",
    "failed": "bold red",
}


class Printer:
    """Writes rows to one stream; on a terminal, it also shows the step in progress."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawing = out.isatty()
        if self._drawing:  # rich costs start-up time, so plain text does without
            from rich.console import Console

            self._console = Console(file=out, highlight=False)

    def rows(self, rows: Iterable[ReportRow]) -> None:
        """Write rows, and flush the stream."""
        for row in rows:
            if self._drawing:
                self._draw(row)
            else:
                self._out.write(f"{row.plain}\n")
        self._out.flush()

    def _draw(self, row: ReportRow) -> None:
        from rich.table import Table
        from rich.text import Text

        style = STYLES[row.style]
        # Text, not markup: brackets in a pod's response must not select a colour.
        if len(row.columns) == 1:
            self._console.print(Text(row.columns[0], style), soft_wrap=True)
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(*(Text(_printable(column), style) for column in row.columns))
        self._console.print(grid)

    @contextmanager
    def under_way(self, what: str) -> Iterator[None]:
        """Show a text on a terminal while the block runs."""
        if not self._drawing:
            yield
            return
        with self._console.status(what):
            yield


def _printable(text: str) -> str:
    """Replace control characters, so that a pod's response cannot control the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
