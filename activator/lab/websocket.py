"""Sends back each WebSocket message, for trying the tunnel through the activator.

Decides whether a request asks for a WebSocket, and what bytes answer what bytes. Must not know
sockets or tasks; the pod's connection moves the bytes. The library is imported with the first
WebSocket, because most pods never see one and should start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from activator.lab.http1 import Request

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.server import ServerProtocol


def asks_for_websocket(request: Request) -> bool:
    """Whether the request is a WebSocket's opening handshake for the echo."""
    return request.path == "/ws" and request.header("upgrade").lower() == "websocket"


class Echo:
    """The pod's side of one WebSocket."""

    def __init__(self, request: Request) -> None:
        """Takes the opening handshake; its answer comes with the first `receive`."""
        from websockets.server import ServerProtocol

        self._protocol: ServerProtocol = ServerProtocol()
        lines = [f"{request.method} {request.target} {request.version}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        self._protocol.receive_data(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def receive(self, data: bytes) -> list[bytes]:
        """Takes what arrived and returns what must be sent; an empty piece means: close."""
        from websockets.frames import Frame
        from websockets.http11 import Request as Handshake

        if data:
            self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if isinstance(event, Handshake):
                self._protocol.send_response(self._protocol.accept(event))
            elif isinstance(event, Frame):
                self._send_back(event)
        return self._protocol.data_to_send()

    def _send_back(self, frame: Frame) -> None:
        from websockets.frames import Opcode

        if frame.opcode is Opcode.TEXT:
            self._protocol.send_text(frame.data, frame.fin)
        elif frame.opcode is Opcode.BINARY:
            self._protocol.send_binary(frame.data, frame.fin)
        elif frame.opcode is Opcode.CONT:
            self._protocol.send_continuation(frame.data, frame.fin)
