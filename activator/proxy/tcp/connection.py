"""The life of one connection of a TCP Service: it waits, gets a pod, and its bytes pass.

It is one request for the throttler, the queue, the loads and the counters. Nothing parses its
bytes. ``FOLLOWS`` has the states; their order is the order of the methods. A decision of the
throttler may come inside any call of the driver, so each step that follows is the last of its
method.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from contextlib import suppress
from enum import IntEnum, auto
from math import inf
from typing import TYPE_CHECKING, Any, Final, final

from activator.process.sockets import SocketKind, find_dead, options
from activator.proxy.client.proxy import Evictable, address_of
from activator.proxy.exchange import end
from activator.proxy.exchange.observers import RequestRecord
from activator.proxy.exchange.wait import PodWait
from activator.proxy.message import own_responses
from activator.proxy.message.own_responses import OwnResponse
from activator.proxy.pods.dial import LOCAL_SHORTAGE, SHORTAGE_PAUSE, connect_cause, connect_error
from activator.proxy.tcp.demand import BUSY_SECONDS, ConnectionDemand
from activator.proxy.tcp.proxy_header import proxy_header
from activator.proxy.tcp.side import Side
from activator.proxy.transport.peer_socket import PeerKind
from activator.proxy.transport.poller import READ, WRITE
from activator.records.entries import Entry, Failed
from throttler.errors import FlowFull, RequestQueueFull, WaitTooLong
from throttler.model import NO_TIMEOUT
from throttler.pod import PodState, PodTracker
from throttler.reason import Reason
from throttler.request_policies import ConnectionPolicies
from throttler.ticket import ASSIGNED, NO_OWNER, QUEUED, Ticket

if TYPE_CHECKING:
    from activator.proxy.tcp.clients import TcpClients


class TcpState(IntEnum):
    """The state of a connection.

    OPENED: no pod is free, and the client has sent no byte. It wakes nothing and has no ticket.
    WAITING: it is in the queue. DIALLING: it has a pod, and connects to it. PASSING: bytes pass.
    CLOSING: it has ended, and the client may still send bytes. DONE: its sockets are closed.
    Numbers, since the hash of another enum is a call of Python.
    """

    OPENED = auto()
    WAITING = auto()
    DIALLING = auto()
    PASSING = auto()
    CLOSING = auto()
    DONE = auto()


# Names of this module: a member of an enum is slow to find.
OPENED: Final = TcpState.OPENED
WAITING: Final = TcpState.WAITING
DIALLING: Final = TcpState.DIALLING
PASSING: Final = TcpState.PASSING
CLOSING: Final = TcpState.CLOSING
DONE: Final = TcpState.DONE

#: Which state may follow which.
FOLLOWS: Final[dict[TcpState, frozenset[TcpState]]] = {
    OPENED: frozenset((WAITING, DIALLING, CLOSING, DONE)),
    WAITING: frozenset((DIALLING, CLOSING, DONE)),
    DIALLING: frozenset((WAITING, PASSING, CLOSING, DONE)),
    PASSING: frozenset((CLOSING, DONE)),
    CLOSING: frozenset((DONE,)),
    DONE: frozenset(),
}

_BEFORE_BYTES: Final = frozenset((OPENED, DIALLING))
#: Bytes that are read from a client that waits.
MOST_HELD: Final = 64 << 10
#: Seconds for a client to end its side, once the activator has ended the connection.
_CLOSING_SECONDS: Final = 2.0
#: Seconds after which a client that has sent nothing may lose its place if files run short. A real
#: client sends its part of the handshake before, even if the greeting of the server is slow.
_SILENT_SECONDS: Final = 10.0
#: Most reads from a side that accepts no more bytes.
_LAST_READS: Final = 16
#: The options of a pod's socket. They are the same for all, and a connection may be short.
_POD_OPTIONS: Final = (
    *options(SocketKind.POD_SLOW),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)
_RESET: Final = struct.pack("ii", 1, 0)
#: The statuses that requests of HTTP have for the same ends.
_STATUSES: Final = {"served": 101, "cancelled": 499, "upstream-failed": 502}
_CONNECTING: Final = frozenset((errno.EINPROGRESS, errno.EALREADY))


@final
class TcpConnection(Evictable):
    """One connection of a client of a TCP Service.

    Arguments:
        clients: the objects that all connections share.
        entry: of its Service.
        client: the client's socket.
        peer: the address of the client, as the socket module has it.

    Attributes:
        armed: see timers.Timed.
        demand: decides when it counts as load.
    """

    __slots__ = (
        *("_client", "_clients", "_entry", "_held", "_peer", "_pod", "_state", "_ticket"),
        *("_until", "_wait", "armed", "demand"),
    )

    def __init__(self, clients: TcpClients, entry: Entry, client: socket.socket, peer: Any) -> None:
        super().__init__()
        self._clients = clients
        self._entry = entry
        self._client = clients.side(self, client, PeerKind.CLIENT)
        self._peer = peer
        self._state = OPENED
        self._held = b""
        self._until = inf  # when the connect to the pod is late
        self._pod: Side | None = None
        self._wait: PodWait | None = None
        self.armed = inf
        self.idle_since = now = clients.clock()
        self.demand = ConnectionDemand(entry.load, self._policies, now)
        revision = entry.throttler.revision
        requests = revision.policies.requests
        within = requests.wait_seconds if requests is not None else 0.0
        self._ticket = ticket = Ticket(self, now + (within or revision.timeout or NO_TIMEOUT))
        if entry.throttler.key is not None:
            ticket.key = self._address
        order = revision.policies.order
        if order is not None:
            ticket.priority = order.priority
            if order.fair_by is not None:
                ticket.flow = self._address

    @property
    def _policies(self) -> ConnectionPolicies:
        policies = self._entry.throttler.revision.policies.connections
        return ConnectionPolicies() if policies is None else policies

    @property
    def _address(self) -> bytes:
        return address_of(self._peer[0])

    def _enter(self, state: TcpState) -> None:
        assert state in FOLLOWS[self._state], (self._state, state)
        if self._state is OPENED:
            self._clients.proxy.connections.keep(self)
        self._state = state

    # -- it is open -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Connect to a pod that is free; else wait for a reason to wake the workload."""
        demand, now = self.demand, self.demand.opened
        demand.check(now)
        if self._entry.throttler.has_free_slot or demand.shown:
            self._admit(now)
        else:
            self._client.watch(READ)
        if self._state in _BEFORE_BYTES:
            self._arm(demand.due)

    def ready(self, side: Side, events: int) -> None:
        """Handle events of a side while no bytes pass."""
        if side is self._pod:
            self._connected(side.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        elif self._state is CLOSING:
            self._discard()
        elif events & READ:
            self._read()
        else:
            self._leave()

    def _read(self) -> None:
        """Hold what the client sends while it waits."""
        client = self._client
        try:
            data = client.sock.recv(MOST_HELD - len(self._held))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._leave()
            return
        if not data:
            client.ended = True
            client.watch(0)
            find_dead(client.sock, SocketKind.HALF_CLOSED)
            if not self._held:  # a closed connection and a half-closed one look alike
                self._leave()
            return
        self._held += data
        if len(self._held) >= MOST_HELD:
            client.watch(0)
        if self._state is OPENED:
            self._ticket.size = len(self._held)
            now = self._clients.clock()
            self.demand.begin(now)
            self._admit(now)
        elif self._ticket.state is QUEUED:
            queued = self._entry.throttler.queued
            if not queued.reserve_bytes(self._ticket, len(data)):
                client.watch(0)

    def _leave(self) -> None:
        """End, because the client has closed."""
        if self._state is not OPENED:
            self._end("cancelled")
        self._close()

    # -- it waits ---------------------------------------------------------------------------------

    def _admit(self, now: float) -> None:
        """Queue the connection, or connect to a pod with a free slot; last of its step."""
        throttler, ticket = self._entry.throttler, self._ticket
        try:
            pod = throttler.admit(ticket, now)
        except (RequestQueueFull, FlowFull, WaitTooLong) as full:
            response, outcome = end.rejected(self._clients.services, throttler, full)
            self._stop(response, outcome)
            return
        if pod is not None:
            self._dial(pod)
            return
        self._enter(WAITING)
        self.demand.begin(now)
        self._begin_wait(now)
        self._clients.driver.began_waiting(throttler)

    def _begin_wait(self, now: float) -> None:
        """Join the cold start of the Service, if there is one, and watch the client."""
        wait = self._wait
        if wait is None:
            cold_starts = self._clients.driver.cold_starts
            wait = self._wait = PodWait(cold_starts, self._ticket.arrived, server_timing=False)
        wait.join(self._entry, now)
        self._clients.proxy.timers.disarm(self)
        if not (self._client.ended or len(self._held) >= MOST_HELD):
            self._client.watch(READ)

    def ticket_assigned(self) -> None:
        """Connect to the pod that is assigned; see throttler.ticket.TicketOwner."""
        now = self._clients.clock()
        assert self._wait is not None
        self._wait.assigned(now)
        self._entry.counters.waits.observe(now - self._ticket.arrived)
        pod = self._ticket.pod
        assert pod is not None
        self._dial(pod)

    def ticket_expired(self, reason: Reason, detail: str) -> None:
        """End, because the wait has reached its limit; see throttler.ticket.TicketOwner."""
        self._stop(own_responses.timed_out(reason, detail), "timed-out")

    # -- it connects to a pod ---------------------------------------------------------------------

    def _dial(self, pod: PodTracker) -> None:
        self._enter(DIALLING)
        if self._clients.files.take_now():
            self._connect(pod)
        else:
            self._arm(self._ticket.deadline)
            self._clients.pools.resources.start(self._connect_later(pod))

    @property
    def wants_connection(self) -> bool:
        """Whether it waits for a file, see transport.files.Waiter."""
        return self._state is DIALLING and self._pod is None

    def take_idle(self) -> object | None:
        """Return None: no connection of another client can be used."""
        return None

    async def _connect_later(self, pod: PodTracker, pause: float = 0.0) -> None:
        """Connect to a pod after a pause in seconds, once a file is free."""
        await asyncio.sleep(pause)
        with suppress(ConnectionAbortedError):
            await self._clients.files.take(self)
            if self.wants_connection and self._ticket.pod is pod:
                self._connect(pod)
            else:
                self._clients.files.release()

    def _connect(self, pod: PodTracker) -> None:
        """Connect to a pod; a file is taken for it."""
        target = self._clients.pools.of(pod).target
        family = socket.AF_INET6 if ":" in target.host else socket.AF_INET
        kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK
        try:
            sock = socket.socket(family, kind, socket.IPPROTO_TCP)
        except OSError as error:
            self._clients.files.release()
            self._fail(error.errno or errno.EMFILE)
            return
        pod_side = self._pod = self._clients.side(self, sock, PeerKind.POD)
        self._clients.pools.resources.connections += 1
        code = sock.connect_ex((target.host, target.port))
        if code == errno.EINPROGRESS:  # a pod on this machine has accepted meanwhile
            code = sock.connect_ex((target.host, target.port))
        if code in _CONNECTING:
            pod_side.watch(WRITE)
            self._client.watch(0)
            self._until = self._clients.clock() + self._clients.connect_timeout
            self._arm(self._until)
        else:
            self._connected(0 if code == errno.EISCONN else code)

    def _connected(self, code: int) -> None:
        """Pass bytes if a connect has succeeded; ``code`` is its error."""
        if code:
            self._fail(code)
        else:
            self._pass()

    def _fail(self, code: int) -> None:
        """Handle a failed connect in the next turn of the loop: many may fail at once."""
        asyncio.get_running_loop().call_soon(self._dial_failed, code, self._pod)

    def _dial_failed(self, code: int, pod: Side | None) -> None:
        """Put the connection at the front of the queue; its pod must pass a probe."""
        if self._state is not DIALLING or pod is not self._pod:
            return
        self._close_pod()
        self._until = inf
        tracker = self._ticket.pod
        assert tracker is not None
        if code in LOCAL_SHORTAGE:
            self._arm(self._ticket.deadline)
            self._clients.pools.resources.start(self._connect_later(tracker, SHORTAGE_PAUSE))
            return
        error: OSError = OSError(code, os.strerror(code))
        if code == errno.ETIMEDOUT:
            error = TimeoutError(f"connect timed out after {self._clients.connect_timeout:.3g} s")
        entry, driver, now = self._entry, self._clients.driver, self._clients.clock()
        entry.counters.requeued(connect_cause(error))
        driver.connect_failed(tracker, connect_error(error))
        if self._ticket.state is not ASSIGNED:
            return
        self._enter(WAITING)
        self.demand.begin(now)
        self._begin_wait(now)
        driver.requeue(entry.throttler, self._ticket, now)

    # -- bytes pass -------------------------------------------------------------------------------

    def _pass(self) -> None:
        """Pass all bytes, from the ones that the client has sent already."""
        pod, tracker, now = self._pod, self._ticket.pod, self._clients.clock()
        assert pod is not None
        assert tracker is not None
        self._enter(PASSING)
        for level, option, value in _POD_OPTIONS:
            pod.sock.setsockopt(level, option, value)
        tracker.last_response_at = now
        if self._wait is not None:
            self._wait.responded(tracker, now)
        data, self._held = self._held, b""
        version = self._policies.send_proxy
        if version is not None:
            data = proxy_header(version, self._peer, self._client.sock.getsockname()) + data
        if self._client.join(pod, data) and pod.join(self._client, b""):
            self._arm(self.demand.due)

    def moved(self, by: PeerKind) -> None:
        """Record that a side sends bytes; called while ``demand`` follows them."""
        if self.demand.moved(self._clients.clock(), by_client=by is PeerKind.CLIENT):
            self._clients.resting.discard(self)
            self._arm(self.demand.due)

    def finished(self, receiver: Side) -> None:
        """Pass on that the other side has ended; end if both have."""
        pod = self._pod
        if self._client.told and pod is not None and pod.told:
            self._end("served")
            self._close()
            return
        try:  # suppress costs three calls of Python
            receiver.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it is broken, as the poller will report

    def refused(self, by: PeerKind) -> None:
        """Reset the other side, because one side accepts no more bytes.

        The other side first gets the bytes that this one sent before.
        """
        pod = self._pod
        if pod is None:
            return
        source, other = (pod, self._client) if by is PeerKind.POD else (self._client, pod)
        with suppress(OSError):
            for _ in range(0 if other.holds() else _LAST_READS):  # else these came before
                data = source.sock.recv(MOST_HELD)
                if not data or other.sock.send(data) < len(data):
                    break
        self.lost(by)

    def lost(self, by: PeerKind) -> None:
        """Reset the other side, because one side has reset the connection."""
        other = self._client if by is PeerKind.POD else self._pod
        if other is not None:
            _reset(other.sock)
        self._end("upstream-failed" if by is PeerKind.POD else "cancelled")
        self._close()

    def end_unread(self, side: Side) -> tuple[PeerKind, str]:
        """Reset both sides, because the unread bytes of one have reached their limit."""
        kind, tracker = side.kind, self._ticket.pod
        address = tracker.address if kind is PeerKind.POD and tracker is not None else self._name()
        _reset(side.sock)
        self.lost(kind)
        return kind, address

    def end_idle(self) -> bool:
        """Close a connection on which no bytes pass if its pod ends; return whether it does."""
        tracker = self._ticket.pod
        if tracker is None or tracker.state is not PodState.DRAINING:
            return False
        if self._holds():  # these bytes would be lost
            self._arm(self._clients.clock() + BUSY_SECONDS)
            return False
        self._end("served")
        self._linger()
        return True

    def _holds(self) -> bool:
        """Return whether bytes wait for one of the peers."""
        return self._client.holds() or (self._pod is not None and self._pod.holds())

    # -- time -------------------------------------------------------------------------------------

    def _arm(self, when: float) -> None:
        if when < self.armed:
            self._clients.proxy.timers.arm(self, when)

    def on_time(self, now: float) -> float:
        """Do what is due; return when to call this again, seconds (timers.Timed)."""
        state = self._state
        if state is OPENED:
            self.demand.begin(now)
            self._admit(now)
        elif state is DIALLING:
            return self._check_dial(now)
        elif state is PASSING:
            if self.demand.check(now):
                self._clients.resting.add(self)
            if self in self._clients.resting:
                if self.end_idle():
                    return inf
                if self._holds():
                    return now + BUSY_SECONDS
            return self.demand.due
        elif state is CLOSING:
            self._close()
        return inf

    def _check_dial(self, now: float) -> float:
        """End the connect to a pod if it is late, or the wait for a file."""
        self.demand.check(now)
        if now >= self._until:
            self._fail(errno.ETIMEDOUT)
            return inf
        if self._pod is None and now >= self._ticket.deadline:
            detail = self._clients.services.still_connecting()
            response = own_responses.timed_out(Reason.RESPONSE_LATE, detail.lstrip("; "))
            self._stop(response, "timed-out")
            return inf
        return min(self._until, self._ticket.deadline) if self._pod is None else self._until

    # -- it ends ----------------------------------------------------------------------------------

    def _stop(self, response: OwnResponse, outcome: str) -> None:
        """End without a pod; the log line and the counters have the reason.

        Arguments:
            response: what a request of HTTP would get.
            outcome: one of ``counters.OUTCOMES``.
        """
        clients, entry, reason = self._clients, self._entry, response.reason
        assert reason is not None
        self._end(outcome, response.status, response.why)
        detail = own_responses.printable(response.detail)
        clients.driver.failed(entry, Failed(clients.clock(), 0, reason, detail))
        service = entry.throttler.revision.id
        clients.services.log_own_response(service, response, "closed a connection")
        self._linger()

    def _end(self, outcome: str, status: int = 0, why: str = "") -> None:
        """Count the connection, and release its ticket. Called once; the sockets close next.

        Arguments:
            outcome: one of ``counters.OUTCOMES``.
            status: for the request log; 0 for the one of the outcome.
            why: the reason of the activator; empty if a side has ended it.
        """
        clients, entry, ticket = self._clients, self._entry, self._ticket
        now = clients.clock()
        entry.counters.outcomes[outcome] += 1
        self.demand.end(now)
        if self._wait is not None:
            self._wait.ended(outcome, now)
        if clients.services.request_log is not None:
            clients.services.request_log.ended(
                self._record(status or _STATUSES[outcome], now - self.demand.opened, why)
            )
        clients.resting.discard(self)
        ticket.owner = NO_OWNER  # breaks the cycle: nothing is left for the garbage collector
        if ticket.state is ASSIGNED:
            of_pod = end.of_pod(outcome, status)
            clients.driver.carry_out(entry.throttler.release(ticket, now, of_pod))
        elif ticket.state is QUEUED:
            clients.driver.cancel(entry.throttler, ticket, now)

    def _record(self, status: int, duration: float, why: str) -> RequestRecord:
        pod = self._pod
        revision = self._entry.throttler.revision
        return RequestRecord(
            *(b"TCP", b"", str(revision.id).encode(), 1, b""),
            self._client.size,
            status,
            0 if pod is None else pod.size,
            duration,
            self._name(),
            revision,
            "",
            why,
        )

    def _name(self) -> str:
        host, port = self._address.decode(), self._peer[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _linger(self) -> None:
        """End the connection, and read until the client does too.

        Unread bytes would make the kernel reset the connection of a client.
        """
        self._close_pod()
        self._enter(CLOSING)
        self._held = b""
        client = self._client
        client.detach()
        with suppress(OSError):
            client.sock.shutdown(socket.SHUT_WR)
        self._clients.proxy.timers.disarm(self)
        self._arm(self._clients.clock() + _CLOSING_SECONDS)
        client.watch(READ)

    def _discard(self) -> None:
        try:
            if self._client.sock.recv(MOST_HELD):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self._close()

    def _close_pod(self) -> None:
        """Close the connection to the pod, and release its file."""
        pod, self._pod = self._pod, None
        if pod is not None:
            pod.close()
            self._clients.pools.resources.closed(self)

    def _close(self) -> None:
        """Close both sockets."""
        self._close_pod()
        self._enter(DONE)
        self._client.close()
        self._clients.proxy.timers.disarm(self)
        self._clients.proxy.remove(self)

    # -- the server stops, or files run short -----------------------------------------------------

    def may_be_evicted(self) -> bool:
        """Return whether its client has sent nothing, and not only a moment ago."""
        if self._state is PASSING:
            silent = self._clients.clock() - self.demand.opened
            return self._client.size == 0 and silent > _SILENT_SECONDS
        return self._state is OPENED

    def evict(self) -> bool:
        asyncio.get_running_loop().call_soon(self._evict)  # the caller still uses it
        return True

    def _evict(self) -> None:
        if self._state is PASSING:
            self._stop(self._clients.proxy.too_many_connections(), "queue-full")
        else:
            self.shutdown()

    def shutdown(self) -> None:
        if self._state is OPENED:
            self._close()

    def drain(self) -> None:
        if self._state in (WAITING, DIALLING):
            self._stop(own_responses.draining("no pod was free in time"), "draining")

    def force_end(self) -> None:
        if self._state in (WAITING, DIALLING, PASSING):
            self._stop(own_responses.draining("this activator ends"), "draining")
        elif self._state is not DONE:
            self._close()


def _reset(sock: socket.socket) -> None:
    """Make the kernel reset the connection when the socket is closed."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
