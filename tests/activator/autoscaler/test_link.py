"""The link against real peers on the loopback: normal, restarting, silent, blocked and absent."""

import asyncio
import contextlib
import gc
import itertools
import socket
from dataclasses import replace
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.frames import Opcode
from websockets.utils import accept_key

from activator.autoscaler import wire
from activator.autoscaler.concurrency import Stat
from activator.autoscaler.link import BURST_BYTES, AutoscalerLink, LinkTimings
from activator.autoscaler.reporter import StatReporter
from activator.proxy.transport.peer_socket import count_unread
from tests.conftest import in_virtual_time, on_uvloop
from tests.ports import hold, port_of
from tests.stats import decode
from throttler.model import RevisionID

pytestmark = on_uvloop  # silent and absent peers take real time

A = RevisionID("default", "a-00001")
PATIENCE = 45.0  # seconds that a step may take on a busy machine; no test waits that long

QUICK = LinkTimings(
    backoff_first=0.005, backoff_factor=1.0, close=0.2, stale_after=60.0, restart_at_once_after=0.0
)
# A wait after a failure would outlast the test. So a test that passes with it did not wait.
NO_SECOND_CHANCE = replace(QUICK, backoff_first=3600.0)


class RecordingConnection(ServerConnection):
    """Record pings and opcodes that arrive; the library does not show them."""

    server_peer: "Peer"

    def process_event(self, event):
        opcode = getattr(event, "opcode", None)
        if opcode is not None:
            self.frames_seen = [*getattr(self, "frames_seen", []), (opcode, bytes(event.data))]
            if opcode is Opcode.PING:
                self.server_peer.pings.put_nowait(bytes(event.data))
        super().process_event(event)


class Peer:
    """An autoscaler that accepts connections, sends pongs, and keeps received frames."""

    def __init__(self):
        self.frames: asyncio.Queue[Any] = asyncio.Queue()
        self.pings: asyncio.Queue[Any] = asyncio.Queue()
        self.connections: asyncio.Queue[Any] = asyncio.Queue()
        self.accepted = 0
        self._held = hold()  # so that no other process takes the port while the peer is away
        self.port = port_of(self._held)
        self.greet = None
        self._server: Any = None

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}"

    async def start(self, **options):
        bound = type("Bound", (RecordingConnection,), {"server_peer": self})
        self._server = await serve(
            self._handle, "127.0.0.1", self.port, create_connection=bound, **options
        )

    async def stop(self, code=1012):
        self._server.close(close_connections=False)
        for connection in list(self._server.connections):
            await connection.close(code, "Restarting")
        await self._server.wait_closed()

    def give_up_port(self):
        self._held.close()

    async def _handle(self, connection):
        self.accepted += 1
        self.connections.put_nowait(connection)
        if self.greet:
            await self.greet(connection)
        with contextlib.suppress(ConnectionClosed):
            while True:
                self.frames.put_nowait(await connection.recv())


@pytest.fixture
async def peer():
    peer = Peer()
    await peer.start()
    yield peer
    await peer.stop()
    peer.give_up_port()


class RawPeer:
    """A TCP server that sends the given handshake, and then neither reads nor writes."""

    def __init__(self, answer):
        self._answer = answer
        self.requests: asyncio.Queue[Any] = asyncio.Queue()
        self.hung_up: asyncio.Queue[Any] = asyncio.Queue()
        self.reads_on = False

    async def start(self):
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._server = await asyncio.start_server(self._handle, sock=listener, limit=4096)
        self.url = f"ws://127.0.0.1:{listener.getsockname()[1]}"
        self._done = asyncio.Event()

    async def stop(self):
        self._done.set()
        self._server.close()
        await self._server.wait_closed()

    async def _handle(self, reader, writer):
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            self.requests.put_nowait(request)
            writer.write(self._answer(request))
            while self.reads_on and await reader.read(65536):
                pass
            if self.reads_on:
                self.hung_up.put_nowait(True)
            else:
                await self._done.wait()
        except (OSError, EOFError):  # EOFError: the request was incomplete
            self.hung_up.put_nowait(True)
        finally:
            writer.close()


def shake_hands(request):
    key = next(
        line.split(b": ")[1].decode()
        for line in request.split(b"\r\n")
        if line.lower().startswith(b"sec-websocket-key")
    )
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n"
    ).encode()


