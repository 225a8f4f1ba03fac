"""The sample application."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from activator.lab.application import Application, Echo, PodCounters, Switches, asks_for_websocket
from activator.lab.http1 import HttpRequest, HttpResponse, RequestParser


def ask(target: str, body: bytes = b"", **headers: str):
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    application = Application("pod-1", Switches(), PodCounters())
    return application.respond(HttpRequest("GET", target, "HTTP/1.1", named, body))


def test_greeting_names_the_pod_and_the_way():
    direct = ask("/", Host="127.0.0.1").body
    assert direct == b"Hello from pod-1, reached directly for 127.0.0.1\n"
    through = ask("/", Host="x", K_Original_Host="app.example", K_Proxy_Request="activator").body
    assert through == b"Hello from pod-1, reached through the activator for app.example\n"
    proxied = ask("/", Host="app.example", X_Forwarded_For="127.0.0.1").body
    assert proxied == b"Hello from pod-1, reached through a proxy for app.example\n"


def test_path_says_what_to_do():
    assert ask("/sleep?ms=1500").delay == 1.5
    assert len(ask("/bytes?n=7").body) == 7
    assert ask("/status?code=418").status == 418
    assert ask("/status?code=204").body == b""
    stream = ask("/stream?n=2&ms=20")
    assert (stream.pieces, stream.interval) == ((b"pod-1 line 1\n", b"pod-1 line 2\n"), 0.02)
    echo = ask("/echo", b"said", Content_Type="text/x")
    assert (echo.body, echo.content_type) == (b"said", "text/x")
    told = json.loads(ask("/headers?a=b", A="1").body)
    assert told == {"method": "GET", "target": "/headers?a=b", "headers": ["A: 1"]}
    unknown = ask("/toggleSidecarReady")
    assert unknown.status == 404
    assert b"/sleep" in unknown.body
    assert b"/toggleReady" in unknown.body
    assert b"admin port" in unknown.body


@pytest.mark.parametrize(("in_flight", "delay"), [(1, 0.1), (50, 0.1), (100, 0.4), (200, 1.6)])
def test_crowded_application_slows_down_by_the_square(in_flight, delay):
    application = Application("pod-1", Switches(), PodCounters(in_flight=in_flight))
    response = application.respond(HttpRequest("GET", "/crowd?ms=100&n=50", "HTTP/1.1"))
    assert response.delay == pytest.approx(delay)


@pytest.mark.parametrize(
    "target",
    ["/bytes?n=x", "/bytes?n=-1", "/bytes?n=", "/sleep?ms=99999999999", "/status?code=100"],
)
def test_wrong_parameter_is_named(target):
    answer = ask(target)
    assert answer.status == 400
    assert target.partition("?")[2].encode() in answer.body


def test_switches_are_turned_by_requests():
    switches = Switches()
    application = Application("pod-1", switches, PodCounters())
    for path in ("/toggleReady", "/toggleLive", "/toggleExec"):
        application.respond(HttpRequest("GET", path, "HTTP/1.1"))
    assert (switches.ready, switches.live, switches.exec_ready) == (False, False, False)


def ask_openai(target: str, body: object = None) -> HttpResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Application("pod-1", Switches(), PodCounters()).respond(
        HttpRequest("POST", target, "HTTP/1.1", (), data)
    )


def chat(**more: Any) -> HttpResponse:
    messages = [{"role": "user", "content": "one two"}]
    return ask_openai("/v1/chat/completions", {"model": "echo", "messages": messages, **more})


def test_its_only_model_is_in_the_list() -> None:
    assert [each["id"] for each in json.loads(ask_openai("/v1/models").body)["data"]] == ["echo"]


def test_a_completion_repeats_the_last_message() -> None:
    (choice,) = json.loads(chat().body)["choices"]
    assert choice["message"] == {"role": "assistant", "content": "one two"}


def test_a_stream_has_a_word_in_each_event() -> None:
    response = chat(stream=True)
    assert response.content_type == "text/event-stream"
    assert response.pieces[-1] == b"data: [DONE]\n\n"
    chunks = [json.loads(piece.removeprefix(b"data: ")) for piece in response.pieces[:-1]]
    words = [each["choices"][0]["delta"].get("content", "") for each in chunks]
    assert words == ["", "one ", "two "]


@pytest.mark.parametrize(
    "body", [b"no", [], {}, {"model": "echo"}, {"model": "echo", "messages": []}]
)
def test_a_malformed_request_is_refused(body: object) -> None:
    assert ask_openai("/v1/chat/completions", body).status == 400


def test_an_unknown_model_is_an_error_in_the_form_of_openai() -> None:
    response = chat(model="other")
    assert response.status == 404
    assert json.loads(response.body)["error"]["code"] == "model_not_found"


def test_events_are_lines() -> None:
    response = ask_openai("/events?n=2&ms=20")
    assert response.pieces == (b"data: pod-1 line 1\n\n", b"data: pod-1 line 2\n\n")
    assert (response.content_type, response.interval) == ("text/event-stream", 0.02)


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


def test_the_application_sleeps_as_vllm_does():
    application = Application("pod-1", Switches(), PodCounters())

    def send(method: str, target: str) -> HttpResponse:
        return application.respond(HttpRequest(method, target, "HTTP/1.1"))

    assert send("POST", "/sleep?level=1").status == 200
    assert json.loads(send("GET", "/is_sleeping").body) == {"is_sleeping": True}
    assert send("GET", "/").status == 500
    assert json.loads(send("POST", "/wake_up").body) == {"is_sleeping": False}
    assert send("GET", "/").status == 200
