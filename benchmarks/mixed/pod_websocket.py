"""The pod's side of a WebSocket: it sends back each message."""

from __future__ import annotations

from asyncio import StreamReader, StreamWriter

from websockets.frames import Frame, Opcode
from websockets.http11 import Request as Handshake
from websockets.server import ServerProtocol

from activator.lab.http1 import HttpRequest

READ = 1 << 16


async def echo(
    name: str, request: HttpRequest, data: bytes, reader: StreamReader, writer: StreamWriter
) -> None:
    """Accept a WebSocket, send back its messages, and return when it is closed.

    Arguments:
        name: the pod's name, for the field ``x-pod``.
        request: the opening handshake; data: the bytes behind it.
    """
    protocol = ServerProtocol()
    lines = [f"{request.method} {request.target} {request.version}"]
    lines += [f"{key}: {value}" for key, value in request.headers]
    data = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + data
    while data:
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Handshake):
                response = protocol.accept(event)
                response.headers["x-pod"] = name
                protocol.send_response(response)
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                protocol.send_text(event.data, event.fin)
        for piece in protocol.data_to_send():
            if not piece:
                return
            writer.write(piece)
        await writer.drain()
        data = await reader.read(READ)
