"""The WebSocket to the autoscaler: dials until it is closed, sends frames, detects a lost peer.

``send`` only queues, so a slow, absent or silent autoscaler never delays a request. Every wait has
a deadline. Knows no content of frames. Only this file imports websockets; import it only if there
is an autoscaler.

Knative: pkg/websocket/connection.go (knative.dev/pkg) and pkg/activator/stat_reporter.go, with the
same intervals. Differences: frames leave in order. A frame that was queued without a connection
shortens the wait for the next dial, and is sent if it is still fresh. The link follows no
redirects. The back-off also applies to a peer that closes every connection at once. The link ends
with a close frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple, NoReturn

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI
from websockets.frames import CloseCode
from websockets.uri import parse_uri

from activator.autoscaler.token import bearers
from activator.process.sockets import connected
from activator.process.timers import cancel

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LinkTimings:
    """Seconds, unless stated otherwise. The first eight are Knative's.

    Attributes:
        handshake: from the dial (with name lookup) to the end of the opening handshake.
        ping_interval: between two pings, with or without a pong to the last.
        read_deadline: a peer that sends no pong for this time is lost.
        backoff_first: wait after the first failed dial; also the shortest wait between two dials.
        backoff_factor: ratio of each wait to the one before.
        backoff_jitter: each wait grows by a random part of itself, up to this.
        backoff_steps: number of waits after which the waits start again with the first.
        restart_at_once_after: a connection that lived this long is replaced without a wait. A
            shorter one counts like a failed dial, except the first in a row.
        write_deadline: a peer that reads no bytes for this time is lost.
        close: for the closing handshake.
        stale_after: an older frame is not sent. One and a half report periods, so that the latest
            report is always fresh.
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
        """Return the seconds to wait before the next dial.

        Arguments:
            failures: failed dials in a row, from 1.
            chance: random number in [0, 1).
        """
        step = (failures - 1) % self.backoff_steps
        wait = self.backoff_first * self.backoff_factor**step
        return wait * (1 + self.backoff_jitter * chance)


