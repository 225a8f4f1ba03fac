"""A pod whose application is a grpcio server, as a process.

    python -m tests.grpc.pod IP PORT AGE STREAMS

AGE is the milliseconds after which its connections are to be replaced, 0 for never; STREAMS are
the calls that it takes at a time on each, 0 for any number. queue-proxy's
part is what the activator needs of it: one port, which answers probes in HTTP/1.1 and gives HTTP/2
to the application, and an end only when nobody asks any more. Facts are told as JSON lines on
standard output.
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
#: Seconds without a new call that end the draining, see ``activator.lab.pod``; then the
#: application is told to end, and has so long to answer what runs.
QUIET_PERIOD = 0.2
GRACE = 10.0
PIECE = 256 << 10

#: Echo has been called.
asked = asyncio.Event()


def tell(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


# -- the application -------------------------------------------------------------------------------


async def echo(request: bytes, context: Any) -> bytes:
    """Return the request; metadata that begins with ``m-`` comes back in both ends."""
    asked.set()
    tell("asked", body=request[:64].decode("latin-1"), left=context.time_remaining())
    back = [(key, value) for key, value in context.invocation_metadata() if key[:2] == "m-"]
    await context.send_initial_metadata(back)
    context.set_trailing_metadata([(f"t-{key}", value) for key, value in back])
    return request


async def fail(request: bytes, context: Any) -> bytes:
    """End with the status whose number is asked for."""
    number = int(request)
    (code,) = [each for each in grpc.StatusCode if each.value[0] == number]
    await context.abort(code, f"100% näh {number}", (("grpc-status-details-bin", b"\0\xff" * 9),))
    return b""


async def count(request: bytes, context: Any) -> Any:
    """Stream so many messages of so many bytes."""
    messages, size = map(int, request.split())
    for _ in range(messages):
        yield bytes(size)


async def measure(requests: Any, context: Any) -> bytes:
    """Say how many messages came, and how many bytes."""
    messages = size = 0
    async for each in requests:
        messages += 1
        size += len(each)
    return b"%d %d" % (messages, size)


async def chat(requests: Any, context: Any) -> Any:
    """Return each message as it comes."""
    async for each in requests:
        yield each


async def hang(request: bytes, context: Any) -> bytes:
    """Answer never, and tell of being cancelled."""
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
    """Answer probes; pass a connection of HTTP/2 on."""
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
    """Pass bytes on until they end. A sink that takes no more may have more to say: each direction
    ends by itself, and what is closed at the end has been read to its end, lest a reset overtake
    the last answers."""
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
    """Take connections until cancelled."""
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
