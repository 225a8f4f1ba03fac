"""Attempts to open a connection to a pod: one for one request, or one that many will share.

A request that waits for a free file may get a connection of its pod that has become idle meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from typing import Final, cast, final

from activator.proxy.exchange.sides import Asker
from activator.proxy.message.version import HTTP_1_1, HTTP_2
from activator.proxy.pods.dial import (
    DROPPED,
    OUR_SHORTAGE,
    SHORTAGE_PAUSE,
    OtherProtocolError,
    connect_cause,
    connect_error,
)
from activator.proxy.pods.home import Home
from activator.proxy.pods.http1 import Http1Pod
from activator.proxy.pods.http2 import NOT_HTTP2, Http2Pod
from activator.proxy.pods.states import Http2State
from activator.proxy.pods.stream import PodStream
from activator.proxy.transport.files import Waiter

#: Seconds for a pod to send its settings: with its first frame (RFC 9113 section 3.4), so nearly
#: always in one round trip. Servers of gRPC fail requests beyond their number, and do not refuse
#: them.
_SETTLE_SECONDS: Final = 1.0


async def _open(home: Home, waiter: Waiter, within: float, *, http2: bool) -> object:
    """Open a connection; where the shortage is ours, wait as long as it is wanted.

    Arguments:
        waiter: who wants the connection.
        within: seconds, where it is shorter than the limit for all, as for a probe. Such an
            attempt may use the files that are kept for probes.

    Returns:
        The connection, or one that has become idle meanwhile.

    Raises:
        OSError: see dial.connect_tls.
    """
    files = home.resources.files
    limit = min(within, home.resources.limits.connect_timeout)
    while True:
        idle = await files.take(waiter, probe=within < inf)
        if idle is not None:
            return idle
        pod: Http1Pod | Http2Pod = Http2Pod(home) if http2 else Http1Pod(home)
        try:
            await home.target.connect(pod.protocol(), limit, within, http2=http2)
            return pod
        except OSError as error:
            if error.errno not in OUR_SHORTAGE or not waiter.wants_connection:
                raise
        finally:
            if not pod.is_made():
                files.give_back()  # else ``Home.closed`` does
                if isinstance(pod, Http2Pod):
                    pod.link.release()
        await asyncio.sleep(SHORTAGE_PAUSE)


@final
class Dial:
    """The attempt to open a connection in HTTP/1 for one request."""

    __slots__ = ("_asker", "_home", "_within")

    def __init__(self, home: Home, asker: Asker, within: float) -> None:
        self._home = home
        self._asker = asker
        self._within = within

    @property
    def wants_connection(self) -> bool:
        """See files.Waiter."""
        return self._asker.wants_connection

    def take_idle(self) -> object | None:
        """See files.Waiter."""
        return self._home.take_idle(http2=False)

    async def run(self) -> None:
        """Open it; exactly one method of the asker is called."""
        home, asker = self._home, self._asker
        try:
            pod = cast(Http1Pod, await _open(home, self, self._within, http2=False))
        except OSError as error:
            asker.on_dial_failed(home.failed(connect_error(error)), connect_cause(error))
            return
        if not pod.transport.is_closing():
            home.dialed()
            asker.on_connected(pod)
        elif home.known_as is HTTP_2:
            asker.on_other_protocol("the pod speaks HTTP/2 alone")
        else:  # accepted and dropped at once: nothing would report that from here on
            asker.on_dial_failed(home.failed(DROPPED), "connect-failed")


@final
class SharedDial:
    """The attempt to open a connection in HTTP/2.

    Attributes:
        askers: the requests that wait for it.
    """

    __slots__ = ("_home", "askers")

    def __init__(self, home: Home) -> None:
        self._home = home
        self.askers: list[Asker] = []

    @property
    def wants_connection(self) -> bool:
        """See files.Waiter."""
        return any(asker.wants_connection for asker in self.askers)

    def take_idle(self) -> object | None:
        """See files.Waiter: a request has ended on a connection, which has room again."""
        return self._home.take_idle(http2=True)

    async def run(self) -> None:
        """Open it; exactly one method of each asker is called."""
        try:
            pod = cast(Http2Pod, await _open(self._home, self, inf, http2=True))
        except OtherProtocolError:
            self._refuse()
            return
        except OSError as error:
            self._fail(connect_error(error), connect_cause(error))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await pod.begun.wait()
        if pod.state is Http2State.FOREIGN:
            self._refuse()
        elif pod.state is Http2State.DROPPED:
            self._fail(DROPPED, "connect-failed")
        else:
            self._share(pod)

    def _share(self, pod: Http2Pod) -> None:
        """Give the connection to all that wait; those without room open the next one."""
        home = self._home
        welcome = pod.has_room()
        home.end_dial(pod)
        for asker in self.askers:
            if pod.has_room():
                asker.on_connected(PodStream(pod.carrier))
            elif not welcome:
                asker.on_refused("the pod takes no streams")
            elif asker.wants_connection:
                home.dial_shared(asker)
        if home.gone:
            pod.retire()

    def _refuse(self) -> None:
        home = self._home
        home.end_dial(None)
        home.speaks(HTTP_1_1)
        for asker in self.askers:
            asker.on_other_protocol(NOT_HTTP2)

    def _fail(self, error: str, cause: str) -> None:
        home = self._home
        home.end_dial(None)
        error = home.failed(error)
        for asker in self.askers:
            asker.on_dial_failed(error, cause)
