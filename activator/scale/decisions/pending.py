"""Collects the Services that change in one turn of the loop, and decides about them at its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import final

from activator.scale.reports.load import Name


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
        """Decide about a Service at the end of this turn."""
        if not self._names:
            asyncio.get_running_loop().call_soon(self._flush)
        self._names[name] = None

    def update(self, names: Iterable[Name]) -> None:
        """Decide about Services at the end of this turn."""
        for name in names:
            self.add(name)

    def clear(self) -> None:
        """Decide about none of them: all Services are decided now."""
        self._names.clear()

    def _flush(self) -> None:
        names, self._names = self._names, {}
        self._decide(names)
