from __future__ import annotations

from typing import Any

import pytest

from activator.lab.plain.handles import ServiceHandle


class Silent:
    """Programs that do not know the Service."""

    base: Any
    scaler: Any

    def __init__(self) -> None:
        self.base = self.scaler = self.activator = self

    async def get(self, path: str) -> None:
        self.path = path


async def test_service_that_is_not_known_yet_is_a_lost_connection():
    silent = Silent()
    handle = ServiceHandle(silent, "web", frozenset())  # type: ignore[arg-type] # only what it uses
    with pytest.raises(ConnectionError, match="the activator does not know web"):
        await handle.view()
    assert silent.path == "/api/v1/revisions/default/web?kind=service"
    with pytest.raises(ConnectionError, match="the scaler does not know web"):
        await handle.scaler_view()
    assert handle.pods == []
