from __future__ import annotations

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from activator.lab.application import Echo, asks_for_websocket
from activator.lab.http1 import RequestParser


def opened() -> tuple[ClientProtocol, Echo]:
    client = ClientProtocol(parse_uri("ws://pod/ws"))
    client.send_request(client.connect())
    (request,) = RequestParser().feed(b"".join(client.data_to_send()))
    assert asks_for_websocket(request)
    echo = Echo(request)
    for data in echo.receive(b""):
        client.receive_data(data)
    client.events_received()
    return client, echo


def test_messages_come_back_with_their_kind_and_their_fragments():
    client, echo = opened()
    client.send_text(b"te", fin=False)
    client.send_continuation(b"xt", fin=True)
    client.send_binary(b"\x00\x01")
    for piece in client.data_to_send():
        for data in echo.receive(piece):
            client.receive_data(data)
    frames = [event for event in client.events_received() if isinstance(event, Frame)]
    assert [(frame.opcode, bytes(frame.data), frame.fin) for frame in frames] == [
        (Opcode.TEXT, b"te", False),
        (Opcode.CONT, b"xt", True),
        (Opcode.BINARY, b"\x00\x01", True),
    ]


def test_close_gets_a_close_and_then_the_connection_closes():
    client, echo = opened()
    client.send_close(1000)
    sent = [data for piece in client.data_to_send() for data in echo.receive(piece)]
    assert sent[-1] == b""
    client.receive_data(b"".join(sent))
    client.receive_eof()
    assert client.close_code == 1000


def test_other_paths_and_protocols_are_plain_requests():
    (request,) = RequestParser().feed(b"GET /ws HTTP/1.1\r\nUpgrade: h2c\r\n\r\n")
    assert not asks_for_websocket(request)
