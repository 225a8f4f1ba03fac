"""Write the pages of commands, once or repeatedly: drawn on a terminal, as plain columns elsewhere.

A page has texts, facts (a label with lines) and tables. If a table is wider than the terminal,
each row becomes a paragraph, so that no cell is cut. Repeated output continues while no activator
responds, for example during a restart. Must not know the content. It imports rich only when it
draws, so that the command line starts fast.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from textwrap import wrap
from time import sleep  # noqa: TID251 # no loop runs in this command
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from activator.console.client import NoResponse, NotKnown, UnexpectedResponse
from activator.process.signals import write

if TYPE_CHECKING:  # imported to draw
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True)
class Fact:
    """A label with its lines."""

    label: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns with a heading, and rows.

    Attributes:
        right: the columns whose cells are numbers.
        styles: colour of each row on a terminal; empty for none.
        caption: meaning of the columns; only on a terminal.
        heads: how many first cells identify a row; they head its paragraph.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()
    styles: tuple[str, ...] = ()
    caption: str = ""
    heads: int = 1


Part = str | tuple[Fact, ...] | Table
Page = tuple[Part, ...]


def show(page: Page, out: TextIO) -> None:
    """Write a page once."""
    if out.isatty():
        from rich.console import Console

        Console(file=out).print(_drawn(page))
    else:
        out.write(plain(page))


@contextmanager
def _ends_below(terminal: TextIO) -> Iterator[None]:
    """Leave the cursor visible, below the page, if Ctrl-C ends the process in the context."""
    end = signal.getsignal(signal.SIGINT)
    if not callable(end):  # the process ignores Ctrl-C
        yield
        return

    def restore(number: int, frame: FrameType | None) -> None:
        write(terminal.fileno(), b"\n\x1b[?25h")  # the sequence of xterm that shows the cursor
        end(number, frame)

    signal.signal(signal.SIGINT, restore)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, end)


@contextmanager
def redrawing(out: TextIO) -> Iterator[Callable[[Page, str], None]]:
    """Yield a function that replaces the page; its second argument is a note above the page."""
    from rich.console import Console
    from rich.live import Live

    with (
        _ends_below(out),
        Live(console=Console(file=out), auto_refresh=False) as live,
    ):
        yield lambda page, note: live.update(_drawn(page, note), refresh=True)


def plain(page: Page) -> str:
    """Return a page as text, with an empty line between two parts."""
    return "\n".join(_plain_part(part) for part in page)


def _plain_part(part: Part) -> str:
    if isinstance(part, str):
        return part + "\n"
    if isinstance(part, Table):
        heading = tuple(name.upper().replace(" ", "-") for name in part.columns)
        return _aligned((heading, *part.rows))
    return _aligned(
        (fact.label if number == 0 else "", line)
        for fact in part
        for number, line in enumerate(fact.lines)
    )


def _aligned(lines: Iterable[tuple[str, ...]]) -> str:
    """Return columns with two blanks between them."""
    rows = list(lines)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def _drawn(page: Page, note: str = "") -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(note + "\n", style="bold red")] if note else []
    for number, part in enumerate(page):
        if number:
            parts.append(Text())
        # Text, not markup: a name in brackets is not a colour.
        parts.append(Text(part, style="bold") if isinstance(part, str) else _drawn_part(part))
    return Group(*parts)


def _drawn_part(part: Table | tuple[Fact, ...]) -> RenderableType:
    from rich.table import Table as RichTable
    from rich.text import Text

    if isinstance(part, Table):
        return _Fitting(part)
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for fact in part:
        grid.add_row(Text(fact.label), Text("\n".join(fact.lines)))
    return grid


# -- tables ----------------------------------------------------------------------------------------


class _Fitting:
    """A table if the terminal is wide enough, else a paragraph for each row."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._styles: Sequence[str] = table.styles or ("",) * len(table.rows)

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        # Each column has two blanks and a line in addition to its cells.
        room = options.max_width - 3 * len(self._table.columns) - 1
        columns = zip(self._table.columns, *self._table.rows, strict=True)
        if sum(max(map(len, column)) for column in columns) <= room:
            yield self._drawn()
        else:
            yield from self._paragraphs(options.max_width)

    def _drawn(self) -> RichTable:
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(caption=self._table.caption or None)
        for name in self._table.columns:
            table.add_column(name, justify="right" if name in self._table.right else "left")
        for row, style in zip(self._table.rows, self._styles, strict=True):
            table.add_row(*map(Text, row), style=style)
        return table

    def _paragraphs(self, width: int) -> Iterator[RenderableType]:
        from rich.text import Text

        table = self._table
        for row, style in zip(table.rows, self._styles, strict=True):
            lines = paragraph(table.columns, row, width, table.heads)
            yield Text("\n".join(lines), style, overflow="fold")


