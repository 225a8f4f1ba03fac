"""Moves large bodies from socket to socket within the kernel, by splice(2).

A copy through this process is the larger part of the cost of a large body. A splice needs a body of
known length, and plain connections of HTTP/1 to client and pod. The transports of both rest
meanwhile. At anything unusual, such as the end of a connection, the splice ends and they go on. So
nothing depends on it but speed.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast, final

from activator.proxy.transport.peer_socket import UnreadBytes, UnreadHolder
from activator.proxy.transport.poller import READ, WRITE, Poller, Watched

#: Bytes of a body from which on a splice is cheaper than copies.
WORTHWHILE: Final = 256 << 10
#: Bytes that one pipe may hold.
PIPE: Final = 256 << 10
#: Most splices at a time. Each has a pipe, so two of the files in reserve.
_MOST: Final = 32
#: One splice for so many files that the process may have open.
_FILES_EACH: Final = 64
#: Pipes hold at most one unread byte in so many of the budget.
_SHARE: Final = 8
#: Full pipes that one splice moves in one turn of the loop.
_PER_TURN: Final = 2
#: The errors of a system, or of its rules, that does not allow a splice.
UNSUPPORTED: Final = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP)
# Only Linux has splice.
FLAGS: Final[int] = getattr(os, "SPLICE_F_MOVE", 0) | getattr(os, "SPLICE_F_NONBLOCK", 0)


@final
class Splices:
    """Begins splices of bodies, and has the pipes, which TCP uses too.

    Arguments:
        limit: open files that the process may have.
        unread: the budget of unread bytes, which includes bytes in pipes.

    Attributes:
        supported: whether the system has splice; a sandbox may forbid it.
    """

    __slots__ = ("_free", "_left", "_most", "sinks", "sources", "supported", "unread")

    def __init__(self, limit: int, unread: UnreadBytes) -> None:
        # A socket may be the source of one splice and the sink of another one.
        self.sources, self.sinks = Poller(), Poller()
        self.unread = unread
        self._most = min(_MOST, limit // _FILES_EACH, unread.most // (_SHARE * PIPE))
        self._left = self._most
        self.supported = hasattr(os, "splice")
        self._free: list[tuple[int, int]] = []

    def begin(
        self,
        source: asyncio.Transport,
        sink: asyncio.Transport,
        size: int,
        moved: Callable[[int], None],
        ended: Callable[[bytes], None],
    ) -> Splice | None:
        """Begin to move bytes; until the end, nothing else reads the source or writes to the sink.

        Arguments:
            source: its reading pauses at once; ``ended`` has to resume it.
            sink: what was written to it goes first. Its protocol is paused while its peer does not
                read.
            size: bytes to move.
            moved: called with the number of bytes that were taken from the source.
            ended: called at the end with bytes that were taken, and that the sink did not accept.
                Fewer than ``size`` bytes may have been moved.

        Returns:
            The splice; None if none is possible now.
        """
        pipe = None if source.is_closing() or sink.is_closing() else self.take()
        if pipe is None:
            return None
        source.pause_reading()
        return Splice(self, pipe, source, sink, size, moved, ended)

    def may_begin(self) -> bool:
        """Return whether there may be a pipe."""
        return self.supported and self._left > 0 and not self.unread.scarce

    def take(self) -> tuple[int, int] | None:
        """Return an empty pipe, which ``release`` gets back; None if none is left."""
        if not self.may_begin():
            return None
        try:
            pipe = self._free.pop() if self._free else _new_pipe()
        except OSError:
            return None
        self._left -= 1
        return pipe

    def is_last(self) -> bool:
        """Return whether all pipes are in use."""
        return not self._left

    def release(self, pipe: tuple[int, int], *, empty: bool) -> None:
        """Keep a pipe for others, or close it; after the last one, close all.

        Arguments:
            empty: whether the pipe holds no byte.
        """
        self._left += 1
        if empty:
            self._free.append(pipe)
        else:
            _close(pipe)
        if self._left == self._most:
            self.close()

    def close(self) -> None:
        """Close the pipes that nothing uses, and watch no socket any more."""
        while self._free:
            _close(self._free.pop())
        self.sources.close()
        self.sinks.close()


def _new_pipe() -> tuple[int, int]:
    pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with suppress(OSError):  # a user's pipes may be large only up to a limit
        fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, PIPE)
    return pipe


def _close(pipe: tuple[int, int]) -> None:
    for end in pipe:
        os.close(end)


@final
class Splice(Watched):
    """Moves the bytes of one body; see ``Splices.begin`` for the arguments.

    Attributes:
        blocked: whether the sink's peer does not read.
    """

    __slots__ = (
        *("_ended", "_held", "_in", "_left", "_moved", "_out", "_pipe", "_sink", "_source"),
        *("_splices", "blocked"),
    )

    def __init__(
        self,
        splices: Splices,
        pipe: tuple[int, int],
        source: asyncio.Transport,
        sink: asyncio.Transport,
        size: int,
        moved: Callable[[int], None],
        ended: Callable[[bytes], None],
    ) -> None:
        self._splices: Splices | None = splices  # None after the end
        self._pipe = pipe
        self._source = source
        self._sink = sink
        self._in: int = source.get_extra_info("socket").fileno()
        self._out: int = sink.get_extra_info("socket").fileno()
        self._left = size
        self._held = 0  # bytes in the pipe
        self.blocked = False
        self._moved = moved
        self._ended = ended
        self.fd = self._in
        asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin, unless the sink's peer does not accept the bytes before these."""
        splices = self._splices
        closing = self._source.is_closing() or self._sink.is_closing()
        if splices is None or closing or self._sink.get_write_buffer_size():
            self._end()
            return
        try:
            splices.sources.watch(self, READ)
        except OSError:  # no file is left
            self._end()

    def ready(self, events: int) -> None:
        splices = self._splices
        if splices is None:
            return
        # The number of a closed socket may be another one's by now.
        if not (self._source.is_closing() or self._sink.is_closing()):
            try:
                if not self._move(splices):
                    return
            except OSError as error:
                if error.errno in UNSUPPORTED:
                    splices.supported = False
                elif not self._held:  # the kernel reports the error of a socket only once
                    self._source.abort()
        self._end()

    def _move(self, splices: Splices) -> bool:
        """Move bytes; return whether the splice ends."""
        out_of, into = self._pipe
        if self.blocked:
            self._unblock(splices)
            if self._splices is None:
                return False
        try:
            for _ in range(_PER_TURN):
                if not self._held:
                    taken = os.splice(self.fd, into, min(self._left, PIPE), flags=FLAGS)
                    if not taken:
                        return True  # the source's peer has ended its side
                    self._held = taken
                    self._left -= taken
                    self._moved(taken)
                while self._held:
                    self._held -= os.splice(out_of, self._out, self._held, flags=FLAGS)
                if not self._left:
                    return True
        except BlockingIOError:
            if self._held:
                if splices.is_last():  # others may have faster readers
                    return True
                self._block(splices)
        return False

    def _block(self, splices: Splices) -> None:
        """Wait until the sink's peer reads."""
        splices.sources.ignore(self)
        self.blocked, self.fd = True, self._out
        splices.sinks.watch(self, WRITE)
        protocol = self._sink.get_protocol()
        protocol.pause_writing()
        splices.unread.hold(cast(UnreadHolder, protocol), self._held)

    def _unblock(self, splices: Splices) -> None:
        splices.sinks.ignore(self)
        self.blocked, self.fd = False, self._in
        splices.sources.watch(self, READ)
        self._sink.get_protocol().resume_writing()

    def _end(self) -> None:
        """End the splice, and hand over the bytes in the pipe."""
        if self._splices is None:
            return
        rest = b""
        with suppress(OSError):
            while self._held:
                piece = os.read(self._pipe[0], self._held)
                self._held -= len(piece)
                rest += piece
        self.stop()
        self._ended(rest)

    def stop(self) -> None:
        """End the splice, and discard the bytes in the pipe."""
        splices, self._splices = self._splices, None
        if splices is None:
            return
        (splices.sinks if self.blocked else splices.sources).ignore(self)
        splices.release(self._pipe, empty=not self._held)
        if self.blocked:
            self._sink.get_protocol().resume_writing()
