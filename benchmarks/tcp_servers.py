"""Real servers behind a TCP Service start with their first client: databases and OpenSSH.

The benchmark has the part of the scaler and of kubelet: it starts a server as soon as the activator
reports that a connection waits. PostgreSQL is listed once it responds to a query, as with a
readiness probe; the others at once, so the activator's own probe finds the moment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import tcp
from benchmarks.nginx import need
from benchmarks.process import (
    CannotMeasure,
    free_port,
    listens,
    pause,
    resident_bytes,
    started,
    wait_until,
)
from benchmarks.report import Row, middle
from throttler.request_policies import ConnectionPolicies

_IP: Final = "127.0.0.32"
#: Most seconds that the activator may add to the start of a server.
_ADDED: Final = 0.020
#: Seconds until a client wakes a server that speaks first; see throttler.request_policies.
_WAKE_AFTER: Final = ConnectionPolicies().wake_after
#: Seconds between two attempts to reach a server that starts.
_STEP: Final = 0.001
#: Seconds between two changes of the PostgreSQL that serves.
_ROLL: Final = 5.0
#: Most growth of memory over all cycles, bytes.
_GROWTH: Final = 4 << 20
_PATIENCE: Final = 30.0


class Turns(NamedTuple):
    """How much to measure: starts of each server, clients, seconds of pgbench, and cycles."""

    starts: int
    clients: int
    seconds: int
    cycles: int


class _Server(NamedTuple):
    """A server that may start and end often.

    Attributes:
        command: starts it in the foreground.
        ask: the first bytes of a client; empty if the server speaks first.
        response: a pattern of the response, or of the greeting.
        accepts_early: whether it accepts connections before it can serve them.
    """

    name: str
    port: int
    command: Sequence[str]
    ask: bytes
    response: bytes
    accepts_early: bool = False


def measure(folder: Path, turns: Turns) -> Iterator[Row]:
    """Yield the rows.

    Raises:
        CannotMeasure: a program is missing, or a connection got no response.
    """
    with ExitStack() as stack:
        home = Path(stack.enter_context(_folder_of("postgres")))
        maria = Path(stack.enter_context(_folder_of("mysql")))
        servers = [_redis(), _ssh(folder), _postgres(home, "a"), _mariadb(maria)]
        for server in servers:
            yield _starts(folder, server, turns.starts)
        yield _order(folder, servers[0], turns.clients)
        yield _rolls(folder, (servers[2], _postgres(home, "b")), turns.seconds)
    yield _checks(folder)
    yield _cycles(folder, turns.cycles)


# -- the rows -------------------------------------------------------------------------------------


def _starts(folder: Path, server: _Server, count: int) -> Row:
    alone, behind = [], []
    with _Front(folder, server.name) as front:
        for _ in range(count):
            began = time.monotonic()
            with started(server.command, server.name):
                _until_response(_IP, server.port, server)
                alone.append(time.monotonic() - began)
            began = time.monotonic()
            with _client(front.port, server.ask) as client:
                front.wait_for_queue()
                with started(server.command, server.name):
                    if server.accepts_early:
                        _until_response(_IP, server.port, server)
                    front.put_pod(server.port)
                    if not _gets_response(client, server):
                        raise CannotMeasure(f"{server.name} gave no response")
                    behind.append(time.monotonic() - began)
                    client.close()
            front.remove_pod()
    own, total = middle(alone), middle(behind)
    added = _ADDED if server.ask else _ADDED + _WAKE_AFTER
    return Row(
        f"{server.name} asleep -> first response",
        f"median {1e3 * total:.0f} ms",
        f"alone {1e3 * own:.0f} ms",
        goal=f"<= {1e3 * added:.0f} ms more",
        met=total <= own + added,
        details={"seconds": behind, "secondsBeside": alone},
    )


def _order(folder: Path, server: _Server, count: int) -> Row:
    """Return the row for many clients of one start; Redis numbers its connections."""
    with _Front(folder, "order") as front, ExitStack() as stack:
        ask = b"CLIENT ID\r\n"
        clients = [stack.enter_context(_client(front.port, ask)) for _ in range(count)]
        front.wait_for_queue()
        with started(server.command, server.name):
            front.put_pod(server.port)
            found = [re.match(rb":(\d+)\r\n", each.recv(100)) for each in clients]
            for each in clients:
                each.close()
    numbers = [int(each[1]) for each in found if each]
    later = sum(one > other for one, other in pairwise(numbers))
    return Row(
        f"{count:,} clients of Redis during one start",
        f"{len(numbers):,} served, {later} before their turn",
        goal="all, in order",
        met=len(numbers) == count and not later,
    )


def _rolls(folder: Path, servers: Sequence[_Server], seconds: int) -> Row:
    """Return the row for pgbench with a new connection for each transaction."""
    pgbench = _program("pgbench")
    with _Front(folder, "rolled") as front, ExitStack() as last:
        rolls, serving = 0, last.enter_context(ExitStack())
        _serve(serving, servers[0], front)
        command = [pgbench, "-i", "-q", "-h", _IP, "-U", "postgres", "postgres"]
        for server in servers:
            with ExitStack() as short:
                if server is not servers[0]:
                    short.enter_context(started(server.command, "pg-init"))
                    _until_response(_IP, server.port, server)
                subprocess.run([*command, "-p", str(server.port)], check=True, capture_output=True)
        command = [pgbench, "-S", "-C", "-n", "-c", "4", "-T", str(seconds), "-h", "127.0.0.1"]
        command += ["-p", str(front.port), "-U", "postgres", "postgres"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        while process.poll() is None:
            pause(_ROLL)
            rolls += 1
            following = last.enter_context(ExitStack())
            _serve(following, servers[rolls % 2], front)
            pause(0.2)  # clients of the old one finish
            serving.close()
            serving = following
        told, errors = process.communicate()
    wrong = sum("error" in line for line in errors.splitlines())
    done = re.search(r"processed: (\d+)", told)
    return Row(
        f"pgbench for {seconds} s, {rolls} changes of the pod",
        f"{int(done[1]):,} transactions, {wrong} errors" if done else errors[-200:],
        goal="0 errors",
        met=bool(done) and not wrong and process.returncode == 0,
        details={"errors": errors[-2000:]},
    )


def _serve(stack: ExitStack, server: _Server, front: _Front) -> None:
    stack.enter_context(started(server.command, server.name))
    _until_response(_IP, server.port, server)
    front.put_pod(server.port)


def _checks(folder: Path) -> Row:
    """Return the row for HAProxy's health checks, and for ports that are only scanned."""
    haproxy = need("haproxy", "haproxy")
    with _Front(folder, "checked") as front:
        config = folder / "checks.cfg"
        config.write_text(
            f"defaults\n  mode tcp\n  timeout connect 1s\n  timeout client 1s\n"
            f"  timeout server 1s\nlisten one\n  bind 127.0.0.1:{free_port()}\n"
            f"  server pod 127.0.0.1:{front.port} check inter 50ms\n"
        )
        with started([haproxy, "-db", "-f", str(config)], "haproxy-checks"):
            for _ in range(60):
                with socket.create_connection(("127.0.0.1", front.port)):
                    pass
                pause(0.05)
        wakes = front.cold_starts()
    return Row(
        "health checks of HAProxy, and 60 scans, in 3 s",
        f"{wakes} cold starts",
        goal="0",
        met=not wakes,
    )


