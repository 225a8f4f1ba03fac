"""One probe of one pod: the question that queue-proxy answers, and what its answer means.

Goes over the connections that requests use, so that the one that proved the pod carries the
first request. Decides nothing about the pod. Knative's counterpart: the prober of
pkg/activator/net/revision_backends.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from throttler.pod import PodTracker

#: Bytes of the answer's body that are read: five are right, and a pod is not trusted.
MAX_BODY = 1024
EXPECTED = b"queue"
#: The kinds of failure in which the pod responded, but not as a ready pod does.
NOT_READY = ("bad-status", "bad-answer")


class Answer(Protocol):
    """The head of a pod's answer."""

    status: int


class Connection(Protocol):
    """A connection to a pod.

    Attributes:
        reused: whether it has carried an answer before.
    """

    reused: bool

    def send(self, owner: Probe, data: bytes) -> None:
        """Begin a request whose answer goes to ``owner``."""

    def abandon(self) -> None:
        """End it: its answer is of no more use."""

    def give_back(self) -> None:
        """Keep it for somebody else; nothing was sent on it."""


class Pool(Protocol):
    """The connections to one pod.

    Attributes:
        probe_lines: the request fields that say which pod is asked, each with its CRLF.
    """

    @property
    def probe_lines(self) -> bytes:
        """See the class."""

    def take(self) -> Connection | None:
        """Return an idle one."""

    def dial(self, dialer: Probe, within: float) -> None:
        """Open one, and call ``on_dialed`` or ``on_dial_failed`` of ``dialer``."""


class Probe:
    """One probe. ``done`` is called once, unless it is abandoned.

    Arguments:
        pod: whom to ask.
        timeout: seconds for the connection, and again for the answer on it.
        done: called with the kind of failure (empty if it passed) and its text.

    Attributes:
        responded: whether any byte of a response came, be it in HTTP/2 or malformed.
    """

    __slots__ = (
        "_answer",
        "_body",
        "_connection",
        "_done",
        "_pool",
        "_timeout",
        "_timer",
        "epoch",
        "pod",
        "responded",
    )

    _pool: Pool
    #: See proxy.upstream.Answered: the request is a GET.
    to_head = False

    def __init__(
        self, pod: PodTracker, timeout: float, done: Callable[[Probe, str, str], None]
    ) -> None:
        self.pod = pod
        self.epoch = pod.epoch
        self.responded = False
        self._timeout = timeout
        self._done: Callable[[Probe, str, str], None] | None = done
        self._connection: Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answer: Answer | None = None
        self._body = b""

    @property
    def status(self) -> int | None:
        """The status of the answer; None if there was none."""
        return self._answer.status if self._answer is not None else None

    def start(self, pool: Pool) -> None:
        """Ask."""
        self._pool = pool
        connection = pool.take()
        if connection is None:
            pool.dial(self, self._timeout)
        else:
            self._send(connection)

    def abandon(self) -> None:
        """Forget it: the answer is of no more use."""
        self._done = None
        self._stop_timer()
        if self._connection is not None:
            self._connection.abandon()

    # -- dialing (proxy.pool.Dialer) ------------------------------------------------------------

    @property
    def wants_connection(self) -> bool:
        """Whether the probe still wants an answer."""
        return self._done is not None

    def on_dialed(self, connection: Connection) -> None:
        """The connection is there."""
        if self._done is None:
            connection.give_back()
        else:
            self._send(connection)

    def on_dial_failed(self, error: str, cause: str) -> None:
        """There is none."""
        self.responded = cause in NOT_READY
        self._finish(cause, error)

    def _send(self, connection: Connection) -> None:
        self._connection = connection
        self._timer = asyncio.get_running_loop().call_later(self._timeout, self._on_timeout)
        connection.send(self, _request(self._pool.probe_lines))

    def _on_timeout(self) -> None:
        assert self._connection is not None
        self._connection.abandon()
        self._finish("timeout", f"no answer in {self._timeout:.3g} s")

    # -- the answer (proxy.upstream.Answered) ---------------------------------------------------

    def on_interim(self, response: Answer) -> None:
        """A 1xx says nothing. (101 leaves the connection without an answer until the timeout.)"""

    def on_response(
        self, response: Answer, raw: bytes | None, payload: list[bytes], complete: bool
    ) -> None:
        """The head, and what came with it."""
        self._answer = response
        self.responded = True
        self.on_payload(payload, complete, b"")

    def on_payload(self, payload: list[bytes], complete: bool, trailers: bytes) -> None:
        """More of the body."""
        self._body += b"".join(payload)[: MAX_BODY + 1]
        if complete:
            self._judge()
        elif len(self._body) > MAX_BODY:
            assert self._connection is not None
            self._connection.abandon()
            self._judge()

    def _judge(self) -> None:
        assert self._answer is not None
        status = self._answer.status
        if status != 200:
            self._finish("bad-status", f"status {status}")
        elif len(self._body) > MAX_BODY:
            self._finish("bad-answer", f"more than {MAX_BODY} bytes of body")
        elif self._body != EXPECTED:
            self._finish("bad-answer", f"body {self._body[:20]!r} instead of {EXPECTED!r}")
        else:
            self._finish("", "")

    def on_lost(self, error: str, answered: bool) -> None:
        """The connection broke. A pod may close one that was idle at any time, which says nothing
        against it: then a new one is asked."""
        connection, self._connection = self._connection, None
        assert connection is not None
        if connection.reused and not answered:
            self._stop_timer()
            self._pool.dial(self, self._timeout)
        else:
            self.responded = answered
            self._finish("connection-lost", error)

    def pause_sending(self) -> None:
        """A probe is smaller than any buffer."""

    def resume_sending(self) -> None:
        """See pause_sending."""

    def _finish(self, kind: str, text: str) -> None:
        self._stop_timer()
        self._connection = None
        done, self._done = self._done, None
        if done is not None:
            done(self, kind, text)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _request(lines: bytes) -> bytes:
    return (
        b"GET /healthz HTTP/1.1\r\n%bUser-Agent: Knative-Activator-Probe\r\n"
        b"K-Network-Probe: queue\r\n\r\n" % lines
    )
