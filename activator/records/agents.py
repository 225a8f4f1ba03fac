"""Samples the clients that keep a revision awake: the User-Agents of requests that arrive alone.

Such a request is the only load at its arrival. Without it, the revision would sleep sooner. A
revision in use has so many requests that its sample is soon complete, and further requests cost one
comparison each. Pure: the time is an argument. Knative has no counterpart.
"""

from __future__ import annotations

import re
from math import inf
from typing import Final

#: Seconds of one sample. Each request of clients with one request a minute counts.
WINDOW: Final = 300.0
#: Most requests in one sample. A revision with more of them is in use.
MOST_REQUESTS: Final = 300
#: Most names in one sample; requests of further clients only count.
MOST_NAMES: Final = 16
#: Seconds without samples after a request that did not arrive alone.
PAUSE: Final = 1.0
#: A client keeps a revision awake from so many requests on, and with about one a minute. The
#: stable window of Knative's autoscaler is a minute.
_FEWEST_REQUESTS: Final = 3
_FEWEST_A_MINUTE: Final = 0.9
#: Seconds after its last request for which a client counts.
_RECENT: Final = 120.0
_LONGEST_NAME: Final = 40
#: Robots add their name to the User-Agent of a browser, as in ``(compatible; UptimeRobot/2.0; …)``.
_COMPATIBLE: Final = re.compile(rb"compatible;[ +]*([^/;,() +]+)")
_PRODUCT: Final = re.compile(rb"[^/;,() ]+")


class Agents:
    """The sample of one revision.

    Attributes:
        sample_from: requests are sampled from this time on, seconds.
    """

    __slots__ = ("_before", "_count", "_last", "_now", "_since", "_was_busy", "sample_from")

    def __init__(self) -> None:
        self.sample_from = -inf
        self._since = -inf  # the begin of the present window
        self._count = 0  # requests in it
        self._now: dict[str, int] = {}  # and by name
        self._before: dict[str, int] = {}  # of the window before
        self._was_busy = False  # and whether it was full
        self._last: dict[str, float] = {}  # the last request of each name

    def pause(self, now: float) -> None:
        """Sample no request for a moment, since other requests are in flight or queued."""
        self.sample_from = now + PAUSE

    def record(self, user_agent: bytes, now: float) -> None:
        """Count a request that arrived while no other one was in flight or queued.

        Arguments:
            user_agent: its User-Agent; empty without one.
            now: seconds.
        """
        self._roll(now)
        self._count += 1
        if self._count >= MOST_REQUESTS:
            self.sample_from = self._since + WINDOW
        name = name_of(user_agent)
        if name in self._now or len(self._now) < MOST_NAMES:
            self._now[name] = self._now.get(name, 0) + 1
            self._last[name] = now

    def keep_awake(self, now: float) -> list[tuple[str, int]]:
        """Return the clients that keep the revision awake, with their requests a minute.

        Arguments:
            now: seconds.

        Returns:
            The clients with the most requests first; none if the revision is in use.
        """
        self._roll(now)
        if self._was_busy or self._count >= MOST_REQUESTS:
            return []
        passed = now - self._since
        rates = {
            name: self._rate(name, passed)
            for name, last in self._last.items()
            if now - last <= _RECENT
            and self._now.get(name, 0) + self._before.get(name, 0) >= _FEWEST_REQUESTS
        }
        named = [(name, round(rate)) for name, rate in rates.items() if rate >= _FEWEST_A_MINUTE]
        return sorted(named, key=_order)

    def _rate(self, name: str, passed: float) -> float:
        """Return the requests a minute over the last window; at first since its begin.

        Arguments:
            name: of the client.
            passed: seconds since the begin of the present window.
        """
        count = float(self._now.get(name, 0))
        if not self._before:
            return count / max(passed / 60, 1.0)
        count += self._before.get(name, 0) * (1 - passed / WINDOW)
        return count / (WINDOW / 60)

    def _roll(self, now: float) -> None:
        """Begin a new window if the present one is over."""
        if now < self._since + WINDOW:
            return
        follows = now < self._since + 2 * WINDOW
        self._before = self._now if follows else {}
        self._was_busy = follows and self._count >= MOST_REQUESTS
        self._since = self._since + WINDOW if follows else now
        self._count = 0
        self._now = {}
        self._last = {name: last for name, last in self._last.items() if name in self._before}


#: The sample of a revision without requests.
NO_AGENTS: Final = Agents()


def _order(named: tuple[str, int]) -> tuple[int, str]:
    return (-named[1], named[0])


def name_of(user_agent: bytes) -> str:
    """Return the name of a client for people: the product without its version.

    Arguments:
        user_agent: as the client sent it.
    """
    found = _COMPATIBLE.search(user_agent[:512])
    if found is not None:
        name = found[1]
    elif user_agent.startswith(b"Mozilla/"):
        return "a browser"
    else:
        first = _PRODUCT.match(user_agent)
        if first is None:
            return "no User-Agent"
        name = first[0]
    text = name[:_LONGEST_NAME].decode("latin-1")
    return "".join(each if each.isprintable() and each.isascii() else "?" for each in text)