@contextlib.asynccontextmanager
async def raw_peer(answer, *, reads_on=False):
    peer = RawPeer(answer)
    peer.reads_on = reads_on
    await peer.start()
    try:
        yield peer
    finally:
        await peer.stop()


@pytest.fixture(autouse=True)
async def nothing_leaks():
    """No task survives a test, and no exception reached the loop."""
    loop = asyncio.get_running_loop()
    faults = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    yield
    gc.collect()  # futures complain about unseen exceptions when they are collected
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    assert faults == []
    assert [task for task in asyncio.all_tasks() if "AutoscalerLink" in repr(task)] == []


class States:
    """The link's changes of state, to wait for."""

    def __init__(self):
        self._changes: asyncio.Queue[Any] = asyncio.Queue()

    def __call__(self, connected):
        self._changes.put_nowait(connected)

    async def expect(self, *connected):
        for state in connected:
            assert await soon(self._changes.get()) is state


async def soon(awaitable):
    async with asyncio.timeout(PATIENCE):
        return await awaitable


class WatchedLink(AutoscalerLink):
    """A link whose changes of state are to wait for."""

    def __init__(self, url, states, timings):
        self._is_up, self._states = False, states
        super().__init__(url, timings=timings)

    @property
    def connected(self):
        return self._is_up

    @connected.setter
    def connected(self, is_up):
        if is_up != self._is_up:
            self._is_up = is_up
            self._states(is_up)


@contextlib.asynccontextmanager
async def running(url, timings=QUICK):
    states = States()
    link = WatchedLink(url, states, timings)
    task = asyncio.ensure_future(link.run())
    try:
        yield link, states
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await soon(task)
        assert task.cancelled()
        assert not link.connected


