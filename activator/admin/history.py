"""What the last ten minutes were like: how many waited and ran, and how requests ended.

Costs a request nothing of its own. The stat reporter names each second the revisions that had
requests, and only those are looked at, once a step: the throttler has kept the peaks since then,
and the counters say what has ended. So a queue of a millisecond is seen, and nothing is kept of
revisions that nobody asks for. Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from operator import add, sub
from typing import Final, NamedTuple, Protocol

from activator.admin.streaming import in_order
from activator.admin.views import PastView, RevisionPastView
from activator.records.counters import OUTCOMES
from activator.records.entries import Entry
from throttler.model import RevisionID

#: Seconds of a step; a burst that a wake-up held is one of them, and an answer of all is short.
STEP: Final = 5.0
#: Steps that are kept: ten minutes. Each value takes 4 bytes, so 10,000 revisions that all had
#: requests in that time take 20 MB, and 50 MB if all of them met with every outcome there is.
STEPS: Final = 120

#: Revisions that are looked at in one go: takes half a millisecond.
BLOCK: Final = 50

_NAMES: Final = ("queued", "inFlight", *OUTCOMES)
_PEAKS: Final = 2  # the first of them; the others are counts
_ZERO: Final = [0] * len(_NAMES)


class Stat(Protocol):
    """A revision that had requests."""

    @property
    def revision_id(self) -> RevisionID:
        """Which."""


class Window(NamedTuple):
    """The steps that an answer tells of, from ``first`` up to and without ``end``."""

    first: int
    end: int


class Series:
    """A ring for each value of ``_NAMES`` that was ever above 0.

    Arguments:
        last: the step before the first that it may be given.
    """

    __slots__ = ("_rings", "last")

    def __init__(self, last: int) -> None:
        self._rings: dict[str, array[int]] = {}
        self.last = last

    def put(self, step: int, values: Iterable[int]) -> None:
        """Take the values of a step, in the order of ``_NAMES``; of steps left out all were 0."""
        for missed in range(max(self.last, step - STEPS) + 1, step + 1):
            for ring in self._rings.values():
                ring[missed % STEPS] = 0
        self.last = step
        for name, value in zip(_NAMES, values, strict=True):
            if value:
                if (known := self._rings.get(name)) is None:
                    known = self._rings[name] = array("I", bytes(4 * STEPS))
                known[step % STEPS] = value

    def within(self, window: Window) -> bool:
        """Whether anything happened then."""
        return bool(self._rings) and self.last >= window.first

    def view(self, window: Window) -> PastView:
        """Return it in JSON's words, see views.py."""
        outcomes = {name: self._values(name, window) for name in OUTCOMES if name in self._rings}
        return {
            "queued": self._values("queued", window),
            "inFlight": self._values("inFlight", window),
            "outcomes": {name: values for name, values in outcomes.items() if any(values)},
        }

    def _values(self, name: str, window: Window) -> list[int]:
        first, end = window
        if (ring := self._rings.get(name)) is None:
            return [0] * (end - first)
        start = first % STEPS
        values = (ring[start:] + ring[:start]).tolist()[: end - first]
        if (empty := end - 1 - self.last) > 0:
            values[-empty:] = [0] * empty
        elif (lost := self.last - STEPS + 1 - first) > 0:
            values[:lost] = [0] * lost  # a step has ended while the answer is made
        return values


class _Watched:
    """A revision, its series, and how many of its requests had ended when it was last looked at."""

    __slots__ = ("_ended", "entry", "series")

    def __init__(self, entry: Entry, last: int) -> None:
        self.entry = entry
        self.series = Series(last)
        self._ended: Sequence[int] = (*entry.counters.outcomes.values(),)

    def news(self) -> list[int]:
        """Return what to put for the time since the last look."""
        ended = (*self.entry.counters.outcomes.values(),)
        news = [*self.entry.throttler.take_peaks(), *map(sub, ended, self._ended)]
        self._ended = ended
        return news

    def news_of_both(self, entry: Entry) -> list[int]:
        """The same where the revision was deleted and made anew: as if it were one."""
        old = self.news()
        self.entry, self._ended = entry, _ZERO[_PEAKS:]
        new = self.news()
        return [*map(max, old[:_PEAKS], new[:_PEAKS]), *map(add, old[_PEAKS:], new[_PEAKS:])]


