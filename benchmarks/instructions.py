"""Instructions per warm request, counted by callgrind: the same on an idle and on a busy machine.

The activator runs under ``valgrind --tool=callgrind``, which slows it down fifty times. A turn has
two parts with different numbers of requests. The difference of their instructions is divided by
the difference of the numbers. So the result leaves out connections and most periodic work.

The activator runs with PYTHONHASHSEED=0. Otherwise each start hashes its texts differently, and the
results of two runs differ by up to 1 k.
"""

from __future__ import annotations

import platform
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from activator.build import Build, running
from activator.lab.objects import PodAddress
from benchmarks import activator, nginx
from benchmarks.activator import Activator
from benchmarks.helpers import helper
from benchmarks.process import CannotMeasure
from benchmarks.proxying import CONTAINER_CONCURRENCY
from benchmarks.report import Row

#: Connections of a client, each with one request in flight, or four in HTTP/2.
CONNECTIONS, STREAMS = 8, 4
#: Instructions that a warm GET may take, by the build that runs.
GOAL = {Build.PURE: 150_000, Build.COMPILED: 75_000}[running()]
#: valgrind counts each byte that `rep movsb` copies as an instruction, so glibc must not use it.
_SAME_HASHES = "PYTHONHASHSEED=0"
_COPY_BY_VECTORS = "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=100000000"
_BODY = b"x" * 10_240
_END = b"\r\n\r\nhello\n"
_TOTAL = re.compile(r"^\s*Th\s*\d+\s+(\d[\d,]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of request.

    Attributes:
        request: the bytes of an HTTP/1 request; for HTTP/2 a key of `http2_requests.KINDS`.
        goal: the most instructions of a request; None for no goal.
    """

    what: str
    request: bytes | str
    goal: int | None = None


_HOST = b"Host: %b\r\n" % activator.HOST.encode()
#: Fields as an ingress sends them, in addition to Host.
_INGRESS = (
    b"user-agent: Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0.0.0\r\n"
    b"accept: */*\r\naccept-encoding: gzip, deflate, br\r\naccept-language: en\r\n"
    b"cookie: session=0123456789abcdef\r\n"
    b"x-forwarded-for: 10.1.2.3\r\nx-forwarded-proto: http\r\n"
    b"x-envoy-external-address: 10.1.2.3\r\n"
    b"x-request-id: 4f1c2d3e-5a6b-7c8d-9e0f-112233445566\r\n"
    b"traceparent: 00-0123456789abcdef0123456789abcdef-0123456789abcdef-01\r\n"
    b"k-original-host: hello.example.com\r\n"
    b"knative-serving-namespace: default\r\nknative-serving-revision: %b\r\n"
    % activator.NAME.encode()
)
_OF_TENANT = b"GET / HTTP/1.1\r\n%bX-Tenant: a\r\n\r\n" % _HOST
#: The cookie of a sticky client; `_send_http1` replaces the value by that of a response.
_COOKIE = re.compile(rb"activator-pod=(\w+)")
_WITH_COOKIE = b"GET / HTTP/1.1\r\n%bCookie: activator-pod=%b\r\n\r\n" % (_HOST, b"0" * 24)
HTTP1 = (
    Load("GET", b"GET / HTTP/1.1\r\n%b\r\n" % _HOST, GOAL),
    Load("GET of a tenant", _OF_TENANT),
    Load("GET with a cookie", _WITH_COOKIE),
    Load("GET, 14 fields as from an ingress", b"GET / HTTP/1.1\r\n%b%b\r\n" % (_HOST, _INGRESS)),
    Load(
        "POST of 10 KB",
        b"POST / HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (_HOST, len(_BODY), _BODY),
    ),
)
#: The queue has classes and flows; no request is queued.
ORDERED = (Load("GET of a tenant, in a queue with classes and flows", _OF_TENANT),)
BY_HEADER = (Load("GET of a tenant, sticky by the header", _OF_TENANT),)
BY_COOKIE = (Load("GET with a cookie, sticky by the cookie", _WITH_COOKIE),)
#: Of 8 requests that arrive together, 6 wait for one of two slots.
QUEUED = (Load("GET, three of four are queued", HTTP1[0].request),)
LIMITED = (Load("GET, by first-available and without a limit", HTTP1[0].request),)
ADAPTED = (Load("GET, by first-available and with an adaptive limit", HTTP1[0].request),)
HTTP2 = (
    Load("h2c GET, the same again and again", "repeating"),
    Load("h2c GET, as through an ingress", "ingress"),
    Load("gRPC unary, straight from its client", "unary"),
)


@dataclass(frozen=True, slots=True)
class Group:
    """The requests to one activator.

    Attributes:
        name: of its folder.
        annotations: of the revision, without the prefix; concurrency: its containerConcurrency.
        h2c: whether its pods accept HTTP/2.
    """

    name: str
    loads: Sequence[Load]
    annotations: Mapping[str, str] = field(default_factory=dict)
    concurrency: int = CONTAINER_CONCURRENCY
    h2c: bool = False


_FIRST = {"load-balancing": "first-available"}
GROUPS = (
    Group("http1", HTTP1),
    Group("ordered", ORDERED, {"priority-trust": "true", "fair-by": "header:X-Tenant"}),
    Group("by-header", BY_HEADER, {"sticky": "header:X-Tenant"}),
    Group("by-cookie", BY_COOKIE, {"sticky": "cookie"}),
    Group("queued", QUEUED, concurrency=1),
    Group("limited", LIMITED, _FIRST, 0),
    Group("adapted", ADAPTED, _FIRST | {"adaptive-concurrency": "on"}, 0),
    Group("http2", HTTP2, h2c=True),
)


def measure(folder: Path, few: int, many: int) -> Iterator[Row]:
    """Yield one row for each kind of request.

    Arguments:
        few, many: requests on each connection, in the two parts of a turn.

    Raises:
        CannotMeasure: a program is missing, or requests failed.
    """
    valgrind = nginx.need("valgrind", "valgrind")
    control = nginx.need("callgrind_control", "valgrind")
    for group in GROUPS:
        own = folder / group.name
        own.mkdir()
        send = _send_http2 if group.h2c else _send_http1
        with _pods(own, http2=group.h2c), _counted(valgrind, own, group) as ours:
            for load in group.loads:
                yield row(load, _instructions(control, ours, load, (few, many), send), few, many)


def row(load: Load, counts: Sequence[int], few: int, many: int) -> Row:
    """Return the row of one kind of request; ``counts`` are the instructions of both parts."""
    each = (counts[1] - counts[0]) / (CONNECTIONS * (many - few))
    return Row(
        f"instructions: {load.what}",
        f"{each / 1000:.1f} k",
        f"{running().value} build, Python {platform.python_version()}, {sys.executable}",
        None,
        "" if load.goal is None else f"<= {load.goal // 1000} k",
        None if load.goal is None else each <= load.goal,
        {"counts": list(counts), "requests": [CONNECTIONS * few, CONNECTIONS * many]},
    )


_Send = Callable[[int, Load, int], None]


def _instructions(
    control: str, ours: Activator, load: Load, counts: Sequence[int], send: _Send
) -> list[int]:
    """Return the instructions of each part of a turn."""
    send(ours.port, load, counts[0])  # warms connections, pools and memos; not counted
    found = []
    for count in counts:
        before = total(control, ours.pid)
        send(ours.port, load, count)
        found.append(total(control, ours.pid) - before)
    return found


def total(control: str, pid: int) -> int:
    """Return the instructions of all threads so far."""
    command = [control, "-e", str(pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    threads = _TOTAL.findall(told)
    if not threads:
        raise CannotMeasure(f"callgrind_control printed: {' '.join(told.split())}")
    return sum(int(each.replace(",", "")) for each in threads)


def _send_http1(port: int, load: Load, count: int) -> None:
    """Send so many requests on each connection, each after the response to the one before."""
    assert isinstance(load.request, bytes)
    request = load.request
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    try:
        clients[0].sendall(request)
        if (cookie := _COOKIE.search(read_response(clients[0]))) is not None:
            request = _COOKIE.sub(cookie[0], request)
        for _ in range(count):
            for client in clients:
                client.sendall(request)
            for client in clients:
                read_response(client)
    finally:
        for client in clients:
            client.close()


def read_response(client: socket.socket) -> bytes:
    """Read and return the response of a pod.

    Raises:
        CannotMeasure: the request failed.
    """
    data = b""
    while not data.endswith(_END):
        more = client.recv(65536)
        if not more:
            raise CannotMeasure(f"a connection closed after {data[:200]!r}")
        data += more
    if not data.startswith(b"HTTP/1.1 200"):
        raise CannotMeasure(f"a request failed: {data[:200]!r}")
    return data


def _send_http2(port: int, load: Load, count: int) -> None:
    """Send so many requests on each connection, four of them in flight."""
    assert isinstance(load.request, str)
    counts = map(str, (CONNECTIONS, STREAMS, count))
    where = f"127.0.0.1:{port}"
    with helper("http2_client", where, activator.HOST, load.request, *counts) as client:
        client.receive()
        client.send("")
        answers = client.receive()["answers"]
    if answers != CONNECTIONS * count:
        raise CannotMeasure(f"{CONNECTIONS * count - answers} requests failed")


@contextmanager
def _pods(folder: Path, *, http2: bool) -> Iterator[None]:
    if not http2:
        with nginx.pods(folder):
            yield
        return
    places = [f"{ip}:{nginx.POD_PORT}" for ip in nginx.POD_IPS]
    with helper("http2_pod", "0", *places) as pods:
        pods.receive()
        yield


@contextmanager
def _counted(valgrind: str, folder: Path, group: Group) -> Iterator[Activator]:
    """Run the activator under callgrind."""
    manifests = folder / "manifests"
    pods = [
        PodAddress(ip, nginx.POD_PORT, uid=f"uid-{ip}", name=f"pod-{ip}", ready=True)
        for ip in nginx.POD_IPS
    ]
    activator.write_revision(
        manifests,
        pods,
        container_concurrency=group.concurrency,
        h2c=group.h2c,
        annotations={f"activator.dev/{name}": each for name, each in group.annotations.items()},
    )
    with activator.running(manifests, before=callgrind(valgrind, folder)) as found:
        yield found


def callgrind(valgrind: str, folder: Path) -> Sequence[str]:
    """Return the start of a command that counts instructions; ``folder`` gets a file."""
    out = f"--callgrind-out-file={folder}/callgrind.out"
    return "env", _SAME_HASHES, _COPY_BY_VECTORS, valgrind, "--quiet", "--tool=callgrind", out
