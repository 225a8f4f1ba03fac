from __future__ import annotations

import inspect

from activator.discovery.sink import Sink
from activator.driver import Driver


def test_the_driver_takes_each_call() -> None:
    calls = [name for name in vars(Sink) if name.startswith(("set_", "delete_"))]
    assert len(calls) == 8
    for name in calls:
        expected = inspect.signature(getattr(Sink, name)).parameters
        assert len(inspect.signature(getattr(Driver, name)).parameters) == len(expected)