class AutoscalerLink:
    """One connection to the autoscaler, dialled again whenever it is lost.

    Arguments:
        url: ``ws://host:port``.
        peer: the name of the program at that address, for the log.
        token_file: has the token for the peer; empty for none. Each dial reads it.

    Attributes:
        connected: whether there is a connection; ever_connected: whether there ever was one.
        connection_losses, failed_dials, frames_sent: counters, for metrics.
        last_error: why the last dial or connection failed.

    Raises:
        ValueError: ``url`` is not a WebSocket URL.
    """

    def __init__(
        self,
        url: str,
        *,
        peer: str = "autoscaler",
        timings: LinkTimings | None = None,
        token_file: str = "",
    ) -> None:
        self._url = url
        self._peer = peer
        self._timings = timings or LinkTimings()
        self._token_file = token_file
        self._address = _checked(url)
        self._backlog = Backlog(self._timings.stale_after)
        self._queued = asyncio.Event()
        self._dial_wanted = asyncio.Event()
        self._last_sent: float | None = None
        self._alive_at: float | None = None
        self._logged: set[type[BaseException] | None] = set()  # errors since the last connection
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
        """Number of frames that were dropped, as too many or too old."""
        return self._backlog.dropped

    def last_sent_age(self) -> float | None:
        """Return the seconds since a frame was sent; None before the first.

        Call it in the event loop.
        """
        return _seconds_since(self._last_sent)

    def age(self) -> float | None:
        """Return the seconds since the last sign of life of the peer: a connection, or a pong.

        At most about three while the peer works. Without a sign of life, the seconds since ``run``
        began; None before that. Call it in the event loop.
        """
        return _seconds_since(self._alive_at)

    def lost_for(self) -> float:
        """Return the seconds since the last connection was lost; 0 with one, or before the first.

        Connections that the peer closed at once do not count, except the first in a row. Call it in
        the event loop.
        """
        if self.connected or not self.ever_connected:
            return 0.0
        return asyncio.get_running_loop().time() - self._lost_at

    def send(self, frame: bytes, on_sent: Callable[[], None] = lambda: None) -> None:
        """Queue one binary frame; with a connection, it leaves in the next turn of the loop.

        Never blocks and never fails. Without a connection, the frame waits, and the link dials now
        instead of after its back-off. At the reconnect, it drops stale frames (``frames_dropped``).
        Call it in the event loop.

        Arguments:
            on_sent: called when the frame has been sent; must not raise.
        """
        self._backlog.push(frame, asyncio.get_running_loop().time(), on_sent)
        self._queued.set()
        self._dial_wanted.set()

    async def run(self) -> NoReturn:
        """Keep the link up until cancelled; then close it with code 1001."""
        loop = asyncio.get_running_loop()
        self._alive_at = loop.time()
        while True:
            connection = await self._dial()
            start = loop.time()
            try:
                await self._serve(connection)
            except asyncio.CancelledError:
                await self._close(connection)
                raise
            finally:
                connection.transport.abort()  # no closing handshake with a lost peer
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
        failures = 0
        while True:
            try:
                return await self.dial()
            except Exception as error:
                # Every cause may pass: DNS, network, a peer that speaks no WebSocket. None is a
                # reason to end the process, which serves traffic.
                self._dial_failed(error)
            failures += 1
            await self._pause(self._timings.delay(failures, random.random()))

    async def _pause(self, seconds: float) -> None:
        """Wait between two dials; a queued frame shortens the wait.

        Otherwise a service that scales from zero could wait 22 seconds after the autoscaler has
        recovered.
        """
        least = min(seconds, self._timings.backoff_first)
        await asyncio.sleep(least)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - least):
                await self._dial_wanted.wait()

    async def dial(self) -> ClientConnection:
        """Return a new connection to one of the addresses of the name.

        Raises:
            TimeoutError: the dial or the handshake took too long.
            PermissionError: the peer wants another token.
            Exception: any other cause: the look-up, the network, a peer without WebSocket.
        """
        self._dial_wanted.clear()
        fields = {}
        if self._token_file:
            fields["Authorization"] = bearers(self._token_file)[0].decode("latin-1")
        try:
            async with asyncio.timeout(self._timings.handshake):
                return await _Connect(
                    self._url,
                    additional_headers=fields,
                    sock=await connected(*self._address),
                    compression=None,
                    proxy=None,
                    user_agent_header="activator",
                    open_timeout=None,  # the time-out above counts
                    close_timeout=self._timings.close,
                    create_connection=BoundedConnection,
                    # The link sends pings; the library would wait for each pong.
                    ping_interval=None,
                )
        except InvalidStatus as error:
            if error.response.status_code != HTTPStatus.UNAUTHORIZED:
                raise
            sent = f"the token of {self._token_file}" if self._token_file else "no token"
            raise PermissionError(f"the peer responded 401 to {sent}") from error
        except TimeoutError as error:
            raise TimeoutError("timed out during the dial or the opening handshake") from error

    def _dial_failed(self, error: Exception) -> None:
        self.failed_dials += 1
        self.last_error = f"dial failed: {_why(error)}"
        kind = PermissionError if isinstance(error, PermissionError) else None
        if kind not in self._logged:  # log the change, not each retry
            self._logged.add(kind)
            _log.warning(
                "%s not reachable, retrying; until it is, nothing scales from zero",
                self._peer,
                extra={"url": self._url, "error": self.last_error},
            )

    async def _serve(self, connection: ClientConnection) -> None:
        """Use the connection until it is lost."""
        try:
            self._up()
            error = await self._first_failure(
                self._read(connection), self._write(connection), self._heartbeat(connection)
            )
        finally:
            self.connected = False
        if not isinstance(error, (ConnectionClosed, OSError)):  # OSError: TimeoutError is one
            raise error
        self.connection_losses += 1
        self.last_error = f"connection lost: {_why(error)}"
        if not self._short_lived:
            extra = {"url": self._url, "error": self.last_error}
            _log.warning("%s connection lost", self._peer, extra=extra)

    async def _first_failure(self, *endless: Coroutine[None, None, NoReturn]) -> BaseException:
        # No TaskGroup: before Python 3.13 it may swallow a cancellation if one of its tasks fails
        # at the same time. Then run() would dial on after its end.
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(coroutine) for coroutine in endless]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(error for task in tasks if task.done() and (error := task.exception()))
        finally:
            await cancel(*tasks)

    def _up(self) -> None:
        self.connected = self.ever_connected = True
        self._alive_at = asyncio.get_running_loop().time()
        self._logged.clear()
        if not self._short_lived:  # log no reconnect to a peer that closes each connection at once
            extra = {"url": self._url, "failed_dials": self.failed_dials}
            _log.info("%s connected", self._peer, extra=extra)

    async def _read(self, connection: ClientConnection) -> NoReturn:
        # The autoscaler sends no messages. This reads any from the socket, since pongs may follow
        # them. The deadline is that of _heartbeat.
        while True:
            try:
                await connection.recv(decode=False)
            except ConnectionClosed as error:
                if isinstance(connection, BoundedConnection) and connection.flooded:
                    raise ConnectionAbortedError(
                        f"the peer sent more than {BURST_BYTES} bytes at once; an autoscaler "
                        "sends only pongs"
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
                self._backlog.push_front(frame, loop.time())
                raise TimeoutError(
                    f"the peer read no data for {self._timings.write_deadline:g} s"
                ) from error
            except BaseException:
                self._backlog.push_front(frame, loop.time())
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
        pong_received: asyncio.Future[float] | None = None
        while True:
            await asyncio.sleep(min(next_ping, last_pong + patience) - loop.time())
            if loop.time() >= last_pong + patience:
                raise TimeoutError(f"the peer sent no pong for {patience:g} s")
            if loop.time() >= next_ping:
                next_ping = loop.time() + self._timings.ping_interval
                # Knative's pings are empty. Two in progress need different payloads here.
                payload = b"" if pong_received is None or pong_received.done() else None
                async with asyncio.timeout_at(last_pong + patience):
                    pong_received = asyncio.ensure_future(await connection.ping(payload))
                pong_received.add_done_callback(renew)

    async def _close(self, connection: ClientConnection) -> None:
        # Runs while run() is being cancelled, so it is short and has its own deadline. close()
        # alone would wait without limit for a peer that reads nothing.
        try:
            async with asyncio.timeout(self._timings.close):
                await connection.close(CloseCode.GOING_AWAY)
        except TimeoutError:
            pass


def _seconds_since(moment: float | None) -> float | None:
    return None if moment is None else asyncio.get_running_loop().time() - moment


def _why(error: BaseException) -> str:
    words = error.strerror if isinstance(error, OSError) else None  # without "[Errno 111]"
    return words or str(error) or type(error).__name__


# -- the frames that wait for the link
#
# The autoscaler adds up the reports of a second and dates them by its own clock. Many old reports
# at once would look like a burst of requests, and would start pods that no request needs. So frames
# become stale. Nothing is lost: each report repeats every revision with requests, so the fresh
# reports contain every queued request. The newest frame never becomes stale, since no newer load
# is known. Knative has no counterpart: pkg/activator/stat_reporter.go drops the reports that it
# cannot send.

# Each poke is a frame of about 60 bytes, and a thousand revisions may poke in one turn of the loop.
# Reports are large but come once a second, and at most two are fresh.
MAX_FRAMES = 1024


class QueuedFrame(NamedTuple):
    """A frame in the backlog.

    Attributes:
        payload: the bytes to send.
        arose: when the frame was queued, seconds.
        on_sent: called when the frame has been sent.
    """

    payload: bytes
    arose: float
    on_sent: Callable[[], None]


class Backlog:
    """A bounded first-in, first-out queue of frames.

    Arguments:
        stale_after: seconds; an older frame is dropped.
        max_frames: the most frames in the queue.

    Attributes:
        dropped: number of dropped frames.
    """

    def __init__(self, stale_after: float, max_frames: int = MAX_FRAMES) -> None:
        self._stale_after = stale_after
        self._max_frames = max_frames
        self._frames: deque[QueuedFrame] = deque()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._frames)

    def push(self, payload: bytes, now: float, on_sent: Callable[[], None] = lambda: None) -> None:
        """Queue a frame; a full queue drops the oldest one.

        Arguments:
            now: seconds, on one clock for all calls.
            on_sent: called when the frame has been sent.
        """
        self._frames.append(QueuedFrame(payload, now, on_sent))
        self._trim(now)

    def pop(self, now: float) -> QueuedFrame | None:
        """Remove and return the next fresh frame, or None; ``now`` is in seconds."""
        self._trim(now)
        return self._frames.popleft() if self._frames else None

    def push_front(self, frame: QueuedFrame, now: float) -> None:
        """Return a frame that could not be sent to the front, if it is still fresh."""
        self._frames.appendleft(frame)
        self._trim(now)

    def _trim(self, now: float) -> None:
        frames = self._frames
        while len(frames) > 1 and (
            len(frames) > self._max_frames or now - frames[0].arose > self._stale_after
        ):
            frames.popleft()
            self.dropped += 1