#: A character that ``wrap`` does not break at.
_TIED: Final = "\N{NO-BREAK SPACE}"


def paragraph(columns: Sequence[str], row: Sequence[str], width: int, heads: int = 1) -> list[str]:
    """Return a row in lines: its first cells, then name and value of each other cell.

    Arguments:
        width: maximum characters of a line; only a longer word has more.
        heads: how many cells are in the first line.
    """
    text = ", ".join(
        f"{name} {cell}".replace(" ", _TIED, name.count(" ") + 1)
        for name, cell in zip(columns[heads:], row[heads:], strict=True)
        if cell not in ("", "-")
    )
    indent = "  "
    lines = wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [" ".join(row[:heads]), *(line.replace(_TIED, " ") for line in lines)]


# -- repeated pages

#: Seconds between two requests.
INTERVAL: Final = 1.0

#: Fields that differ in each response although nothing has changed.
_AGES: Final = frozenset(
    {"oldestWaiterSeconds", "uptimeSeconds", "expectedWaitSeconds", "ageSeconds"}
)
_AGE_END: Final = "SecondsAgo"


class Shown(NamedTuple):
    """A response, its page, and the second response."""

    text: str
    page: Page
    second: str = "{}"


class Blocks:
    """Write a text block with the time for each change; or a line of JSON.

    Arguments:
        aside: output for errors beside lines of JSON.
        now: returns the time of day.
    """

    def __init__(
        self, out: TextIO, as_json: bool, aside: TextIO, now: Callable[[], datetime] = datetime.now
    ) -> None:
        self._out = out
        self._aside = aside
        self._as_json = as_json
        self._now = now
        self._last: object = None

    def show(self, seen: Shown) -> None:
        """Write the present page, if anything but ages has changed."""
        values = json.loads(seen.text)
        second = None if self._as_json else without_ages(json.loads(seen.second))
        if (this := (without_ages(values), second)) == self._last:
            return
        self._last = this
        if self._as_json:
            _write(self._out, json.dumps(values, separators=(",", ":")) + "\n")
        else:
            _write(self._out, f"--- {self._time()}\n{plain(seen.page)}\n")

    def miss(self, why: str) -> None:
        """Write why there is no response now. The next one is shown even if nothing changed."""
        if why != self._last:
            end = "\n" if self._as_json else "\n\n"
            to = self._aside if self._as_json else self._out
            _write(to, f"--- {self._time()}\n{why}{end}")
        self._last = why

    def _time(self) -> str:
        return self._now().isoformat(sep=" ", timespec="seconds")


def _write(out: TextIO, text: str) -> None:
    out.write(text)
    out.flush()


class Terminal:
    """A terminal that redraws the page.

    Arguments:
        redraw: draws a page below a note, see screen.redrawing.
    """

    def __init__(self, redraw: Callable[[Page, str], None]) -> None:
        self._redraw = redraw
        self._page: Page = ()

    def show(self, seen: Shown) -> None:
        """Draw the present page."""
        self._page = seen.page
        self._redraw(seen.page, "")

    def miss(self, why: str) -> None:
        """Draw why there is no response now, above the last page."""
        self._redraw(self._page, why)


Screen = Blocks | Terminal


@contextmanager
def screen(out: TextIO, as_json: bool) -> Iterator[Screen]:
    """Yield the screen that suits the output."""
    if as_json or not out.isatty():
        yield Blocks(out, as_json, sys.stderr)
        return
    with redrawing(out) as redraw:
        yield Terminal(redraw)


def _pause() -> bool:
    sleep(INTERVAL)  # an Event's wait, when interrupted, may raise RuntimeError
    return False


def watch(look: Callable[[], Shown], on: Screen, wait: Callable[[], bool] = _pause) -> None:
    """Show the page repeatedly until the user interrupts.

    Arguments:
        wait: pauses between two requests; returns whether to end.

    Raises:
        NoResponse, NotKnown, UnexpectedResponse: the first request failed. The screen shows later
            failures, since the activator may come back.
    """
    on.show(look())
    while not wait():
        try:
            on.show(look())
        except (NoResponse, NotKnown, UnexpectedResponse) as error:
            on.miss(str(error).splitlines()[0])


def without_ages(value: Any) -> Any:
    """Return JSON values without the fields that are only ages."""
    if isinstance(value, dict):
        return {
            name: without_ages(inner)
            for name, inner in value.items()
            if name not in _AGES and not name.endswith(_AGE_END)
        }
    return [without_ages(inner) for inner in value] if isinstance(value, list) else value
