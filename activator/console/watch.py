"""Show a page repeatedly: redraw it on a terminal, or write a block for each change.

It continues while no activator responds, for example during a restart. Must not know the content
of the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from threading import Event
from typing import Any, Final, NamedTuple, Protocol, TextIO

from activator.console.client import NoResponse, NotKnown
from activator.console.responses import UnexpectedResponse
from activator.console.screen import Page, plain, redrawing

#: Seconds between two requests.
INTERVAL: Final = 1.0

#: Fields that differ in each response although nothing has changed.
_AGES: Final = frozenset(
    {"oldestWaiterSeconds", "uptimeSeconds", "expectedWaitSeconds", "ageSeconds"}
)
_AGE_END: Final = "SecondsAgo"


class Seen(NamedTuple):
    """A response, its page, and the second response."""

    text: str
    page: Page
    second: str = "{}"


class Screen(Protocol):
    """An output for pages."""

    def show(self, seen: Seen) -> None:
        """Show the present page."""

    def miss(self, why: str) -> None:
        """Show that there is no response now; the last page may stay."""


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

    def show(self, seen: Seen) -> None:
        """See Screen."""
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
        """See Screen. The next response is shown even if it equals the last one."""
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

    def show(self, seen: Seen) -> None:
        """See Screen."""
        self._page = seen.page
        self._redraw(seen.page, "")

    def miss(self, why: str) -> None:
        """See Screen."""
        self._redraw(self._page, why)


@contextmanager
def screen(out: TextIO, as_json: bool) -> Iterator[Screen]:
    """Yield the screen that suits the output."""
    if as_json or not out.isatty():
        yield Blocks(out, as_json, sys.stderr)
        return
    with redrawing(out) as redraw:
        yield Terminal(redraw)


def watch(look: Callable[[], Seen], on: Screen, wait: Callable[[], bool] | None = None) -> None:
    """Show the page repeatedly until the user interrupts.

    Arguments:
        wait: pauses between two requests; returns whether to end.

    Raises:
        NoResponse, NotKnown, UnexpectedResponse: the first request failed. The screen shows later
            failures, since the activator may come back.
    """
    on.show(look())
    while not (wait or _pause)():
        try:
            on.show(look())
        except (NoResponse, NotKnown, UnexpectedResponse) as error:
            on.miss(str(error).splitlines()[0])


def _pause() -> bool:
    return Event().wait(INTERVAL)


def without_ages(value: Any) -> Any:
    """Return JSON values without the fields that are only ages."""
    if isinstance(value, dict):
        return {
            name: without_ages(inner)
            for name, inner in value.items()
            if name not in _AGES and not name.endswith(_AGE_END)
        }
    return [without_ages(inner) for inner in value] if isinstance(value, list) else value
