"""The outcomes of the clients' requests, until the next report."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from time import monotonic
from typing import Any, Final

from benchmarks.mixed.kinds import Kind
from benchmarks.mixed.verdict import Failure

#: Seconds for one request of any kind; a slow reader takes the longest.
PATIENCE: Final = 60.0
#: Characters of an error that are reported.
SHOWN: Final = 300


class Wrong(Exception):
    """A response is complete, but false."""


class Sight:
    """One request as its client sees it.

    Attributes:
        key: the request's id, different from all others.
        pod: the pod that began a response; empty before that.
    """

    __slots__ = ("key", "pod")

    def __init__(self, key: str) -> None:
        self.key = key
        self.pod = ""


class Record:
    """Counts the outcomes of all requests, and stores the failures."""

    def __init__(self) -> None:
        self._number = 0
        self._ended: Counter[str] = Counter()
        self._longest: dict[str, float] = {}
        self._failures: list[Failure] = []

    async def attempt(self, kind: Kind, do: Callable[[Sight], Awaitable[None]]) -> bool:
        """Send one request; return whether its response is complete and correct.

        Arguments:
            do: sends the request and checks the response. It raises `Wrong` for a false response,
                and any other exception for a missing or incomplete one.
        """
        self._number += 1
        sight = Sight(f"{kind.name}-{self._number}")
        sent = monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                await do(sight)
        except Exception as error:  # each kind of client raises its own
            what = f"{type(error).__name__}: {error}"[:SHOWN]
            wrong = isinstance(error, Wrong | TimeoutError)
            failure = Failure(kind.name, sight.pod, sent, monotonic(), what, wrong)
            self._failures.append(failure)
            return False
        finally:
            self._ended[kind.name] += 1
            took = monotonic() - sent
            self._longest[kind.name] = max(took, self._longest.get(kind.name, 0.0))
        return True

    def report(self) -> dict[str, Any]:
        """Return all counts so far, and the failures since the last report."""
        failures, self._failures = self._failures, []
        return {
            "ended": self._ended,
            "longest": self._longest,
            "failures": [asdict(failure) for failure in failures],
        }