class History:
    """A sink of the stat reporter: it is told first when a revision's first request comes, and
    then each second while there are any.

    Arguments:
        known: gives what belongs to a revision, see Driver.known.
        clock: seconds, monotonic; wall_clock: seconds since 1970, UTC.
    """

    def __init__(
        self,
        known: Callable[[RevisionID], Entry | None],
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._known = known
        self._clock = clock
        self._wall_clock = wall_clock
        # Steps begin at seconds that can be divided by 5, so those of two activators are the same.
        self._origin = clock() - wall_clock() % STEP
        self._step = 0
        self._busy: set[RevisionID] = set()
        # Whose requests are the longest ago is first.
        self._watched: dict[RevisionID, _Watched] = {}
        self._sums = Series(-1)
        # Of the step before, while it is being closed: who is still to be looked at.
        self._left: list[RevisionID] = []
        self._closing = 0
        self._sum = _ZERO

    def __call__(self, stats: Iterable[Stat]) -> None:
        """Take which revisions have requests, or had some since the last report."""
        self._go_on()
        for stat in stats:
            if (revision := stat.revision_id) not in self._busy:
                self._busy.add(revision)
                if revision not in self._watched:
                    self._watch(revision)

    def _watch(self, revision: RevisionID) -> None:
        if (entry := self._known(revision)) is not None:
            self._watched[revision] = _Watched(entry, self._step - 1)

    def _go_on(self) -> None:
        """Close the step if its time is over. Later ones in which nobody called were empty."""
        step = int((self._clock() - self._origin) // STEP)
        if step != self._step:
            while self._left:  # the loop stood still for a whole step
                self._close()
            self._left, self._busy = list(self._busy), set()
            self._closing, self._step = self._step, step
            self._close()
        self._forget_the_idle()

    def _close(self) -> None:
        """Look at some of those that had requests; at the others when what is due has passed."""
        sums = self._sum
        for revision in self._left[-BLOCK:]:
            if (watched := self._watched.get(revision)) is not None:
                sums = [*map(add, sums, self._look(revision, watched))]
        del self._left[-BLOCK:]
        self._sum = sums
        if self._left:
            asyncio.get_running_loop().call_soon(self._close)
        elif any(sums):
            self._sums.put(self._closing, sums)
            self._sum = _ZERO

    def _look(self, revision: RevisionID, watched: _Watched) -> list[int]:
        entry = self._known(revision)
        if entry is None or entry is watched.entry:  # None: deleted, and its last requests run
            news = watched.news()
        else:
            news = watched.news_of_both(entry)
        if any(news):
            watched.series.put(self._closing, news)
            self._watched[revision] = self._watched.pop(revision)  # to the end
        return news

    def _forget_the_idle(self) -> None:
        first = self._window().end - STEPS
        for revision, watched in list(islice(self._watched.items(), BLOCK)):
            if watched.series.last >= first:
                return
            del self._watched[revision]

    def _window(self) -> Window:
        end = self._closing if self._left else self._step
        return Window(max(0, end - STEPS), end)

    # -- for readers ----------------------------------------------------------------------------

    def now(self, steps: int = STEPS) -> Window:
        """Return the last steps that are over, as many as are kept and at most ``steps``."""
        self._go_on()
        first, end = self._window()
        return Window(max(first, end - steps), end)

    def sums(self, window: Window) -> PastView:
        """Return the sums of all revisions."""
        return self._sums.view(window)

    def revisions(
        self, window: Window, wanted: Collection[tuple[str, str]] = ()
    ) -> Iterator[RevisionPastView | None]:
        """Yield the revisions that had requests then, sorted; at each None the caller may pause.

        Arguments:
            wanted: namespaces and names, each once; empty for all.
        """
        named = [name for name in map(RevisionID._make, wanted) if name in self._watched]
        for name in in_order(named if wanted else list(self._watched), "\0".join):
            watched = None if name is None else self._watched.get(name)
            if name is None or watched is None or not watched.series.within(window):
                yield None  # or it was forgotten meanwhile
                continue
            past = watched.series.view(window)
            yield {"namespace": name.namespace, "name": name.name, **past}

    def end(self, window: Window) -> str:
        """Return when the last of the steps ended, as RFC 3339 has it, in UTC."""
        ago = self._clock() - (self._origin + window.end * STEP)
        moment = datetime.fromtimestamp(self._wall_clock() - ago, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
