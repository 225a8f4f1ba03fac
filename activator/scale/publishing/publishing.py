"""Publishes each decision on a board, for the components that read it."""

from __future__ import annotations

from typing import final

from activator.scale.decisions.effects import Decided
from activator.scale.publishing.board import Board
from activator.scale.reports.load import Name


@final
class Publishing:
    """Publishes each decision on a board (effects.Effect)."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def put(self, name: Name, decided: Decided, now: float) -> None:
        """See effects.Effect."""
        if decided.plan is not None:
            target = decided.service.asks.scale.target
            self._board.publish(name, active=decided.plan.active, target=target)

    def remove(self, name: Name, now: float) -> None:
        """See effects.Effect."""
        self._board.remove(name)

    def start(self, now: float) -> None:
        """See effects.Effect."""
        self._board.open()

    def stop(self, now: float) -> None:
        """See effects.Effect."""
        self._board.close()
