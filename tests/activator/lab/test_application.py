from __future__ import annotations

import json

import pytest

from activator.lab.application import Application
from activator.lab.http1 import PodRequest
from activator.lab.switchboard import PodCounters, Switches


def ask(target: str, body: bytes = b"", **headers: str):
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    application = Application("pod-1", Switches(), PodCounters())
    return application.respond(PodRequest("GET", target, "HTTP/1.1", named, body))


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
    response = application.respond(PodRequest("GET", "/crowd?ms=100&n=50", "HTTP/1.1"))
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
        application.respond(PodRequest("GET", path, "HTTP/1.1"))
    assert (switches.ready, switches.live, switches.exec_ready) == (False, False, False)