async def until(condition):
    """Let the loop turn until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the link's counters have no events
            await asyncio.sleep(0)


# --- a friendly peer


async def test_a_poke_arrives_decoded(peer):
    async with running(peer.url) as (link, states):
        await states.expect(True)
        clock = asyncio.get_running_loop().time
        reporter = StatReporter([wire.frame_sink(link.send, "act-0")], clock=clock)
        reporter.loads.load(A).request_began(clock())
        frame = await soon(peer.frames.get())
        assert decode(frame) == ([Stat(A, 1.0, 1)], {"act-0"})
        await until(lambda: link.frames_sent == 1)
        assert 0 <= link.last_sent_age() < PATIENCE


async def test_reports_follow_the_poke(peer):
    async with running(peer.url) as (link, states):
        await states.expect(True)
        seconds = itertools.count()
        reporter = StatReporter([wire.frame_sink(link.send, "p")], clock=lambda: next(seconds))
        load = reporter.loads.load(A)
        load.request_began(next(seconds))
        load.request_began(next(seconds))
        reporter.report()
        reporter.report()
        frames = [await soon(peer.frames.get()) for _ in range(3)]
    assert [decode(frame)[0] for frame in frames] == [
        [Stat(A, 1.0, 1)],
        [Stat(A, 0.5, 1)],
        [Stat(A, 2.0, 0)],
    ]


async def test_the_handshake_is_plain(peer, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with running(peer.url, NO_SECOND_CHANCE):
        request = (await soon(peer.connections.get())).request
    assert request.path == "/"
    assert "Origin" not in request.headers
    assert "Sec-WebSocket-Extensions" not in request.headers
    assert "Sec-WebSocket-Protocol" not in request.headers


async def test_frames_are_binary_and_in_order(peer):
    async with running(peer.url) as (link, states):
        await states.expect(True)
        sent = [str(number).encode() for number in range(300)]
        for frame in sent:
            link.send(frame)
        assert [await soon(peer.frames.get()) for _ in sent] == sent
        connection = await soon(peer.connections.get())
        assert {opcode for opcode, _ in connection.frames_seen} == {Opcode.BINARY}


async def test_a_sender_learns_when_a_report_has_left_and_not_before(peer):
    async with running(peer.url) as (link, _states):
        told = asyncio.Event()
        link.send(b"frame", told.set)
        assert not told.is_set()  # it is queued, and the dial takes its time
        await soon(told.wait())
        assert link.frames_sent == 1
        assert await soon(peer.frames.get()) == b"frame"


@in_virtual_time  # a ping during another ping is not empty
async def test_pings_are_empty_and_keep_coming(peer):
    timings = replace(QUICK, ping_interval=0.01, read_deadline=PATIENCE)
    async with running(peer.url, timings):
        assert [await soon(peer.pings.get()) for _ in range(3)] == [b"", b"", b""]


async def test_the_age_is_that_of_the_last_pong_and_grows_without_one(peer, monkeypatch):
    now = asyncio.get_running_loop().time
    assert AutoscalerLink(peer.url).age() is None
    timings = replace(QUICK, ping_interval=0.01, read_deadline=PATIENCE)
    begun = now()
    async with running(peer.url, timings) as (link, states):
        await states.expect(True)
        assert link.age() <= now() - begun
        connected_at = now() - link.age()
        for _ in range(3):  # after the third ping, the pong of the first has arrived
            await soon(peer.pings.get())
        assert now() - link.age() > connected_at
        await peer.stop()
        await states.expect(False)
        lost, then = link.age(), now()
        assert link.age() >= lost + (now() - then) - 0.001
    await peer.start()


@in_virtual_time
async def test_pongs_keep_the_link_up_past_the_deadline(peer):
    timings = replace(QUICK, ping_interval=0.02, read_deadline=1.0)
    async with running(peer.url, timings) as (link, states):
        await states.expect(True)
        for _ in range(75):  # 1.5 s
            await soon(peer.pings.get())
        assert link.connected
        assert link.connection_losses == 0


async def test_what_the_peer_says_is_ignored(peer):
    async def chatter(connection):
        for number in range(200):  # more than the library queues
            await connection.send(str(number) if number % 2 else b"\xff" * number)
        await connection.ping(b"alive?")

    peer.greet = chatter
    timings = replace(QUICK, ping_interval=0.01, read_deadline=PATIENCE)
    async with running(peer.url, timings) as (link, states):
        await states.expect(True)
        link.send(b"frame")
        assert await soon(peer.frames.get()) == b"frame"
        for _ in range(3):
            await soon(peer.pings.get())
        assert link.connection_losses == 0


async def test_a_peer_that_says_more_than_it_can_have_to_say_is_left(peer):
    async def flood(connection):
        await connection.recv()
        connection.transport.write(b"\x89\x00" * BURST_BYTES)  # the library would send a pong each

    peer.greet = flood
    async with running(peer.url) as (link, states):
        await states.expect(True)
        link.send(b"frame")
        await states.expect(False)
        assert link.connection_losses == 1
        assert "the peer sent more than 16384 bytes at once" in link.last_error
        await states.expect(True)


async def test_the_end_is_a_goodbye(peer):
    async with running(peer.url) as (_, states):
        await states.expect(True)
        connection = await soon(peer.connections.get())
    await soon(connection.wait_closed())
    assert connection.close_code == 1001


# --- a peer that goes away


async def test_a_restarted_peer_is_found_again(peer):
    async with running(peer.url) as (link, states):
        await states.expect(True)
        await peer.stop(code=1012)
        await states.expect(False)
        await until(lambda: link.failed_dials > 2)
        await peer.start()
        await states.expect(True)
        link.send(b"again")
        assert await soon(peer.frames.get()) == b"again"
        assert link.ever_connected
        assert link.connection_losses == 1


@pytest.mark.parametrize("code", [1000, 1001, 1012])
async def test_a_loss_is_followed_by_a_dial_at_once(peer, code):
    async with running(peer.url, NO_SECOND_CHANCE) as (link, states):
        for _ in range(3):
            await states.expect(True)
            await (await soon(peer.connections.get())).close(code)
            await states.expect(False)
        await states.expect(True)
        assert link.connection_losses == 3
        assert str(code) in link.last_error


async def test_a_cut_connection_is_replaced_at_once(peer):
    async with running(peer.url, NO_SECOND_CHANCE) as (_, states):
        await states.expect(True)
        (await soon(peer.connections.get())).transport.abort()
        await states.expect(False, True)


async def test_a_peer_that_always_hangs_up_is_not_dialled_in_a_busy_loop(peer, caplog):
    caplog.set_level("INFO")

    async def hang_up(connection):
        await connection.close(1012)

    peer.greet = hang_up
    timings = replace(NO_SECOND_CHANCE, restart_at_once_after=3600.0)
    async with running(peer.url, timings) as (link, states):
        await states.expect(True, False, True, False)
        for _ in range(100):
            await asyncio.sleep(0)
        assert peer.accepted == 2
        assert link.connection_losses == 2
    assert len(_lines(caplog)) == 2  # connected, lost; the second loss is not reported


async def test_what_arose_while_disconnected_is_sent_first(peer):
    await peer.stop()
    async with running(peer.url) as (link, states):
        await until(lambda: link.failed_dials)
        link.send(b"poke 1")
        link.send(b"poke 2")
        await peer.start()
        await states.expect(True)
        link.send(b"report")
        frames = [await soon(peer.frames.get()) for _ in range(3)]
        assert frames == [b"poke 1", b"poke 2", b"report"]


async def test_what_grew_stale_while_disconnected_is_not_sent(peer):
    await peer.stop()
    timings = replace(QUICK, stale_after=-1.0)
    async with running(peer.url, timings) as (link, states):
        await until(lambda: link.failed_dials)
        link.send(b"old")
        link.send(b"newest")
        await peer.start()
        await states.expect(True)
        assert await soon(peer.frames.get()) == b"newest"
        assert link.frames_dropped == 1


@in_virtual_time
@pytest.mark.parametrize("end", ["reset", "deadline"])
async def test_a_frame_that_a_lost_connection_cut_is_sent_first_by_the_next(end):
    async def read_nothing(connection):
        connection.transport.pause_reading()
        await ended.wait()

    ended = asyncio.Event()
    cut, behind = bytes(16 << 20), b"behind"  # the buffers of the kernel are smaller
    peer = Peer()
    peer.greet = read_nothing
    await peer.start(max_size=None)
    async with running(peer.url, replace(QUICK, write_deadline=5.0)) as (link, states):
        await states.expect(True)
        connection = await soon(peer.connections.get())
        link.send(cut)
        link.send(behind)
        await until(lambda: count_unread(connection.transport))
        assert link.frames_sent == 0
        peer.greet = None
        if end == "reset":
            connection.transport.abort()
        await states.expect(False, True)
        frames = [await soon(peer.frames.get()) for _ in range(2)]
        assert [len(frame) for frame in frames] == [len(cut), len(behind)]
        assert link.frames_sent == 2
        assert link.frames_dropped == 0
    ended.set()
    await peer.stop()
    peer.give_up_port()


# --- a faulty peer


@in_virtual_time
async def test_the_link_closes_if_the_peer_sends_no_pong():
    timings = replace(QUICK, ping_interval=0.02, read_deadline=0.1)
    async with (
        raw_peer(shake_hands, reads_on=True) as peer,
        running(peer.url, timings) as (link, states),
    ):
        await states.expect(True, False, True)
        assert link.connection_losses == 1
        assert "sent no pong for 0.1 s" in link.last_error
        await soon(peer.hung_up.get())


async def test_a_peer_that_never_reads_is_given_up_and_send_never_blocks():
    timings = replace(QUICK, write_deadline=0.1)
    async with raw_peer(shake_hands) as peer, running(peer.url, timings) as (link, states):
        await states.expect(True)
        for _ in range(64):
            link.send(bytes(1 << 18))
        await states.expect(False, True)
        assert "read no data for 0.1 s" in link.last_error


async def test_a_peer_that_never_reads_does_not_hold_up_the_end():
    timings = replace(QUICK, write_deadline=3600.0, close=0.05)
    async with raw_peer(shake_hands) as peer, running(peer.url, timings) as (link, states):
        await states.expect(True)
        for _ in range(64):
            link.send(bytes(1 << 18))
        await until(lambda: link.frames_sent)


async def test_a_black_hole_is_given_up_after_the_handshake_deadline():
    timings = replace(QUICK, handshake=0.05)
    async with raw_peer(lambda _: b"") as peer, running(peer.url, timings) as (link, _):
        await until(lambda: link.failed_dials == 2)
        assert "timed out" in link.last_error
        assert not link.ever_connected


async def test_refused_dials_are_retried_and_logged_once(caplog):
    with hold() as nobody:
        async with running(f"ws://127.0.0.1:{port_of(nobody)}") as (link, _):
            await until(lambda: link.failed_dials > 20)
            assert link.last_sent_age() is None
    (line,) = _lines(caplog)
    assert line.levelname == "WARNING"
    assert "refused" in line.error.lower() or "Connect call failed" in line.error
    assert "Errno" not in line.error


async def test_the_log_names_the_program_at_the_other_end(caplog):
    with hold() as nobody:
        link = AutoscalerLink(f"ws://127.0.0.1:{port_of(nobody)}", peer="scaler", timings=QUICK)
        task = asyncio.ensure_future(link.run())
        await until(lambda: link.failed_dials > 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [line.message.partition(",")[0] for line in _lines(caplog)] == ["scaler not reachable"]


async def test_a_refused_token_is_logged_even_after_other_failures(caplog):
    peer = Peer()
    link = AutoscalerLink(peer.url, peer="scaler", timings=QUICK)
    task = asyncio.ensure_future(link.run())
    try:
        await until(lambda: link.failed_dials > 1)
        await peer.start(process_request=lambda connection, _: connection.respond(401, ""))
        await until(lambda: len(_lines(caplog)) > 1)
        last = link.failed_dials
        await until(lambda: link.failed_dials > last + 2)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await peer.stop()
        peer.give_up_port()
    assert [line.error for line in _lines(caplog)][1:] == [
        "dial failed: the peer responded 401 to no token"
    ]


async def test_a_name_that_does_not_resolve_is_retried(monkeypatch):
    async def unknown(*_args, **_kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown, raising=False)
    async with running("ws://autoscaler.test:8080") as (link, _):
        await until(lambda: link.failed_dials > 2)
        assert "Name or service not known" in link.last_error


async def test_a_name_lookup_that_fails_after_the_deadline_of_its_dial_is_not_logged():
    logged: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: logged.append(context["message"]))
    no_time = replace(QUICK, handshake=0.0)
    # The name is longer than DNS allows, so the look-up fails in its thread without a query.
    too_long = ".".join(["a" * 50] * 5)
    async with running(f"ws://{too_long}:8080", no_time) as (link, _):
        await until(lambda: link.failed_dials > 9 and "timed out" in link.last_error)
    assert logged == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", id="503"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", id="no WebSocket"),
    ],
)
async def test_a_peer_that_speaks_something_else_is_retried(answer):
    timings = replace(QUICK, handshake=0.1)  # ends the wait for more of a response, too
    async with raw_peer(lambda _: answer) as peer, running(peer.url, timings) as (link, _):
        await until(lambda: link.failed_dials > 2)
        assert link.last_error.startswith("dial failed: ")


async def test_a_redirect_is_not_followed(peer):
    answer = f"HTTP/1.1 302 Found\r\nLocation: {peer.url}\r\nContent-Length: 0\r\n\r\n".encode()
    async with raw_peer(lambda _: answer) as liar, running(liar.url) as (link, _):
        await until(lambda: link.failed_dials > 2)
        assert peer.accepted == 0


async def test_without_a_peer_what_waits_is_bounded():
    with hold() as nobody:
        async with running(f"ws://127.0.0.1:{port_of(nobody)}") as (link, _):
            for _ in range(5000):
                link.send(b"frame")
            assert link.frames_dropped == 5000 - 1024


# --- the end


async def test_a_cancellation_is_not_lost_in_a_simultaneous_loss(peer, monkeypatch):
    stubborn_started = asyncio.Event()

    async def stubborn(self, connection):
        stubborn_started.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise OSError("lost in the same moment") from None

    monkeypatch.setattr(AutoscalerLink, "_read", stubborn)
    async with running(peer.url):
        await soon(stubborn_started.wait())


@pytest.mark.parametrize(
    "url", ["http://autoscaler:8080", "autoscaler:8080", "ws://", "ws://autoscaler:99999"]
)
async def test_a_wrong_url_is_refused_at_once(url):
    with pytest.raises(ValueError, match=r"the autoscaler's URL .* is wrong"):
        AutoscalerLink(url)


async def test_the_back_off_grows_to_its_last_step_and_starts_again():
    timings = LinkTimings()
    assert timings.delay(1, 0.0) == pytest.approx(0.1)
    assert timings.delay(2, 0.0) == pytest.approx(0.13)
    assert timings.delay(20, 0.0) == pytest.approx(0.1 * 1.3**19)
    assert timings.delay(21, 0.0) == pytest.approx(0.1)
    assert timings.delay(1, 0.999) == pytest.approx(0.14995)


def _lines(caplog):
    """Return the records of the module under test."""
    return [each for each in caplog.records if each.name == "activator.autoscaler.link"]
