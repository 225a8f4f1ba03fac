"""Shows a page again and again: redrawn on a terminal, a block a change anywhere else.

Goes on while nobody answers, such as through a restart. Must not know what is on the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Event
from typing import Any, Final, NamedTuple, Protocol, TextIO

from activator.console.client import NoAnswer, NotKnown
from activator.console.responses import UnexpectedAnswer
from activator.console.screen import Page, plain, redrawing

#: Seconds between two looks.
INTERVAL: Final = 1.0

#: Fields that are different with each look although nothing has happened.
_AGES: Final = frozenset(
    {"oldestWaiterSeconds", "uptimeSeconds", "expectedWaitSeconds", "ageSeconds"}
)
_AGE_END: Final = "SecondsAgo"


class Seen(NamedTuple):
    """What one look found: the answer, the page of it, and the answer to what was asked besides."""

    text: str
    page: Page
    besides: str = "{}"


class Screen(Protocol):
    """Where pages go."""

    def show(self, seen: Seen) -> None:
        """Show what is there now."""

    def miss(self, why: str) -> None:
        """Tell that there is nothing to show now; what was seen last may stay."""


class Blocks:
    """A text block whenever anything has changed, with the time above it; or a line of JSON.

    Arguments:
        aside: where readers of JSON are told that there is no answer: not among their lines.
        now: gives the time of day.
    """

    def __init__(
        self, out: TextIO, as_json: bool, aside: TextIO, now: Callable[[], datetime] = datetime.now
    ) -> None:
        self._out = out
        self._aside = aside
        self._as_json = as_json
        self._now = now
        self._last: object = None

    def show(self, seen: Seen) -> None:
        """See Screen."""
        values = json.loads(seen.text)
        besides = None if self._as_json else without_ages(json.loads(seen.besides))
        if (this := (without_ages(values), besides)) == self._last:
            return
        self._last = this
        if self._as_json:
            _write(self._out, json.dumps(values, separators=(",", ":")) + "\n")
        else:
            _write(self._out, f"--- {self._time()}\n{plain(seen.page)}\n")

    def miss(self, why: str) -> None:
        """See Screen. The next answer is shown even if it is the last one again."""
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
    """The page, redrawn in its place.

    Arguments:
        redraw: takes a page and what is to be seen first, see screen.redrawing.
    """

    def __init__(self, redraw: Callable[[Page, str], None]) -> None:
        self._redraw = redraw
        self._page: Page = ()

    def show(self, seen: Seen) -> None:
        """See Screen."""
        self._page = seen.page
        self._redraw(seen.page, "")

    def miss(self, why: str) -> None:
        """See Screen."""
        self._redraw(self._page, why)


@contextmanager
def screen(out: TextIO, as_json: bool) -> Iterator[Screen]:
    """Give what fits the place where it is written."""
    if as_json or not out.isatty():
        yield Blocks(out, as_json, sys.stderr)
        return
    with redrawing(out) as redraw:
        yield Terminal(redraw)


def watch(look: Callable[[], Seen], on: Screen, wait: Callable[[], bool] | None = None) -> None:
    """Look again and again, until somebody interrupts.

    Arguments:
        wait: pauses between looks; returns whether to end.

    Raises:
        NoAnswer, NotKnown, UnexpectedAnswer: the first look failed. A later one that does is
            shown, for what was there may come back.
    """
    on.show(look())
    while not (wait or _pause)():
        try:
            on.show(look())
        except (NoAnswer, NotKnown, UnexpectedAnswer) as error:
            on.miss(str(error).splitlines()[0])


def _pause() -> bool:
    return Event().wait(INTERVAL)


def without_ages(value: Any) -> Any:
    """Return JSON's values without those that only say how much time has passed."""
    if isinstance(value, dict):
        return {
            name: without_ages(inner)
            for name, inner in value.items()
            if name not in _AGES and not name.endswith(_AGE_END)
        }
    return [without_ages(inner) for inner in value] if isinstance(value, list) else value
