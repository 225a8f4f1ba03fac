"""CPU and memory of connections of a TCP Service, compared with HAProxy in TCP mode."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from activator.lab.objects import write_object
from benchmarks import activator, nginx
from benchmarks.process import (
    CannotMeasure,
    cpu_seconds,
    free_port,
    listens,
    pause,
    raise_file_limit,
    resident_bytes,
    started,
    wait_until,
)
from benchmarks.report import Row, middle

_POD_IP: Final = "127.0.0.31"
NAME: Final = "tcp"
_GB: Final = 1 << 30
_PIECE: Final = bytes(1 << 20)
_KIB: Final = 1 << 10
#: The most CPU of a gigabyte, and of a short connection, compared with HAProxy.
_GOAL: Final = 1.2
_SHORT_GOAL: Final = 2.0
_IDLE_GOAL, _WAITING_GOAL = 6 * _KIB, 3 * _KIB
_HAPROXY: Final = """\
global
  nbthread 1
  maxconn 5000
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  {splice}
frontend clients
  bind 127.0.0.1:{port}
  default_backend pods
backend pods
  server pod {pod}
"""


class Turns(NamedTuple):
    """How much to measure: rounds, short connections, gigabytes, and open connections."""

    rounds: int
    short: int
    gigabytes: float
    open: int


class _Proxy(NamedTuple):
    """A running proxy: its process, and its port for clients."""

    pid: int
    port: int


class Front(NamedTuple):
    """An activator with one TCP Service: its process, and the port of the Service."""

    pid: int
    port: int
    activator: activator.Activator


def measure(folder: Path, turns: Turns) -> Iterator[Row]:
    """Yield the rows.

    Raises:
        CannotMeasure: a program is missing, or a process did not start.
    """
    raise_file_limit()
    with ExitStack() as stack:
        address = stack.enter_context(pod())
        own = stack.enter_context(activator_in(folder, address, "awake"))
        copy = stack.enter_context(_haproxy(folder, address, splice=False))
        spliced = stack.enter_context(_haproxy(folder, address, splice=True))
        yield from _cpu(turns, own, copy, spliced)
    with pod() as address, activator_in(folder, address, "idle") as own:
        yield _memory("an idle connection of TCP: memory", own, turns, _IDLE_GOAL)
    with activator_in(folder, None, "asleep") as own:
        yield _memory("a waiting connection of TCP: memory", own, turns, _WAITING_GOAL)


def _cpu(turns: Turns, own: Front, copy: _Proxy, spliced: _Proxy) -> Iterator[Row]:
    short = {each: list[float]() for each in (own, spliced)}
    bulk = {each: list[float]() for each in (own, copy, spliced)}
    for _ in range(turns.rounds):
        for each, found in short.items():
            found.append(_used(each, _connect_often, turns.short) / turns.short)
        for each, found in bulk.items():
            found.append(_used(each, _download, int(turns.gigabytes * _GB)) / turns.gigabytes)
    ours, other = middle(short[own]), middle(short[spliced])
    yield Row(
        "a connection of TCP with one round trip: CPU",
        f"{1e6 * ours:.0f} µs",
        f"HAProxy {1e6 * other:.0f} µs",
        ours / other,
        f"<= {_SHORT_GOAL} ×",
        ours <= _SHORT_GOAL * other,
        {"seconds": short[own], "secondsBeside": short[spliced]},
    )
    for name, beside in (("without splice", copy), ("with splice", spliced)):
        ours, other = middle(bulk[own]), middle(bulk[beside])
        yield Row(
            f"a gigabyte over TCP, HAProxy {name}: CPU",
            f"{ours:.2f} s",
            f"HAProxy {other:.2f} s",
            ours / other,
            f"<= {_GOAL} ×",
            ours <= _GOAL * other,
            {"seconds": bulk[own], "secondsBeside": bulk[beside]},
        )


def _used(proxy: _Proxy | Front, load: Callable[[int, int], None], amount: int) -> float:
    """Return the CPU seconds that a proxy uses for a load."""
    load(proxy.port, max(1, amount // 10))
    before = cpu_seconds(proxy.pid)
    load(proxy.port, amount)
    return cpu_seconds(proxy.pid) - before


def _memory(what: str, proxy: Front, turns: Turns, goal: int) -> Row:
    """Return the row for the memory of an open connection, which has sent one byte."""
    with _open(proxy.port, 50):
        pause(1.0)  # for memory that is allocated only once
    pause(1.0)
    before = resident_bytes(proxy.pid)
    with _open(proxy.port, turns.open):
        pause(2.0)
        each = (resident_bytes(proxy.pid) - before) / turns.open
    return Row(
        what,
        f"{each / _KIB:.1f} KiB",
        goal=f"<= {goal // _KIB} KiB",
        met=each <= goal,
        details={"bytes": each, "connections": turns.open},
    )


# -- the clients ----------------------------------------------------------------------------------


def _connect_often(port: int, count: int) -> None:
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.sendall(b"e")
            if client.recv(1) != b"e":
                raise CannotMeasure("a connection ended without its response")


def _download(port: int, size: int) -> None:
    buffer = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"b" + size.to_bytes(8, "big"))
        while size > 0:
            count = client.recv_into(buffer)
            if not count:
                raise CannotMeasure("a download ended early")
            size -= count


@contextmanager
def _open(port: int, count: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(b"h")
        yield


# -- the pod and the proxies ----------------------------------------------------------------------


@contextmanager
def pod() -> Iterator[str]:
    """Provide a pod as a thread: the first byte of a client says what it gets."""
    with socket.create_server((_POD_IP, 0), backlog=1024) as server:
        held: list[socket.socket] = []
        thread = threading.Thread(target=_serve, args=(server, held), daemon=True)
        thread.start()
        yield f"{_POD_IP}:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in held:
            each.close()


def _serve(server: socket.socket, held: list[socket.socket]) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(ConnectionError):
                _respond(client, held)


def _respond(client: socket.socket, held: list[socket.socket]) -> None:
    kind = client.recv(1)
    if kind == b"h":
        held.append(client)
        return
    with client:
        if kind == b"b":
            left = int.from_bytes(client.recv(8, socket.MSG_WAITALL), "big")
            while left > 0:
                client.sendall(_PIECE[:left])
                left -= len(_PIECE)
        elif kind:
            client.sendall(kind)
        client.recv(1)


@contextmanager
def activator_in(folder: Path, address: str | None, name: str) -> Iterator[Front]:
    """Provide an activator with one TCP Service.

    Arguments:
        address: of the ready pod of the Service; None for a Service that sleeps.
        name: of the folder for its objects.
    """
    manifests, port = folder / name, free_port()
    manifests.mkdir()
    write_object(manifests, _service(port))
    if address is not None:
        write_slice(manifests, address)
    with activator.running(manifests, log=NAME) as found:
        wait_until(lambda: listens("127.0.0.1", port), "the activator listens")
        yield Front(found.pid, port, found)


def _service(port: int) -> dict[str, object]:
    annotations = {"enabled": "true", "protocol": "tcp", "listen-port": str(port)}
    named = {f"activator.dev/{name}": value for name, value in annotations.items()}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": "default", "annotations": named},
        "spec": {"selector": {"app": NAME}, "ports": [{"name": NAME, "port": 80}]},
    }


def write_slice(manifests: Path, address: str | None) -> None:
    """Write the EndpointSlice of the Service, with one ready pod or none."""
    ip, _, port = (address or "").partition(":")
    ready = {"addresses": [ip], "conditions": {"ready": True}}
    labels = {"kubernetes.io/service-name": NAME}
    found = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": f"{NAME}-1", "namespace": "default", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": NAME, "port": int(port or 1)}],
        "endpoints": [ready] if address else [],
    }
    write_object(manifests, found)


@contextmanager
def _haproxy(folder: Path, pod: str, *, splice: bool) -> Iterator[_Proxy]:
    program, port = nginx.need("haproxy", "haproxy"), free_port()
    config = folder / f"haproxy-{splice}.cfg"
    option = "option splice-request\n  option splice-response" if splice else ""
    config.write_text(_HAPROXY.format(port=port, pod=pod, splice=option))
    with started([program, "-db", "-f", str(config)], f"haproxy-{splice}") as process:
        wait_until(lambda: listens("127.0.0.1", port), "HAProxy listens")
        yield _Proxy(process.pid, port)
