"""Collects the Services that change in one turn of the loop, and decides about them at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, final

from activator.scale.reports.load import Name

#: Most Services of one turn, which take about 5 ms. One event may change thousands of them.
MOST: Final = 50


@final
class Pending:
    """The changed Services: one event may change several objects of a Service.

    Arguments:
        decide: decides about Services.
    """

    def __init__(self, decide: Callable[[Iterable[Name]], None]) -> None:
        self._decide = decide
        self._names: dict[Name, None] = {}

    def add(self, name: Name) -> None:
        """Decide about a Service at the end of this turn, or of one of the next turns."""
        if not self._names:
            asyncio.get_running_loop().call_soon(self._flush)
        self._names[name] = None

    def update(self, names: Iterable[Name]) -> None:
        """Decide about Services at the end of this turn; the rest at the end of the next turns."""
        for name in names:
            self.add(name)

    def clear(self) -> None:
        """Decide about none of them: all Services are decided now."""
        self._names.clear()

    def _flush(self) -> None:
        names = list(islice(self._names, MOST))
        for name in names:
            del self._names[name]
        if self._names:
            asyncio.get_running_loop().call_soon(self._flush)
        self._decide(names)