def _cycles(folder: Path, count: int) -> Row:
    """Return the row for many sleeps and starts of a small server."""
    resets, before = 0, 0
    with tcp.pod() as pod, _Front(folder, "cycles") as front:
        port = int(pod.rpartition(":")[2])
        for number in range(count):
            if number == count // 10:
                before = resident_bytes(front.pid)
            with _client(front.port, b"e") as client:
                front.wait_for_queue()
                front.put_pod(port, ip=pod.rpartition(":")[0])
                try:
                    if client.recv(1) != b"e":
                        resets += 1
                except OSError:
                    resets += 1
            front.remove_pod()
        growth = resident_bytes(front.pid) - before
    return Row(
        f"{count:,} starts of a small server",
        f"{resets} resets, memory {growth / 1024:+,.0f} KiB",
        goal=f"0 resets, <= {_GROWTH >> 20} MiB",
        met=not resets and growth <= _GROWTH,
    )


# -- the activator --------------------------------------------------------------------------------


class _Front:
    """An activator with one TCP Service, whose pod the benchmark lists and removes.

    Attributes:
        port: of the Service.
        pid: of the activator.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = f"{name}-front"
        self._stack = ExitStack()

    def __enter__(self) -> _Front:
        running = tcp.activator_in(self._folder, None, self._name)
        found = self._stack.enter_context(running)
        self.pid, self.port, self._activator = found.pid, found.port, found.activator
        self._manifests = self._folder / self._name
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def wait_for_queue(self) -> None:
        """Wait until a connection waits."""
        _often(lambda: self._activator.queued(tcp.NAME) > 0, "the activator")

    def put_pod(self, port: int, ip: str = _IP) -> None:
        """List this pod alone."""
        tcp.write_slice(self._manifests, f"{ip}:{port}")

    def remove_pod(self) -> None:
        """List no pod, and wait until the activator knows that."""
        tcp.write_slice(self._manifests, None)
        wait_until(lambda: not self._activator.pods(tcp.NAME), "no pod is known")

    def cold_starts(self) -> int:
        """Return how many starts connections have asked for."""
        status, body = self._activator.admin_get(f"/api/v1/revisions/default/{tcp.NAME}")
        if status != 200:
            raise CannotMeasure(f"status {status} of the API")
        return len(json.loads(body)["coldStarts"])


# -- the servers ----------------------------------------------------------------------------------


def _program(name: str) -> str:
    """Return the path of a program of PostgreSQL.

    Raises:
        CannotMeasure: it is not installed.
    """
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not found:
        raise CannotMeasure(f"{name} is missing: apt-get install postgresql")
    return str(found[-1])


def _as(user: str) -> list[str]:
    """Return the command that runs a database as its user, since none runs as root."""
    if os.geteuid():
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


@contextmanager
def _folder_of(user: str) -> Iterator[str]:
    folder = Path(f"/tmp/activator-{user}-{os.getpid()}")  # another user reads it
    folder.mkdir(mode=0o700)
    if not os.geteuid():
        shutil.chown(folder, user, user)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _postgres(home: Path, name: str) -> _Server:
    data, port = home / name, free_port(_IP)
    initdb = [*_as("postgres"), _program("initdb"), "-D", str(data), "-A", "trust", "-N"]
    subprocess.run([*initdb, "-U", "postgres"], check=True, capture_output=True, cwd="/")
    words = b"user\0postgres\0database\0postgres\0\0"
    ask = struct.pack(">ii", 8 + len(words), 196_608) + words + b"Q\0\0\0\rSELECT 1\0"
    options = ["-D", str(data), "-h", _IP, "-p", str(port), "-k", "", "-c", "fsync=off"]
    command = [*_as("postgres"), _program("postgres"), *options]
    return _Server("PostgreSQL", port, command, ask, rb"SELECT 1\0", accepts_early=True)


def _mariadb(home: Path) -> _Server:
    data, port = home / "data", free_port(_IP)
    make = [*_as("mysql"), need("mariadb-install-db", "mariadb-server"), f"--datadir={data}"]
    subprocess.run([*make, "--skip-test-db"], check=True, capture_output=True, cwd="/")
    options = [f"--datadir={data}", f"--bind-address={_IP}", f"--port={port}"]
    options += [f"--socket={home}/socket", f"--pid-file={home}/pid", "--skip-grant-tables"]
    command = [*_as("mysql"), need("mariadbd", "mariadb-server"), "--no-defaults", *options]
    return _Server("MariaDB", port, command, b"", rb"mysql_native_password")


def _redis() -> _Server:
    port = free_port(_IP)
    options = ["--bind", _IP, "--port", str(port), "--save", "", "--protected-mode", "no"]
    return _Server(
        *("Redis", port, [need("redis-server", "redis-server"), *options]),
        *(b"PING\r\n", rb"\+PONG"),
    )


def _ssh(folder: Path) -> _Server:
    key, port = folder / "ssh-key", free_port(_IP)
    generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(generate, check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    config = folder / "sshd.cfg"
    config.write_text(f"ListenAddress {_IP}\nPort {port}\nHostKey {key}\nPidFile none\n")
    command = [need("/usr/sbin/sshd", "openssh-server"), "-D", "-e", "-f", str(config)]
    return _Server("OpenSSH", port, command, b"SSH-2.0-benchmark\r\n", rb"SSH-2\.0-")


@contextmanager
def _client(port: int, data: bytes, ip: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.create_connection((ip, port)) as client:
        client.settimeout(_PATIENCE)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(data)
        yield client


def _until_response(ip: str, port: int, server: _Server) -> None:
    """Ask until the server responds."""

    def responds() -> bool:
        if not listens(ip, port):
            return False
        with _client(port, server.ask, ip) as client:
            return _gets_response(client, server)

    _often(responds, server.name)


def _often(condition: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > give_up:
            raise CannotMeasure(f"{what} does not respond")
        pause(_STEP)


def _gets_response(client: socket.socket, server: _Server) -> bool:
    """Return whether a client gets its response, not an error or the end."""
    found = b""
    try:
        while not re.search(server.response, found):
            data = client.recv(4096)
            if not data:
                return False
            found += data
    except ConnectionError:
        return False
    return True
