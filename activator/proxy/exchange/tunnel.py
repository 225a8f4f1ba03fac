"""A 101, and behind it bytes both ways, as they come, each side no faster than the other reads.

Knows no HTTP beyond the 101. Each end keeps its direction open after the other has closed its own
(a half-close passes on, but not where TLS is); when both have, or one breaks, the exchange ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast, final

from activator.proxy.exchange.sides import ClientSide, PodSide, SwitchingSide
from activator.proxy.message.request import Request
from activator.proxy.message.response import Response
from activator.proxy.transport import presence
from activator.proxy.transport.buffer import BUFFER, SMALL_BUFFER, received
from activator.proxy.transport.unread import Peer


class _End:
    """One side of a tunnel: what it receives goes out on the other side.

    The client's connection goes on being one of the server's.

    Attributes:
        peer: the other side, until this one is lost.
    """

    __slots__ = (
        "_closed",
        "_side",
        "_touch",
        "_unread",
        "_who",
        "early",
        "ended",
        "peer",
        "transport",
    )
    __deletable__ = ("peer",)  # read by mypyc

    peer: _End

    def __init__(
        self, side: SwitchingSide, touch: Callable[[], None], closed: Callable[[], None]
    ) -> None:
        self._side = side
        self._touch = touch
        self._closed = closed
        self._unread = side.unread_bytes()
        self._who = side.who()
        self.transport, self.early = side.take_over()
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol; not called, since the connection was made before."""

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        if not self.peer.transport.is_closing():
            self._touch()
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        self.ended = True
        peer = self.peer
        # TLS ends both directions at once: with loops it has no half-close.
        if peer.ended or presence.is_tls(self.transport) or presence.is_tls(peer.transport):
            peer.transport.close()
            return False
        if not peer.transport.is_closing() and peer.transport.can_write_eof():
            peer.transport.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.ended = True
        self._unread.hold(self, 0)
        if not self.peer.transport.is_closing():
            self.peer.transport.close()
        del self.peer  # breaks the cycle: nothing is left for the garbage collector
        self._closed()
        self._side.connection_lost(exc)

    def end_unread(self) -> tuple[Peer, str]:
        """See unread.Reader."""
        self.transport.abort()
        return self._who

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._unread.hold(self, presence.count_held(self.transport))
        if not self.peer.ended:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._unread.hold(self, 0)
        if not self.peer.ended:
            self.peer.transport.resume_reading()


@final
class _PodEnd(_End):
    """The pod's side; its connection goes on being counted by its pool."""

    __slots__ = ()

    def get_buffer(self, sizehint: int) -> memoryview:
        """See asyncio.BufferedProtocol."""
        return SMALL_BUFFER if self._unread.scarce else BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio.BufferedProtocol."""
        self.data_received(received(nbytes))


def is_wanted(request: Request, response: Response) -> bool:
    """Return whether a 101 changes to the protocol that the request asks for."""
    return bool(request.upgrade) and response.upgrade.lower() == request.upgrade.lower()


def switch(
    client: ClientSide,
    pod: PodSide | None,
    response: Response,
    notes: bytes,
    touch: Callable[[], None],
    closed: Callable[[], None],
) -> None:
    """Pass on the pod's 101, and join the two connections.

    Arguments:
        notes: field lines of ours for the response; the others: see ``tunnel``.
    """
    at_client, at_pod = client.switching(), None if pod is None else pod.switching()
    assert at_client is not None
    assert at_pod is not None
    at_client.switch(response, notes)
    tunnel(at_client, at_pod, touch, closed)


def tunnel(
    client: SwitchingSide,
    pod: SwitchingSide,
    touch: Callable[[], None],
    closed: Callable[[], None],
) -> None:
    """Join the two connections.

    What the client sent behind its request is held until here, and sent now (RFC 9110 section
    7.8: the server's 101 comes first).

    Arguments:
        touch: called when bytes pass.
        closed: called when the two part, maybe twice.
    """
    client_is_full, pod_is_full = client.is_stopped(), pod.is_stopped()
    at_client = _End(client, touch, closed)
    at_pod = _PodEnd(pod, touch, closed)
    at_client.peer, at_pod.peer = at_pod, at_client
    # The loops look methods up by name: a compiled class has no base of theirs.
    at_client.transport.set_protocol(cast(asyncio.BaseProtocol, at_client))
    at_pod.transport.set_protocol(cast(asyncio.BaseProtocol, at_pod))
    at_client.transport.resume_reading()
    if client_is_full:
        at_client.pause_writing()
    if pod_is_full:
        at_pod.pause_writing()
    if at_pod.early:
        at_client.transport.write(at_pod.early)
    if at_client.early:
        at_pod.transport.write(at_client.early)
    if at_pod.transport.is_closing():  # broken behind its 101: the loop has reported that already
        at_client.transport.close()