# -- one dial: all addresses of the autoscaler's name, and the opening handshake
#
# Knative: gorilla's default dialer, in pkg/websocket/connection.go (knative.dev/pkg).

#: Bytes that a peer may send at once, and per second in the long run. The autoscaler sends only
#: pongs. 256 KiB of empty pings, the most that one read returns, blocked the loop for 30 s.
BURST_BYTES: Final = 16 << 10
BYTES_PER_SECOND: Final = 4 << 10


def _checked(url: str) -> tuple[str, int]:
    """Return the host and the port of a URL.

    Raises:
        ValueError: it is no WebSocket URL.
    """
    try:
        uri = parse_uri(url)
    except (InvalidURI, ValueError) as error:  # ValueError: the port is no port
        raise ValueError(
            f"the autoscaler's URL {url!r} is wrong: {error}; "
            "give one like ws://autoscaler.knative-serving.svc.cluster.local:8080"
        ) from error
    return uri.host, uri.port


class _Connect(connect):
    """A dial that treats a redirect as an error: the peer is not the autoscaler."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class BoundedConnection(ClientConnection):
    """A connection that ends when the peer sends more than an autoscaler ever does.

    Attributes:
        flooded: whether the connection ended for that reason.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.flooded = False
        self._allowance = float(BURST_BYTES)
        self._refilled_at = self.loop.time()

    def data_received(self, data: bytes) -> None:
        now = self.loop.time()
        earned = (now - self._refilled_at) * BYTES_PER_SECOND
        self._allowance = min(self._allowance + earned, BURST_BYTES) - len(data)
        self._refilled_at = now
        if self._allowance < 0:
            self.flooded = True
            self.transport.abort()
        else:
            super().data_received(data)
