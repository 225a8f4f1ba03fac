"""A pod whose application is a grpcio server, as a process.

    python -m tests.grpc.pod IP PORT AGE STREAMS

AGE is the maximum age of a connection in milliseconds; 0 means no maximum. STREAMS is the maximum
number of calls at a time on one connection; 0 means no maximum.

This process also plays queue-proxy, as far as the activator needs it. One port responds to probes
in HTTP/1.1 and passes HTTP/2 connections to the application. On SIGTERM the process drains: it ends
when no new calls arrive any more. It writes events as JSON lines to standard output.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

PREFACE = b"PRI "
QUEUE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nqueue"
#: The drain ends after so many seconds without a new call, see ``activator.lab.pod``. After that
#: the application stops; calls in flight have ``GRACE`` seconds to complete.
QUIET_PERIOD = 0.2
GRACE = 10.0
PIECE = 256 << 10

#: Set once Echo has been called.
asked = asyncio.Event()


def tell(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


# -- the application -------------------------------------------------------------------------------


async def echo(request: bytes, context: Any) -> bytes:
    """Return the request. Return ``m-`` metadata in the headers and in the trailers."""
    asked.set()
    tell("asked", body=request[:64].decode("latin-1"), left=context.time_remaining())
    back = [(key, value) for key, value in context.invocation_metadata() if key[:2] == "m-"]
    await context.send_initial_metadata(back)
    context.set_trailing_metadata([(f"t-{key}", value) for key, value in back])
    return request


async def fail(request: bytes, context: Any) -> bytes:
    """End with the status whose number the request holds."""
    number = int(request)
    (code,) = [each for each in grpc.StatusCode if each.value[0] == number]
    await context.abort(code, f"100% näh {number}", (("grpc-status-details-bin", b"\0\xff" * 9),))
    return b""


async def count(request: bytes, context: Any) -> Any:
    """Stream messages; the request holds their number and their size in bytes."""
    messages, size = map(int, request.split())
    for _ in range(messages):
        yield bytes(size)


async def measure(requests: Any, context: Any) -> bytes:
    """Return the number of messages received, and of their bytes."""
    messages = size = 0
    async for each in requests:
        messages += 1
        size += len(each)
    return b"%d %d" % (messages, size)


async def chat(requests: Any, context: Any) -> Any:
    """Return each message as soon as it arrives."""
    async for each in requests:
        yield each


async def hang(request: bytes, context: Any) -> bytes:
    """Never respond; report when the call is cancelled."""
    tell("hangs", left=context.time_remaining())
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        tell("cancelled")
        raise
    return b""


METHODS = {
    "Echo": grpc.unary_unary_rpc_method_handler(echo),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Measure": grpc.stream_unary_rpc_method_handler(measure),
    "Chat": grpc.stream_stream_rpc_method_handler(chat),
    "Hang": grpc.unary_unary_rpc_method_handler(hang),
}


# -- queue-proxy -----------------------------------------------------------------------------------


async def take(front: socket.socket, inner: str) -> None:
    """Respond to probes; pass an HTTP/2 connection to the application."""
    loop = asyncio.get_running_loop()
    with front, suppress(OSError):
        begun = await loop.sock_recv(front, PIECE)
        if begun.startswith(PREFACE):
            tell("connection")
            with socket.socket(socket.AF_UNIX) as application:
                application.setblocking(False)
                await loop.sock_connect(application, inner)
                await loop.sock_sendall(application, begun)
                await asyncio.gather(pipe(front, application), pipe(application, front))
            return
        while begun:
            for _ in range(begun.count(b"\r\n\r\n")):
                await loop.sock_sendall(front, QUEUE)
            begun = await loop.sock_recv(front, PIECE)


async def pipe(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes from source to sink until the source ends.

    Each direction ends by itself: a sink that accepts no more bytes may still send some. Read the
    source to its end even then, so that a reset does not overtake the last responses.
    """
    loop = asyncio.get_running_loop()
    takes = True
    with suppress(OSError):
        while data := await loop.sock_recv(source, PIECE):
            if takes:
                try:
                    await loop.sock_sendall(sink, data)
                except OSError:
                    takes = False
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


async def serve(listening: socket.socket, inner: str) -> None:
    """Accept connections until cancelled."""
    loop = asyncio.get_running_loop()
    taken = set()
    while True:
        front, _ = await loop.sock_accept(listening)
        taken.add(task := loop.create_task(take(front, inner)))
        task.add_done_callback(taken.discard)


async def main(ip: str, port: int, age: int, streams: int) -> None:
    with tempfile.TemporaryDirectory(prefix="grpc-pod-") as folder:
        inner = str(Path(folder) / "application")
        options = [("grpc.max_receive_message_length", -1)]
        if age:
            options.append(("grpc.max_connection_age_ms", age))
        if streams:
            options.append(("grpc.max_concurrent_streams", streams))
        server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("t.T", METHODS)])
        server.add_insecure_port(f"unix:{inner}")
        await server.start()

        loop = asyncio.get_running_loop()
        listening = socket.create_server((ip, port), backlog=128)
        listening.setblocking(False)
        accepting = loop.create_task(serve(listening, inner))
        ended = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        tell("listening")
        await ended.wait()
        accepting.cancel()
        listening.close()
        with suppress(TimeoutError):
            while True:
                asked.clear()
                await asyncio.wait_for(asked.wait(), QUIET_PERIOD)
        await server.stop(GRACE)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
