from __future__ import annotations

import inspect

from activator.discovery.source import Sink
from activator.driver import Driver


def test_each_call_has_its_taker() -> None:
    calls = [name for name in vars(Sink) if name.startswith(("set_", "delete_"))]
    assert calls
    for name in calls:
        expected = inspect.signature(getattr(Sink, name)).parameters
        assert len(inspect.signature(getattr(Driver, name)).parameters) == len(expected)
