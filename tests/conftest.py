"""Fixtures that all tests share. Async tests run in virtual time; a mark adds or selects uvloop."""

from __future__ import annotations

import asyncio
import gc
import os
import selectors
import socket
import sys
import tempfile
from asyncio import selector_events, sslproto
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop
from hypothesis import HealthCheck, settings

from activator.build import Build, running
from tests import fork_server

# The collection makes a million objects that stay: to look for garbage among them takes a second.
gc.disable()

pytest_plugins = ("tests.tracing", "tests.watchdog")

#: Collected only if the command line names it: `make test-cluster`.
collect_ignore = ["cluster", "howto"]

# The duration of an example has no meaning on a busy machine. Each run tries other examples, so
# that few of them are enough.
settings.register_profile(
    "any machine",
    settings.default,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")

#: Seconds of virtual time, longer than each timer of the product: a longer timer fails the test.
_PATIENCE = 1e5
#: Seconds of real time for threads and the kernel on a busy machine.
_REAL_PATIENCE = 45.0


class _VirtualSelector(selectors.DefaultSelector):
    """Never waits: when no file is ready, the loop's clock jumps to the next timer instead.

    Bytes that this process sends on a loopback socket arrive at once, so a test may use real
    sockets. Other processes and threads do not follow this clock. A busy kernel may keep bytes for
    a while if a buffer was full: then this waits for them.
    """

    loop: VirtualLoop

    def __init__(self) -> None:
        super().__init__()
        self._full = set[int]()  # files whose writers wait until there is room

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._note(super().register(fileobj, events, data))

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._note(super().modify(fileobj, events, data))

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        self._full.discard(key.fd)
        return key

    def _note(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        if key.events & selectors.EVENT_WRITE:
            self._full.add(key.fd)
        else:
            self._full.discard(key.fd)
        return key

    def _is_kernel_late(self) -> bool:
        """Return whether bytes are on their way to a socket whose reader waits for them."""
        waiting = {
            _addresses(key.fd)[0]
            for key in self.get_map().values()
            if key.events & selectors.EVENT_READ
        }
        return any(_addresses(file)[1] in waiting - {None} for file in self._full)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            # Nothing is scheduled: give a thread (a file watcher, a resolver) real time to finish.
            ready = super().select(_REAL_PATIENCE)
            if not ready:
                raise RuntimeError("deadlock: nothing is ready and no timer is armed")
            return ready
        if timeout > _PATIENCE and (ready := super().select(_REAL_PATIENCE)):
            return ready  # the kernel was busy with other things
        if self._full and self._is_kernel_late() and (ready := super().select(_REAL_PATIENCE)):
            return ready
        self.loop.virtual_now += timeout
        return []


def _addresses(file: int) -> tuple[object, object]:
    """Return the own and the peer's address of a TCP connection; None for other files."""
    try:
        sock = socket.socket(fileno=file)
    except OSError:
        return None, None
    try:
        is_tcp = sock.family in (socket.AF_INET, socket.AF_INET6)
        return (sock.getsockname(), sock.getpeername()) if is_tcp else (None, None)
    except OSError:
        return None, None
    finally:
        sock.detach()


def _is_buffered(protocol: Any) -> bool:
    """Return whether uvloop reads into the protocol's own buffer: it checks for the method."""
    return hasattr(protocol, "get_buffer") and not isinstance(protocol, asyncio.Protocol)


class _Transport(selector_events._SelectorSocketTransport):  # type: ignore[name-defined] # private
    """A socket's transport that chooses its way to read as uvloop does."""

    def set_protocol(self, protocol: Any) -> None:
        super().set_protocol(protocol)
        if _is_buffered(protocol):
            self._read_ready_cb = self._read_ready__get_buffer


class _SSLProtocol(sslproto.SSLProtocol):
    """TLS that passes decrypted bytes to the protocol in the way that uvloop does."""

    def _set_app_protocol(self, app_protocol: Any) -> None:
        super()._set_app_protocol(app_protocol)
        if _is_buffered(app_protocol):
            self._app_protocol_get_buffer = app_protocol.get_buffer
            self._app_protocol_buffer_updated = app_protocol.buffer_updated
            self._app_protocol_is_buffer = True


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose ``time()`` is a number that a test may assert on.

    It reads as the loop of production does: a protocol with ``get_buffer`` is buffered. asyncio
    requires its own base class for that, but a compiled class has no base class of the library.
    """

    def __init__(self) -> None:
        self.virtual_now = 0.0
        selector = _VirtualSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.virtual_now

    def _make_socket_transport(
        self, sock: Any, protocol: Any, waiter: Any = None, **more: Any
    ) -> Any:
        return _Transport(self, sock, protocol, waiter, **more)

    def _make_ssl_transport(
        self, rawsock: Any, protocol: Any, sslcontext: Any, waiter: Any = None, **more: Any
    ) -> Any:
        kept = {name: more.pop(name, None) for name in ("extra", "server")}
        tls = _SSLProtocol(self, protocol, sslcontext, waiter, **more)
        _Transport(self, rawsock, tls, **kept)
        return tls._app_transport


VIRTUAL = pytest.param(("asyncio", {"loop_factory": VirtualLoop}), id="virtual")
UVLOOP = pytest.param(("asyncio", {"loop_factory": uvloop.new_event_loop}), id="uvloop")

#: Marks for a function, a class or a module (``pytestmark``); the closest one counts.
#: For bytes on sockets: uvloop's transports differ in how they buffer, pause and close. On the
#: source, the byte path's tests run on uvloop alone; on the compiled build they run on both loops.
both_loops = pytest.mark.loops(VIRTUAL, UVLOOP)
#: For threads, processes and servers, which do not follow a virtual clock.
on_uvloop = pytest.mark.loops(UVLOOP)
#: For time-outs and pauses, which only a virtual clock keeps exactly.
in_virtual_time = pytest.mark.loops(VIRTUAL)


#: ``make test-compiled`` runs these tests too.
_BYTE_PATH = Path(__file__).parent / "activator" / "proxy"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each async test in virtual time, or on the loops that its closest mark names."""
    if "anyio_backend" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("loops")
    if mark is not None:
        loops = mark.args
        if (
            len(loops) > 1
            and running() is Build.PURE
            and metafunc.definition.path.is_relative_to(_BYTE_PATH)
        ):
            loops = (UVLOOP,)
        metafunc.parametrize("anyio_backend", loops, indirect=True)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Return the loop of an async test: virtual time, unless a mark names another."""
    return getattr(request, "param", VIRTUAL.values[0])


#: Places whose tests wait for processes or time most of the time.
WAITING = ("monitoring", "e2e", "activator/lab", "activator/test_app.py")
#: Places whose tests share processes, objects of Helm or trees of syntax that are expensive to
#: make: one worker gets each.
SHARING = ("browser", "grpc", "manifests", "test_layering.py")
#: The part of a worker's list that has tests that wait. Idle workers take from the rest.
_SPREAD = 0.8
_TESTS = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of each worker in its part of the list; few workers wait at the same time.

    pytest-xdist gives each worker an equal run of neighbours. Later idle workers take from its end.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    rooms: dict[str, list[pytest.Item]] = {}
    for item in items:
        rooms.setdefault(_room(item.path), []).append(item)
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for number, name in enumerate(SHARING):
        parts[number % workers] += rooms.pop(name, ())
    waiting = [item for name in WAITING for item in rooms.pop(name, ())]
    others = [item for room in rooms.values() for item in room]
    # The first of SHARING takes as long as all that another worker waits for.
    free = range(min(1, workers - 1), workers)
    left = len(items)
    for worker, part in enumerate(parts):
        own = waiting[free.index(worker) :: len(free)] if worker in free else []
        share = left // (workers - worker)  # as pytest-xdist counts
        left -= share
        fill = max(0, share - len(part) - len(own))
        part += _spread(own, others[:fill])
        del others[:fill]
    items[:] = [item for part in parts for item in part] + others


def _spread(waiting: list[pytest.Item], others: list[pytest.Item]) -> list[pytest.Item]:
    """Return both lists as one, with the tests that wait at equal distances."""
    distance = int(len(others) * _SPREAD / max(1, len(waiting)))
    mixed = []
    for number, item in enumerate(waiting):
        mixed += [item, *others[number * distance : (number + 1) * distance]]
    return mixed + others[len(waiting) * distance :]


@cache
def _room(path: Path) -> str:
    """Return the place of WAITING that has a file, or the first part of the file's path."""
    inner = path.relative_to(_TESTS)
    return next((place for place in WAITING if inner.is_relative_to(place)), inner.parts[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Set up what all tests share; a fixture would take time of each test.

    No public authority is trusted: each TLS client would load all 140 of them, in 30 ms. Activators
    and pods start by forks; the fixture ``real_start`` prevents it for a test.

    Raises:
        UsageError: ``EXPECT_BUILD`` names a build other than the tested one.
    """
    expected = os.environ.get("EXPECT_BUILD")
    if expected not in (None, running().value):
        raise pytest.UsageError(f"tests run the {running().value} build")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = Path(folder, "one.pem")
        trustme.CA().cert_pem.write_to_path(file)
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.setattr(asyncio, "create_subprocess_exec", fork_server.start)
        if "PYTEST_XDIST_WORKER" in os.environ:
            fork_server.server()  # loads modules while this worker runs its first tests
        return (yield)


@pytest.fixture
def real_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start activators and pods as users do, by a new Python process."""
    monkeypatch.setattr(asyncio, "create_subprocess_exec", fork_server.REAL_START)


def pytest_collection_finish() -> None:
    """Exclude the objects that pytest's collection made from garbage collection.

    They live as long as this process. With them a garbage collection takes 0.05 s and more. Some
    tests do one; activators that start in this process leave theirs out. From then on ``gc.freeze``
    does nothing: profiles of later tests would not find objects that an activator has frozen.
    """
    gc.enable()
    gc.set_threshold(20_000, 20, 50)  # rarer than in an activator
    gc.freeze()
    patch = pytest.MonkeyPatch()
    patch.setattr(gc, "freeze", lambda: None)
    if memory := sys.modules.get("activator.process.memory"):
        patch.setattr(memory.Memory, "begin", lambda self: None)
