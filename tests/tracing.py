"""Which code runs with coverage's tracing: imports of the product, and the tests that count.

Tracing takes time for each call of a function, also for pytest's own. So it is off by default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

#: The packages whose coverage counts.
PACKAGES = ("activator", "throttler")
_TESTS = Path(__file__).parent
#: Directories whose tests count for the coverage of ``tests/coverage_gate.py``.
TRACED = (
    _TESTS / "throttler",
    _TESTS / "activator",
    _TESTS / "activator/proxy/exchange",
    _TESTS / "activator/proxy/tcp",
    _TESTS / "activator/proxy/transport/test_splice.py",
)
_ACTIVATOR = _TESTS / "activator"
_EXCHANGE = _ACTIVATOR / "proxy/exchange"
_SCALE = _ACTIVATOR / "scale"
#: Parts of them whose tests do not count. Tracing makes a test up to three times as long. These
#: tests run for long, and only few lines that no other test runs.
UNTRACED = (
    _TESTS / "throttler/test_free_pods.py",
    _TESTS / "throttler/test_lb_policy.py",
    *(_ACTIVATOR / name for name in ("lab", "proxy")),
    _ACTIVATOR / "admin/test_application.py",
    _ACTIVATOR / "admin/test_history.py",
    _ACTIVATOR / "discovery/test_kubernetes.py",
    _ACTIVATOR / "discovery/test_orders.py",
    _ACTIVATOR / "discovery/test_reflector.py",
    _ACTIVATOR / "discovery/test_service_kinds.py",
    _ACTIVATOR / "discovery/test_table_source.py",
    _ACTIVATOR / "discovery/test_waiting_requests.py",
    _ACTIVATOR / "plain/test_route_table.py",
    _ACTIVATOR / "process/test_timers.py",
    _ACTIVATOR / "proxy/tcp/test_direct.py",
    _ACTIVATOR / "records/test_cold_starts.py",
    _SCALE / "test_scaler.py",
    _SCALE / "admin/test_application.py",
    *(_SCALE / f"test_{name}.py" for name in ("asleep", "events", "lease", "parked", "wishes")),
    _SCALE / "reports/test_load.py",
    _SCALE / "takeover/test_part.py",
    _ACTIVATOR / "telemetry/test_totals.py",
    *(
        _EXCHANGE / f"test_{name}.py"
        for name in ("exchange", "limits", "request_body", "retry", "tunnel", "wait")
    ),
)


@cache
def is_traced(path: Path) -> bool:
    """Return whether the tests of a file count; the mark ``untraced`` excludes a test of it."""
    return _innermost(path, TRACED) > _innermost(path, UNTRACED)


def _innermost(path: Path, folders: tuple[Path, ...]) -> int:
    """Return the length of the longest of the paths that hold a path; 0 if none does."""
    return max((len(one.parts) for one in folders if path.is_relative_to(one)), default=0)


class _Tracing:
    """Turns coverage's tracing on for a block."""

    def __init__(self, trace: Any) -> None:
        self._trace = trace

    @contextmanager
    def on(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)


class _Imports:
    """Finds the modules of the product, and traces what they run when they are loaded."""

    def __init__(self, tracing: _Tracing) -> None:
        self._tracing = tracing

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in PACKAGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = partial(self._load, spec.loader.exec_module)
            spec.loader.exec_module = load  # type: ignore[method-assign] # of this module only
        return spec

    def _load(self, load: Callable[[ModuleType], None], module: ModuleType) -> None:
        with self._tracing.on():
            load(module)


class _TracedTests:
    """Hooks that trace the tests that count, with their fixtures and without pytest's own work."""

    def __init__(self, tracing: _Tracing) -> None:
        self._tracing = tracing

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._run(item))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._run(item))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._run(item))

    def _run(self, item: pytest.Item) -> Generator[None, object, object]:
        if not is_traced(item.path) or item.get_closest_marker("untraced") is not None:
            return (yield)
        with self._tracing.on():
            return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Turn the tracing of pytest-cov off, except for imports and for tests that count.

    Its mark ``no_cover`` has no effect in a worker of pytest-xdist.
    """
    trace = sys.gettrace()
    if trace is None:
        return
    sys.settrace(None)
    tracing = _Tracing(trace)
    sys.meta_path.insert(0, _Imports(tracing))
    session.config.pluginmanager.register(_TracedTests(tracing))
