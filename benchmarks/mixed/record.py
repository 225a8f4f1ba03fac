"""The outcomes of the clients' requests, until the next report."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from time import monotonic
from typing import Any, Final

from benchmarks.mixed.kinds import Kind
from benchmarks.mixed.verdict import Failure

#: Seconds for one call of gRPC, or for the opening of a WebSocket.
PATIENCE: Final = 60.0
#: Times of sending are counted in tenths of a second.
TENTHS: Final = 10
#: Characters of an error that are reported.
SHOWN: Final = 300


class Wrong(Exception):
    """A response is complete, but false."""


class Sight:
    """One request as its client sees it.

    Attributes:
        key: the request's id, different from all others.
        pod: the pod that began a response; empty before that.
        via, reason: see `Failure`.
    """

    __slots__ = ("key", "pod", "reason", "via")

    def __init__(self, key: str) -> None:
        self.key = key
        self.pod = ""
        self.via = ""
        self.reason = ""

    def read(self, fields: Mapping[str, str]) -> None:
        """Store the facts of a response's header fields; their names are in lower case."""
        self.pod = fields.get("x-pod", "")
        self.via = fields.get("x-via", self.via)
        self.reason = fields.get("activator-reason", "")


class Record:
    """Counts the outcomes of all requests, and stores the failures."""

    def __init__(self) -> None:
        self._number = 0
        self._ended: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()
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
        self._sent[f"{kind.name}@{sent * TENTHS:.0f}"] += 1
        try:
            async with asyncio.timeout(kind.patience):
                await do(sight)
        except Exception as error:  # each kind of client raises its own
            what = f"{type(error).__name__}: {error}"[:SHOWN]
            wrong = isinstance(error, Wrong | TimeoutError)
            seen = (sight.pod, sent, monotonic(), what, wrong, sight.via, sight.reason)
            failure = Failure(kind.name, *seen)
            self._failures.append(failure)
            return False
        finally:
            self._ended[kind.name] += 1
            took = monotonic() - sent
            self._longest[kind.name] = max(took, self._longest.get(kind.name, 0.0))
        return True

    def report(self) -> dict[str, Any]:
        """Return all counts so far, and failures and times of sending since the last report."""
        failures, self._failures = self._failures, []
        sent, self._sent = self._sent, Counter()
        return {
            "ended": self._ended,
            "longest": self._longest,
            "sent": sent,
            "failures": [asdict(failure) for failure in failures],
        }
