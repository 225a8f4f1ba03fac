"""Start Python programs of the project by a fork of a process that has loaded their modules.

A start of ``python -m activator`` loads modules for half a second of CPU time. A fork takes a few
milliseconds. The new process has the arguments, environment, directory, files and session that a
real start gives it, but the hashes of the server. The fixture ``real_start`` prevents forks.

Standard input of ``python -m tests.fork_server`` is a socket; each message asks for one process.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import os
import resource
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from asyncio.streams import FlowControlMixin
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from subprocess import Popen
from typing import IO, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: The programs that it starts. It loads a program of benchmarks at its first start.
PROGRAMS: Final = ("activator", "activator.lab.pod", "activator.lab.end_with_stdin")
BENCHMARKS: Final = tuple(
    f"benchmarks.{name}" for name in ("arrivals", "crowd", "mixed.pod", "slow_pod")
)
#: The modules that they load, also at a later time.
_LOADED: Final = (
    *("activator.app", "activator.cli.main", "activator.lab.demo", "activator.lab.pod"),
    *("activator.autoscaler.link", "activator.scale.app"),
    *("activator.discovery.kubernetes", "activator.discovery.manifests"),
    *("aiohttp", "asyncinotify", "encodings.idna", "uvicorn.lifespan.off"),
    *("anyio._backends._asyncio", "anyio.streams.memory", "anyio.streams.tls"),
)
#: Variables of the environment that the server gets; each process gets its own ones.
_ENVIRONMENT: Final = ("PATH", "HOME", "PYTHONPATH")
_LARGEST: Final = 1 << 20
_NUMBER: Final = struct.Struct("i")

File = int | IO[Any] | None
#: Linux alone has handles of processes.
_CAN_FORK: Final = hasattr(os, "pidfd_open")
REAL_START: Final = asyncio.create_subprocess_exec
REAL_POPEN: Final = subprocess.Popen


class Forked:
    """A process of the fork server, with the interface of ``asyncio.subprocess.Process``."""

    def __init__(self, channel: socket.socket) -> None:
        data, (self._handle,), _, _ = socket.recv_fds(channel, _NUMBER.size, 1)
        channel.setblocking(False)
        (self.pid,) = _NUMBER.unpack(data)
        self.returncode: int | None = None
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._loop.add_reader(channel, self._on_end)

    async def open(self, to: int | None, output: int | None, error: int | None) -> None:
        """Open this process' ends of the pipes; None for a file that is no pipe."""
        self.stdin = None if to is None else await _writer(to)
        self.stdout = None if output is None else await _reader(output)
        self.stderr = None if error is None else await _reader(error)

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError
        signal.pidfd_send_signal(self._handle, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read both outputs to their ends; return them when the process has ended."""
        stdout, stderr = await asyncio.gather(_all_of(self.stdout), _all_of(self.stderr))
        await self.wait()
        return stdout, stderr

    def _on_end(self) -> None:
        data = self._channel.recv(_NUMBER.size)
        self._loop.remove_reader(self._channel)
        self._channel.close()
        os.close(self._handle)
        assert data, "the fork server has ended"
        (self.returncode,) = _NUMBER.unpack(data)
        if self.stdin is not None:
            self.stdin.transport.abort()
        self._ended.set()


async def _all_of(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read()


class _Output(asyncio.StreamReaderProtocol):
    """Reads a pipe, and closes it at its end."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def start(program: str, *arguments: str, **options: Any) -> Forked | Process:
    """Start a program as ``asyncio.create_subprocess_exec`` does; fork if it is one of PROGRAMS.

    Arguments:
        options: stdin, stdout, stderr, cwd, env and start_new_session.

    Raises:
        CancelledError: the process has ended, and its pipes are closed.
    """
    if not _can_fork(program, *arguments):
        return await REAL_START(program, *arguments, **options)
    channel, (to, *back) = _fork(*arguments[1:], **options)
    forked = Forked(channel)
    opening = asyncio.ensure_future(forked.open(to, *back))
    try:
        await asyncio.shield(opening)  # cancelled, it would leave open files as garbage
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            forked.kill()
        await opening
        await forked.wait()
        raise
    return forked


def popen(command: Sequence[str], **options: Any) -> ForkedPopen | Popen[Any]:
    """Start a program as ``subprocess.Popen`` does; fork if it is one of PROGRAMS.

    Arguments:
        options: stdin, stdout, stderr, cwd, env and start_new_session; a fork has text as well.
    """
    if not options.get("text") or not _can_fork(*command):
        return REAL_POPEN(command, **options)
    del options["text"]
    return ForkedPopen(*_fork(*command[2:], **options))


class ForkedPopen:
    """A process of the fork server, with the interface of ``subprocess.Popen`` for text."""

    def __init__(self, channel: socket.socket, ends: Sequence[int | None]) -> None:
        data, (self._handle,), _, _ = socket.recv_fds(channel, _NUMBER.size, 1)
        (self.pid,) = _NUMBER.unpack(data)
        self.returncode: int | None = None
        self._channel = channel
        self._waiting = threading.Lock()
        to, *back = ends
        self.stdin = None if to is None else os.fdopen(to, "w")
        self.stdout, self.stderr = [None if one is None else os.fdopen(one) for one in back]

    def send_signal(self, number: int) -> None:
        with self._waiting:
            if self.returncode is None:
                with suppress(ProcessLookupError):  # it has just ended, as in Popen
                    signal.pidfd_send_signal(self._handle, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        try:
            return self.wait(0.0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            waiting = select.poll()  # other than select.select, it takes any number of a file
            waiting.register(self._channel, select.POLLIN)
            if not waiting.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            with self._waiting:
                data = self._channel.recv(_NUMBER.size)
                self._channel.close()
                os.close(self._handle)
                assert data, "the fork server has ended"
                (self.returncode,) = _NUMBER.unpack(data)
        return int(self.returncode)


def _can_fork(program: str, option: str = "", name: str = "", *_: str) -> bool:
    known = name in PROGRAMS or name in BENCHMARKS
    return _CAN_FORK and (program, option) == (sys.executable, "-m") and known


def _fork(
    *command: str,
    stdin: File = None,
    stdout: File = None,
    stderr: File = None,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
) -> tuple[socket.socket, list[int | None]]:
    """Return the channel of a new process, and this process' ends of its pipes."""
    request = {
        "command": command,
        "cwd": os.getcwd() if cwd is None else str(cwd),
        "env": dict(os.environ if env is None else env),
        "session": start_new_session,
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    }
    ours, theirs = socket.socketpair()
    files = list(enumerate((stdin, stdout, stderr)))
    ends = [_end(number, file) for number, file in files]
    passed = [file for file, _ in ends]
    try:
        message = json.dumps(request).encode()
        socket.send_fds(server(), [message], [theirs.fileno(), *passed])
    finally:
        theirs.close()
        for one in passed:
            os.close(one)
    return ours, [kept for _, kept in ends]


def _end(number: int, file: File) -> tuple[int, int | None]:
    """Return the file that the process gets, and this process' end if it is a pipe."""
    if file == PIPE:
        read, write = os.pipe()
        return (write, read) if number else (read, write)
    if file == DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if file is None:
        return os.dup(number), None
    return os.dup(file if isinstance(file, int) else file.fileno()), None


async def _reader(file: int) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    await loop.connect_read_pipe(lambda: _Output(reader, loop=loop), os.fdopen(file, "rb", 0))
    return reader


async def _writer(file: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: FlowControlMixin(loop=loop), os.fdopen(file, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


@cache
def server() -> socket.socket:
    """Start the server of this process; it ends when this process ends.

    It loads modules for a second. The first process starts when it has loaded them.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = REAL_POPEN(
            [sys.executable, "-m", "tests.fork_server"],
            cwd=ROOT,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            stdin=theirs.fileno(),
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# The server.


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Return its request in the new process, and None at the end."""
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                selector.unregister(key.fileobj)
                _report(key.fd, *key.data)
                continue
            message, files, _, _ = socket.recv_fds(requests, _LARGEST, 4)
            if not message:
                return None
            channel, *standard = files
            request: dict[str, Any] = json.loads(message)
            _load_program(request["command"][0])
            pid = os.fork()
            if pid == 0:
                selector.close()
                requests.close()
                _become(request, standard)
                return request
            for file in standard:
                os.close(file)
            handle = os.pidfd_open(pid)
            with socket.socket(fileno=os.dup(channel)) as reply:
                socket.send_fds(reply, [_NUMBER.pack(pid)], [handle])
            selector.register(handle, selectors.EVENT_READ, (pid, channel))


def _report(handle: int, pid: int, channel: int) -> None:
    _, status = os.waitpid(pid, 0)
    os.close(handle)
    with socket.socket(fileno=channel) as reply:
        try:
            reply.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
        except BrokenPipeError:
            pass  # the parent no longer waits


def _become(request: dict[str, Any], standard: list[int]) -> None:
    """Turn this process into the one that a real start would have made."""
    for number, file in enumerate(standard):
        os.dup2(file, number)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, tuple(request["files"]))
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = list(request["command"])


def _reset_signals() -> None:
    """Handle signals as after a start by uvloop, whatever ``nohup`` or ``&`` made ignored."""
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def _load_program(name: str) -> None:
    """Load the modules of a program of benchmarks; it has loaded the other modules."""
    if name in BENCHMARKS:
        import_module(name)
        del sys.modules[name]  # it runs as __main__
        gc.collect()
        gc.freeze()


def main() -> None:
    _reset_signals()
    for module in _LOADED:
        import_module(module)
    for program in PROGRAMS[1:]:
        sys.modules.pop(program, None)  # it runs as __main__
    gc.collect()
    gc.freeze()  # a process would copy all these objects in its first garbage collection
    with socket.socket(fileno=os.dup(0)) as requests:
        request = _serve(requests)
    if request is not None:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
