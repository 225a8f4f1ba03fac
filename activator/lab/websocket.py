"""A WebSocket echo of the sample application, to try tunnels through the activator.

It turns received bytes into bytes to send; the pod's connection moves them. The first WebSocket
imports the library, because most pods never need it and should start quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from activator.lab.http1 import PodRequest

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.server import ServerProtocol


def asks_for_websocket(request: PodRequest) -> bool:
    """Return whether the request is the opening handshake of an echo."""
    return request.path == "/ws" and request.header("upgrade").lower() == "websocket"


class Echo:
    """The pod's side of one WebSocket."""

    def __init__(self, request: PodRequest) -> None:
        """Take the opening handshake; the first `receive` returns the response to it."""
        from websockets.server import ServerProtocol

        self._protocol: ServerProtocol = ServerProtocol()
        lines = [f"{request.method} {request.target} {request.version}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        self._protocol.receive_data(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def receive(self, data: bytes) -> list[bytes]:
        """Take received bytes, and return pieces to send; an empty piece means: close."""
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
