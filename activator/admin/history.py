"""Keep the last ten minutes: peaks of queued and in-flight requests, and outcomes of requests.

It costs a request nothing. Each second, the stat reporter passes on the revisions that had
requests. Once a step, the history reads the peaks and the counters of these revisions. The
throttler keeps the peaks of a step, so even a queue of a millisecond shows. Revisions without
requests take no memory. Knative has no counterpart.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from operator import add, sub
from typing import TYPE_CHECKING, Final, NamedTuple

from activator.admin.http_application import in_order, iso
from activator.admin.views.revisions import PastView, RevisionPastView
from activator.records.counters import OUTCOMES
from activator.records.entries import Entry
from throttler.model import RevisionID, RevisionKind

if TYPE_CHECKING:
    from activator.runtime import Stat

#: Seconds of a step. A burst during a cold start fits into one step, and a response is short.
STEP: Final = 5.0
#: Steps of the history: ten minutes. A value takes 4 bytes. 10,000 revisions that all had requests
#: take 20 MB, and 50 MB if each had every outcome.
STEPS: Final = 120

#: Revisions that are read at once; this takes half a millisecond.
BLOCK: Final = 50

_NAMES: Final = ("queued", "inFlight", *OUTCOMES)
_PEAKS: Final = 2  # the first of them; the others are counts
_ZERO: Final = [0] * len(_NAMES)


class Window(NamedTuple):
    """The steps of a response, from ``first`` up to and without ``end``."""

    first: int
    end: int


class Series:
    """A ring for each value of ``_NAMES`` that was ever above 0.

    Arguments:
        last: the step before the first one that it can get.
    """

    __slots__ = ("_rings", "last")

    def __init__(self, last: int) -> None:
        self._rings: dict[str, array[int]] = {}
        self.last = last

    def put(self, step: int, values: Iterable[int]) -> None:
        """Record the values of a step, in the order of ``_NAMES``; skipped steps had only zeros."""
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
        """Return whether a value of these steps is above 0."""
        return bool(self._rings) and self.last >= window.first

    def view(self, window: Window) -> PastView:
        """Return the JSON values, see PastView."""
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
            values[:lost] = [0] * lost  # a step ended while the response is made
        return values


class _Watched:
    """A revision, its series, and its outcomes at the last reading."""

    __slots__ = ("_ended", "entry", "series")

    def __init__(self, entry: Entry, last: int) -> None:
        self.entry = entry
        self.series = Series(last)
        self._ended: Sequence[int] = (*entry.counters.outcomes.values(),)

    def values(self) -> list[int]:
        """Return the values since the last reading."""
        ended = (*self.entry.counters.outcomes.values(),)
        news = [*self.entry.throttler.take_peaks(), *map(sub, ended, self._ended)]
        self._ended = ended
        return news

    def values_of_both(self, entry: Entry) -> list[int]:
        """Return the same for a revision that was deleted and created again, as one revision."""
        old = self.values()
        self.entry, self._ended = entry, _ZERO[_PEAKS:]
        new = self.values()
        return [*map(max, old[:_PEAKS], new[:_PEAKS]), *map(add, old[_PEAKS:], new[_PEAKS:])]


class History:
    """A sink of the stat reporter, called on a revision's first request and each second after it.

    It also keeps the concurrency that the activator last reported, for the gauge of metrics. The
    announcement of a revision's first request counts too, so the gauge shows it up to a second
    earlier than Knative's (pkg/activator/handler/concurrency_reporter.go).

    Arguments:
        clock: seconds, monotonic; wall_clock: seconds since 1970, UTC.

    Attributes:
        known: returns the entry of a revision, see Entries.known.
        reported: the concurrency that was last reported of each busy revision.
        watched: the revisions that it keeps. The one whose last request is the oldest comes first.
        left: the revisions of the last step that it has yet to read.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.known: Callable[[RevisionID], Entry | None] = lambda revision: None
        self.reported: dict[RevisionID, float] = {}
        self._clock = clock
        self._wall_clock = wall_clock
        # Steps begin at multiples of 5 s, so two activators have the same steps.
        self._origin = clock() - wall_clock() % STEP
        self._step = 0
        self._busy: set[RevisionID] = set()
        self.watched: dict[RevisionID, _Watched] = {}
        self._sums = Series(-1)
        self.left: list[RevisionID] = []
        self._closing = 0
        self._sum = _ZERO

    def __call__(self, stats: Iterable[Stat]) -> None:
        """Record a report. The last one of an idle revision says 0."""
        self._go_on()
        for stat in stats:
            revision = stat.revision_id
            if stat.concurrency:
                self.reported[revision] = stat.concurrency
            else:
                self.reported.pop(revision, None)
            if revision not in self._busy:
                self._busy.add(revision)
                if revision not in self.watched:
                    self._watch(revision)

    def _watch(self, revision: RevisionID) -> None:
        if (entry := self.known(revision)) is not None:
            self.watched[revision] = _Watched(entry, self._step - 1)

    def _go_on(self) -> None:
        """Close the step if its time is over. Later steps without a call were empty."""
        step = int((self._clock() - self._origin) // STEP)
        if step != self._step:
            while self.left:  # the event loop was blocked for a whole step
                self._close()
            self.left, self._busy = list(self._busy), set()
            self._closing, self._step = self._step, step
            self._close()
        self._remove_idle()

    def _close(self) -> None:
        """Read a block of the revisions that had requests; read the others in later turns."""
        sums = self._sum
        for revision in self.left[-BLOCK:]:
            if (watched := self.watched.get(revision)) is not None:
                sums = [*map(add, sums, self._look(revision, watched))]
        del self.left[-BLOCK:]
        self._sum = sums
        if self.left:
            asyncio.get_running_loop().call_soon(self._close)
        elif any(sums):
            self._sums.put(self._closing, sums)
            self._sum = _ZERO

    def _look(self, revision: RevisionID, watched: _Watched) -> list[int]:
        entry = self.known(revision)
        if (
            entry is None or entry is watched.entry
        ):  # None: deleted; its last requests are in flight
            news = watched.values()
        else:
            news = watched.values_of_both(entry)
        if any(news):
            watched.series.put(self._closing, news)
            self.watched[revision] = self.watched.pop(revision)  # move it to the end
        return news

    def _remove_idle(self) -> None:
        first = self._window().end - STEPS
        for revision, watched in list(islice(self.watched.items(), BLOCK)):
            if watched.series.last >= first:
                return
            del self.watched[revision]

    def _window(self) -> Window:
        end = self._closing if self.left else self._step
        return Window(max(0, end - STEPS), end)

    # -- for readers ----------------------------------------------------------------------------

    def now(self, steps: int = STEPS) -> Window:
        """Return the last complete steps, at most ``steps``."""
        self._go_on()
        first, end = self._window()
        return Window(max(first, end - steps), end)

    def sums(self, window: Window) -> PastView:
        """Return the sums of all revisions."""
        return self._sums.view(window)

    def revisions(
        self, window: Window, wanted: Collection[tuple[str, str]] = ()
    ) -> Iterator[RevisionPastView | None]:
        """Yield the revisions with requests in these steps, sorted; at None, the caller may pause.

        Arguments:
            wanted: namespaces and names, each once; empty for all.
        """
        named = [
            revision
            for kind in RevisionKind
            for name in wanted
            if (revision := RevisionID(*name, kind)) in self.watched
        ]
        for name in in_order(named if wanted else list(self.watched), "\0".join):
            watched = None if name is None else self.watched.get(name)
            if name is None or watched is None or not watched.series.within(window):
                yield None  # or the history has removed it
                continue
            past = watched.series.view(window)
            yield {
                "namespace": name.namespace,
                "name": name.name,
                "kind": name.kind.value,
                **past,
            }

    def end(self, window: Window) -> str:
        """Return the end of the last step, in RFC 3339, UTC."""
        ago = self._clock() - (self._origin + window.end * STEP)
        return iso(self._wall_clock() - ago)
