"""The WebSocket to the autoscaler: dials for ever, sends frames, notices a dead peer.

Acts. ``send`` only queues, so a slow, absent or silent autoscaler never holds up a request; every
wait in here has a deadline. It must not know what a frame holds.
The packages websockets and tenacity are used in this file alone; import it only when there is an
autoscaler.

Knative: pkg/websocket/connection.go (knative.dev/pkg) and pkg/activator/stat_reporter.go, whose
intervals are kept. Differences: frames leave in order, what arose while disconnected is sent when
it is still fresh and ends a wait between two dials, redirects are not followed, a peer that hangs
up on every connection is dialled by the back-off instead of in a busy loop, and the end is a close
frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidURI
from websockets.frames import CloseCode
from websockets.uri import parse_uri

from activator.autoscaler.backlog import Backlog

_log = structlog.get_logger(__name__)

#: Bytes that a peer may send at once, and per second in the long run. The autoscaler says nothing
#: but pongs; 256 KiB of empty pings, which is what one read may bring, held the loop for 30 s.
MOST_AT_ONCE: Final = 16 << 10
MOST_PER_SECOND: Final = 4 << 10


@dataclass(frozen=True, slots=True)
class LinkTimings:
    """Seconds, if not said otherwise. The first eight are Knative's.

    Attributes:
        handshake: from the dial (with name lookup) to the end of the opening handshake.
        ping_interval: between two pings, whether or not the last was answered.
        read_deadline: without a pong the peer counts as dead after this.
        backoff_first: wait after the first failed dial, and the shortest between any two.
        backoff_factor: each further wait is this many times longer.
        backoff_jitter: a wait is lengthened by a random share of itself, up to this.
        backoff_steps: number of waits after which the waits start again with the first.
        restart_at_once_after: a connection that lived this long is replaced without a wait;
            one that did not counts like a failed dial, except the first in a row.
        write_deadline: a peer that takes no bytes counts as dead after this.
        close: for the closing handshake.
        stale_after: a frame older than this is not worth sending: one and a half report periods,
            so that the latest report is always fresh.
    """

    handshake: float = 3.0
    ping_interval: float = 10.0 / 3
    read_deadline: float = 10.0
    backoff_first: float = 0.1
    backoff_factor: float = 1.3
    backoff_jitter: float = 0.5
    backoff_steps: int = 20
    restart_at_once_after: float = 1.0
    write_deadline: float = 10.0
    close: float = 1.0
    stale_after: float = 1.5

    def delay(self, failures: int, chance: float) -> float:
        """How long to wait after ``failures`` (from 1) in a row; ``chance`` is in [0, 1)."""
        step = (failures - 1) % self.backoff_steps
        wait = self.backoff_first * self.backoff_factor**step
        return wait * (1 + self.backoff_jitter * chance)


class AutoscalerLink:
    """One connection to ``url`` (``ws://host:port``), made again whenever it is lost.

    ``on_change`` is called with True when the connection is up and False when it is lost; it must
    not raise. Counters, read by whoever measures: ``connection_losses``, ``failed_dials``,
    ``frames_sent``, ``frames_dropped``; ``last_error`` says why the last dial or connection failed.

    Raises ValueError when ``url`` is not a WebSocket URL.
    """

    def __init__(
        self,
        url: str,
        *,
        on_change: Callable[[bool], None] | None = None,
        timings: LinkTimings | None = None,
    ) -> None:
        self._url = url
        self._timings = timings or LinkTimings()
        _check_url(url)
        self._on_change = on_change
        self._backlog = Backlog(self._timings.stale_after)
        self._queued = asyncio.Event()
        self._wanted = asyncio.Event()
        self._last_sent: float | None = None
        self._alive_at: float | None = None
        self._unreachable = False
        self._short_lived = 0  # connections in a row that were lost soon
        self.connected = False
        self.ever_connected = False
        self._lost_at = 0.0
        self.connection_losses = 0
        self.failed_dials = 0
        self.frames_sent = 0
        self.last_error = ""

    @property
    def frames_dropped(self) -> int:
        """Frames given up: too many, or too old to be true."""
        return self._backlog.dropped

    def last_sent_age(self) -> float | None:
        """Seconds since a frame was sent, None before the first. Call it in the event loop."""
        if self._last_sent is None:
            return None
        return asyncio.get_running_loop().time() - self._last_sent

    def age(self) -> float | None:
        """Seconds since the autoscaler last gave a sign of life: a connection, or a pong.

        About three while all is well, since the start if there was none, None before ``run``.
        Call it in the event loop.
        """
        if self._alive_at is None:
            return None
        return asyncio.get_running_loop().time() - self._alive_at

    def lost_for(self) -> float:
        """Seconds since a connection was lost that was one, 0 while there is one or was none.

        One that the peer ended as soon as it had begun does not count. Call it in the event loop.
        """
        if self.connected or not self.ever_connected:
            return 0.0
        return asyncio.get_running_loop().time() - self._lost_at

    def send(self, frame: bytes, on_sent: Callable[[], None] = lambda: None) -> None:
        """Queue one binary frame; it goes out in the next turn of the loop when connected.

        Never blocks and never fails. While disconnected, frames wait, and the next dial is made
        now instead of after the back-off's wait; those that have grown stale by the time of the
        reconnect are dropped (``frames_dropped``). ``on_sent`` is called when it has left, and must
        not raise. Call it in the event loop.
        """
        self._backlog.push(frame, asyncio.get_running_loop().time(), on_sent)
        self._queued.set()
        self._wanted.set()

    async def run(self) -> NoReturn:
        """Keep the link up until cancelled; then says goodbye to the peer (close code 1001)."""
        loop = asyncio.get_running_loop()
        self._alive_at = loop.time()
        while True:
            connection = await self._dial()
            start = loop.time()
            try:
                await self._serve(connection)
            except asyncio.CancelledError:
                await self._say_goodbye(connection)
                raise
            finally:
                connection.transport.abort()  # no closing handshake with a peer that is lost
            lived = loop.time() - start >= self._timings.restart_at_once_after
            if lived or not self._short_lived:
                self._lost_at = loop.time()
            if lived:
                self._short_lived = 0
                continue
            if self._short_lived:
                await self._pause(self._timings.delay(self._short_lived, random.random()))
            self._short_lived += 1

    async def _dial(self) -> ClientConnection:
        retrying = AsyncRetrying(
            # Whatever hinders a dial (DNS, network, a peer that speaks no WebSocket) may pass, and
            # no such fault is worth the traffic that the process serves.
            retry=retry_if_exception_type(Exception),
            wait=self._wait_after,
            sleep=self._pause,
            before_sleep=self._dial_failed,
        )
        return await retrying(self._dial_once)

    async def _pause(self, seconds: float) -> None:
        """Wait between two dials; what has to be told since the last one began cuts it short.

        At its longest the wait would hold up a service that scales from zero for 22 seconds after
        the autoscaler has come back.
        """
        least = min(seconds, self._timings.backoff_first)
        await asyncio.sleep(least)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - least):
                await self._wanted.wait()

    async def _dial_once(self) -> ClientConnection:
        self._wanted.clear()
        return await _Connect(
            self._url,
            compression=None,
            proxy=None,
            user_agent_header="activator",
            open_timeout=self._timings.handshake,
            close_timeout=self._timings.close,
            create_connection=_Connection,
            ping_interval=None,  # _heartbeat does it: the library waits for each pong
        )

    def _wait_after(self, state: RetryCallState) -> float:
        return self._timings.delay(state.attempt_number, random.random())

    def _dial_failed(self, state: RetryCallState) -> None:
        self.failed_dials += 1
        error = state.outcome.exception() if state.outcome else None
        self.last_error = f"dial failed: {_why(error)}"
        if not self._unreachable:  # the change is news, each retry is not
            self._unreachable = True
            _log.warning(
                "autoscaler not reachable, retrying; nothing scales from zero until then",
                url=self._url,
                error=self.last_error,
            )

    async def _serve(self, connection: ClientConnection) -> None:
        """Use the connection until it is lost."""
        try:
            self._up()
            error = await self._first_failure(
                self._read(connection), self._write(connection), self._heartbeat(connection)
            )
        finally:
            self._down()
        if not isinstance(error, (ConnectionClosed, OSError)):  # OSError: TimeoutError is one
            raise error
        self.connection_losses += 1
        self.last_error = f"connection lost: {_why(error)}"
        if not self._short_lived:
            _log.warning("autoscaler connection lost", url=self._url, error=self.last_error)

    async def _first_failure(self, *endless: Coroutine[None, None, NoReturn]) -> BaseException:
        # No TaskGroup: before Python 3.13 it may swallow a cancellation that coincides with the
        # failure of one of its tasks, and run() would dial on after its end.
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(coroutine) for coroutine in endless]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(error for task in tasks if task.done() and (error := task.exception()))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _up(self) -> None:
        self.connected = self.ever_connected = True
        self._alive_at = asyncio.get_running_loop().time()
        self._unreachable = False
        if not self._short_lived:  # a peer that hangs up on every connection is no news
            _log.info("autoscaler connected", url=self._url, failed_dials=self.failed_dials)
        if self._on_change:
            self._on_change(True)

    def _down(self) -> None:
        self.connected = False
        if self._on_change:
            self._on_change(False)

    async def _read(self, connection: ClientConnection) -> NoReturn:
        # The autoscaler has nothing to say. What it says is taken off the socket all the same, or
        # the pongs behind it would not be seen. _heartbeat is the deadline.
        while True:
            try:
                await connection.recv(decode=False)
            except ConnectionClosed as error:
                if isinstance(connection, _Connection) and connection.flooded:
                    raise ConnectionAbortedError(
                        f"the peer sent more than {MOST_AT_ONCE} bytes at once; an autoscaler has "
                        "nothing to say"
                    ) from error
                raise

    async def _write(self, connection: ClientConnection) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            frame = self._backlog.pop(loop.time())
            if frame is None:
                self._queued.clear()
                await self._queued.wait()
                continue
            try:
                async with asyncio.timeout(self._timings.write_deadline):
                    await connection.send(frame.payload)
            except TimeoutError as error:
                self._backlog.put_back(frame, loop.time())
                raise TimeoutError(
                    f"the peer took no data for {self._timings.write_deadline:g} s"
                ) from error
            except BaseException:
                self._backlog.put_back(frame, loop.time())
                raise
            self.frames_sent += 1
            self._last_sent = loop.time()
            frame.on_sent()

    async def _heartbeat(self, connection: ClientConnection) -> NoReturn:
        loop = asyncio.get_running_loop()
        patience = self._timings.read_deadline
        last_pong = loop.time()

        def renew(pong: asyncio.Future[float]) -> None:
            nonlocal last_pong
            if not pong.cancelled() and pong.exception() is None:
                last_pong = self._alive_at = loop.time()

        next_ping = last_pong + self._timings.ping_interval
        answered: asyncio.Future[float] | None = None
        while True:
            await asyncio.sleep(min(next_ping, last_pong + patience) - loop.time())
            if loop.time() >= last_pong + patience:
                raise TimeoutError(f"the peer answered no ping for {patience:g} s")
            if loop.time() >= next_ping:
                next_ping = loop.time() + self._timings.ping_interval
                # Knative's pings are empty; two under way at a time need different payloads here.
                payload = b"" if answered is None or answered.done() else None
                async with asyncio.timeout_at(last_pong + patience):
                    answered = asyncio.ensure_future(await connection.ping(payload))
                answered.add_done_callback(renew)

    async def _say_goodbye(self, connection: ClientConnection) -> None:
        # Runs while run() is being cancelled, so it is short and has a deadline of its own: close()
        # alone would wait for ever for a peer that takes no bytes.
        try:
            async with asyncio.timeout(self._timings.close):
                await connection.close(CloseCode.GOING_AWAY)
        except TimeoutError:
            pass


def _check_url(url: str) -> None:
    try:
        parse_uri(url)
    except (InvalidURI, ValueError) as error:  # ValueError: the port is no port
        raise ValueError(
            f"the autoscaler's URL {url!r} is wrong: {error}; "
            "give one like ws://autoscaler.knative-serving.svc.cluster.local:8080"
        ) from error


def _why(error: BaseException | None) -> str:
    words = error.strerror if isinstance(error, OSError) else None  # without "[Errno 111]"
    return words or str(error) or type(error).__name__


class _Connect(connect):
    """A dial that takes a redirect for what it is here: not the autoscaler."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _Connection(ClientConnection):
    """One that ends when the peer sends more than it can have to say.

    Attributes:
        flooded: whether that was its end.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.flooded = False
        self._may_take = float(MOST_AT_ONCE)
        self._taken_at = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        now = self.loop.time()
        earned = (now - self._taken_at) * MOST_PER_SECOND
        self._may_take = min(self._may_take + earned, MOST_AT_ONCE) - len(data)
        self._taken_at = now
        if self._may_take < 0:
            self.flooded = True
            self.transport.abort()
        else:
            super().data_received(data)
