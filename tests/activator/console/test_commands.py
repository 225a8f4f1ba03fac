"""``activator status`` and ``activator explain`` as commands: their output, errors and names."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
import respx

from activator.console.client import NotKnown, UnexpectedResponse, parse
from activator.console.commands import Explain, Status, key, near, run
from tests.ports import hold, port_of

ROOT = Path(__file__).parents[3]
URL = "http://127.0.0.1:18080"
REVISIONS = URL + "/api/v1/revisions"
ACTIVATOR = URL + "/api/v1/activator"
HELLO = {
    "namespace": "default",
    "name": "hello-00001",
    "containerConcurrency": 0,
    "capacity": 0,
    "inFlight": 0,
    "queued": 0,
    "pods": [],
}
UNKNOWN: dict[str, Any] = {
    "status_code": 404,
    "headers": {"Content-Type": "application/problem+json"},
}


def ask(question, as_json=False):
    out = io.StringIO()
    warnings = run(URL, question, as_json, again=False, out=out)
    return out.getvalue(), warnings


@respx.mock
@pytest.mark.parametrize(
    ("namespace", "path"), [(None, REVISIONS), ("a b&", f"{REVISIONS}?namespace=a%20b%26")]
)
def test_status_asks_for_all_or_for_one_namespace(namespace, path):
    answer = {"revisions": [HELLO], "activator": {"notReadyReason": "draining"}}
    route = respx.get(path).respond(json=answer)
    text, warnings = ask(Status(namespace))
    assert "default/hello-00001" in text
    assert warnings == ["not ready: draining"]
    assert str(route.calls[0].request.url) == path


@respx.mock
@pytest.mark.parametrize("known", [[], [HELLO]])
def test_a_namespace_without_a_revision_is_said_to_have_none(known):
    respx.get(REVISIONS).respond(json={"revisions": known})
    none = [] if known else ["no revision is known in the namespace 'nosuch'"]
    assert ask(Status("nosuch"))[1] == none


@respx.mock
def test_explain_says_what_the_activator_knows():
    respx.get(f"{REVISIONS}/default/hello").respond(json=HELLO)
    activator = respx.get(ACTIVATOR)
    activator.respond(json={"autoscaler": {"connected": True}})
    assert "Activator  the autoscaler is connected\n" in ask(Explain("default", "hello"))[0]
    for older in (UNKNOWN, {"text": "[]"}):
        activator.respond(**older)
        assert "Activator" not in ask(Explain("default", "hello"))[0]


@respx.mock
def test_explain_asks_for_one_and_prints_the_page_or_the_raw_response():
    raw = json.dumps(HELLO, indent=3)
    respx.get(ACTIVATOR).respond(**UNKNOWN)
    respx.get(f"{REVISIONS}/a%2Fb/hello").respond(text=raw)
    assert ask(Explain("a/b", "hello"))[0].startswith("default/hello-00001: no request waits")
    assert ask(Explain("a/b", "hello"), as_json=True) == (raw + "\n", [])


@respx.mock
@pytest.mark.parametrize(
    ("revisions", "meant"),
    [([HELLO], " Did you mean default/hello-00001?"), ([], "")],
)
def test_a_revision_that_is_not_known(revisions, meant):
    respx.get(f"{REVISIONS}/default/hello").respond(**UNKNOWN)
    respx.get(REVISIONS).respond(json={"revisions": revisions})
    respx.get(ACTIVATOR).respond(**UNKNOWN)
    with pytest.raises(NotKnown) as caught:
        ask(Explain("default", "hello"))
    first = f"the activator knows no revision, Service or route object default/hello.{meant}"
    assert str(caught.value).splitlines()[0] == first


@respx.mock
def test_a_name_of_another_kind_is_not_offered_to_itself():
    respx.get(f"{REVISIONS}/default/hello-00001?kind=service").respond(**UNKNOWN)
    respx.get(REVISIONS).respond(json={"revisions": [HELLO]})
    respx.get(ACTIVATOR).respond(json={})
    with pytest.raises(NotKnown) as caught:
        ask(Explain("default", "hello-00001", "service"))
    assert str(caught.value) == (
        "default/hello-00001 is of kind revision, not service: leave out --kind"
    )


@respx.mock
@pytest.mark.parametrize(("kind", "asked"), [("service", True), ("revision", False)])
def test_the_scaler_is_queried_about_a_service_alone(kind, asked):
    respx.get(f"{REVISIONS}/default/hello").respond(json=HELLO | {"kind": kind})
    respx.get(ACTIVATOR).respond(**UNKNOWN)
    scaler = respx.get("http://127.0.0.1:8081/api/v1/services/default/hello").respond(**UNKNOWN)
    text, _ = ask(Explain("default", "hello", scaler_url="http://127.0.0.1:8081"))
    assert scaler.called is asked is ("knows no such Service" in text)


@respx.mock
def test_the_page_of_a_service_in_a_folder_says_that_nothing_scales_it():
    respx.get(f"{REVISIONS}/default/hello").respond(json=HELLO | {"kind": "service"})
    respx.get(ACTIVATOR).respond(json={"manifests": {"folder": "/srv"}, "scaler": None})
    respx.get("http://127.0.0.1:8081/api/v1/services/default/hello").respond(503)
    text, _ = ask(Explain("default", "hello", scaler_url="http://127.0.0.1:8081"))
    assert "Scaler     none: the activator runs without --scaler-url" in text
    assert "kubectl" not in text


@respx.mock
@pytest.mark.parametrize(
    ("scaler", "headline", "advice"),
    [
        (None, "; a new one would wait (pods-not-ready)", "What to do  Read the last error"),
        ({"connected": True}, ", no-scalable-target", "What to do  Correct that first."),
    ],
)
def test_without_a_scaler_a_missing_workload_is_not_why_pods_do_not_start(scaler, headline, advice):
    problem = {"kind": "Service", "namespace": "default", "name": "hello", "warning": "w"}
    waits = {"nextReason": "pods-not-ready", "nextReasonDetail": "refused"}
    warnings = {"objectWarnings": [problem | {"reason": "no-scalable-target"}]}
    respx.get(f"{REVISIONS}/default/hello").respond(
        json=HELLO | {"kind": "service"} | waits | warnings
    )
    respx.get(ACTIVATOR).respond(json={"manifests": {"folder": "/srv"}, "scaler": scaler})
    text, _ = ask(Explain("default", "hello"))
    assert text.splitlines()[0].endswith(f": no request waits{headline}")
    assert advice in text


@respx.mock
@pytest.mark.parametrize(("namespace", "named"), [(None, ["shop", "other"]), ("shop", ["shop"])])
def test_status_names_each_service_and_revision_that_is_not_in_use(namespace, named):
    used = {"namespace": "default", "name": "hello-00001", "kind": "Revision"}
    refused = {"namespace": "shop", "name": "hello", "kind": "Service", "reason": "refused"}
    warnings = [
        used | {"reason": "limited", "warning": "this revision is in use"},
        refused | {"warning": "no selector"},
        refused | {"namespace": "other", "warning": "no selector"},
        refused | {"kind": "Endpoints", "warning": "another kind"},
    ]
    answer = {"revisions": [HELLO], "activator": {"objectWarnings": warnings}}
    respx.get(URL + Status(namespace).path).respond(json=answer)
    text, found = ask(Status(namespace))
    assert text.startswith("REVISION")
    refusals = [f"not in use: Service {each}/hello: refused: no selector" for each in named]
    assert found == refusals
    broken = refused | {"reason": "invalid", "warning": "port"}
    answer["activator"] = {"objectWarnings": [*warnings, broken], "manifests": {"folder": "/m"}}
    respx.get(URL + Status(namespace).path).respond(json=answer)
    assert ask(Status(namespace)) == (text, refusals)  # the errors of the folder have the other
    answer["activator"] = {"objectWarnings": "none"}
    respx.get(URL + Status(namespace).path).respond(json=answer)
    assert ask(Status(namespace)) == (text, [])


@respx.mock
def test_status_names_rules_that_another_object_has_and_objects_that_no_pod_can_serve():
    web = {"kind": "InterceptorRoute", "namespace": "default", "name": "web"}
    route = HELLO | {"kind": "http-route", "name": "web", "pods": [], "reason": "no-endpoints"}
    port = web | {"reason": "no-such-port", "warning": "the Service hello has no TCP port 81"}
    host = web | {"reason": "host-conflict", "warning": "the host a.com belongs to another"}
    taken = {"kind": "Service", "namespace": "default", "name": "hello-00001"}
    taken |= {"reason": "port-conflict", "warning": "cannot listen on 0.0.0.0:6379"}
    hello = HELLO | {"kind": "service"}
    answer = {"revisions": [hello, route], "activator": {"objectWarnings": [port, host, taken]}}
    respx.get(REVISIONS).respond(json=answer)
    text, found = ask(Status(None))
    assert "no-such-port: the Service hello has no TCP port 81" in text.splitlines()[2]
    assert "failed start" not in text
    assert "no-such-port" not in text.splitlines()[1]
    assert found == [
        "InterceptorRoute default/web: host-conflict: the host a.com belongs to another",
        "Service default/hello-00001: port-conflict: cannot listen on 0.0.0.0:6379",
    ]
    failed = [route | {"failedStarts": 1}]
    respx.get(REVISIONS).respond(json=answer | {"revisions": failed})
    assert ask(Status(None))[0].splitlines()[1].rstrip().endswith("port 81, 1 failed start")
    serves = route | {"pods": [{"usable": True}], "reason": None}
    respx.get(REVISIONS).respond(json=answer | {"revisions": [serves]})
    assert ask(Status(None))[0].splitlines()[1].rstrip().endswith("serving")


@respx.mock
def test_a_service_that_is_refused_shows_its_reason_and_no_similar_name():
    respx.get(f"{REVISIONS}/shop/hello?kind=service").respond(**UNKNOWN)
    respx.get(REVISIONS).respond(json={"revisions": [HELLO]})
    problem = {"kind": "Service", "namespace": "shop", "name": "hello", "reason": "refused"}
    other = problem | {"name": "other", "warning": "not this one"}
    warnings = [other, problem | {"warning": "type ExternalName has no pods"}]
    respx.get(ACTIVATOR).respond(json={"objectWarnings": warnings})
    with pytest.raises(NotKnown) as caught:
        ask(Explain("shop", "hello", "service"))
    assert str(caught.value).splitlines() == [
        "Service shop/hello: refused: type ExternalName has no pods",
        "So the activator does not use it.",
    ]


@respx.mock
@pytest.mark.parametrize("text", ["<html>", "[]", "{}", '{"queued": "many"}'])
@pytest.mark.parametrize("question", [Status(None), Explain("default", "hello")])
def test_a_response_that_is_not_an_activators_is_named(question, text):
    respx.get(URL + question.path).respond(text=text)
    respx.get(URL + "/api/v1/activator").respond(**UNKNOWN)
    with pytest.raises(UnexpectedResponse, match="not an activator's admin port"):
        ask(question)


@respx.mock
@pytest.mark.parametrize("question", [Status(None), Explain("default", "hello")])
def test_who_knows_no_revisions_at_all_is_no_activator(question):
    respx.get(url__startswith=URL).respond(**UNKNOWN)
    with pytest.raises(UnexpectedResponse, match="not an activator's admin port"):
        ask(question)


def watched(question, monkeypatch, looks) -> str:
    """Return the output of a watch that polls that often."""
    left = iter(range(looks - 1))

    def sleep(seconds: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("activator.console.screen.sleep", sleep)
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        run(URL, question, as_json=False, again=True, out=out)
    return out.getvalue()


@respx.mock
@pytest.mark.parametrize("question", [Status(None), Explain("default", "hello")])
def test_a_watch_tells_of_files_that_are_wrong_while_they_are(question, monkeypatch):
    answers: list[dict[str, Any]] = [
        {"manifestErrors": errors} for errors in ({}, {"a.yaml": "line 3"}, {})
    ]
    if isinstance(question, Status):
        answers = [{"revisions": [HELLO], "activator": one} for one in answers]
    else:
        respx.get(URL + question.path).respond(json=HELLO)
    asked = respx.get(URL + (question.second_path or question.path))
    asked.side_effect = [httpx.Response(200, json=one) for one in answers]
    blocks = watched(question, monkeypatch, looks=3).split("--- ")[1:]
    assert ["a.yaml: line 3" in block for block in blocks] == [False, True, False]


class Server:
    """Send ``answer`` for every GET; can stop, and listen on the same port again."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.held = hold()
        self.port = port_of(self.held)
        self.start()

    def start(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(server.answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        # SO_REUSEADDR of its sockets lets it listen on the port that is held.
        self._http = HTTPServer(("127.0.0.1", self.port), Handler)
        self._thread = Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server():
    made = Server(HELLO)
    yield made
    made.stop()
    made.held.close()


#: A shell without job control starts background commands with SIGINT ignored. Children inherit
#: that.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from activator.__main__ import main
sys.exit(main())
"""

#: The first pause of the watch gets Ctrl-C in a finalizer, where Python ignores exceptions.
INTERRUPTED_IN_A_FINALIZER = """
from activator.console import screen
class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
def sleep(seconds):
    Finalized()
    raise SystemExit("the watch has lost Ctrl-C")
screen.sleep = sleep
"""


SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"


class Terminal:
    """A command in a terminal."""

    def __init__(self, *words: str, columns: int = 100, program: str = PROGRAM) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 50, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        command = [sys.executable, "-c", program, *words]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        self.seen = ""

    def until(self, text: str) -> str:
        """Read until the text has come; return all since the last call."""
        while text not in self.seen:
            assert select.select([self._ours], [], [], 60)[0], f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self._ours, 65536).decode()
        before, self.seen = self.seen, ""
        return before

    def end(self) -> int:
        """Read the rest, and return the exit status."""
        with suppress(OSError):  # at the end of a terminal, Linux reports EIO
            while data := os.read(self._ours, 65536):
                self.seen += data.decode()
        status = self.process.wait(60)
        os.close(self._ours)
        return status


def test_a_terminal_gets_a_drawn_page(server):
    terminal = Terminal("explain", "hello-00001", "--admin-url", f"http://127.0.0.1:{server.port}")
    seen = terminal.until("In flight")
    assert "\x1b[1mdefault/hello-00001: no request waits" in seen
    assert terminal.end() == 0


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_addresses_rules_and_phases_are_whole_in_every_terminal(server, columns):
    pod = {
        "address": "192.168.100.101:8012",
        "kubernetes": "not-ready",
        "inFlight": 0,
        "decidedBy": "exec-readiness-probe",
        "lastError": "status 503",
    }
    cold_start = {
        "began": "2026-01-02T03:04:05.678Z",
        "phases": {"probe-passed": 2, "first-byte": 3},
    }
    server.answer = HELLO | {"pods": [pod], "coldStarts": [cold_start]}
    url = f"http://127.0.0.1:{server.port}"
    terminal = Terminal("explain", "hello-00001", "--admin-url", url, columns=columns)
    seen = terminal.until("first-byte+3.000")
    for words in (*pod.values(), cold_start["began"], "probe-passed+2.000"):
        assert str(words) in seen
    assert terminal.end() == 0


def test_a_watch_survives_a_restart_and_ends_with_ctrl_c(server):
    url = f"http://127.0.0.1:{server.port}"
    terminal = Terminal("explain", "hello-00001", "--watch", "--admin-url", url)
    terminal.until("no request waits")
    server.stop()
    terminal.until("no activator responds at")
    server.answer = HELLO | {"queued": 3, "reason": "no-endpoints"}
    server.start()
    terminal.until("3 requests wait, no-endpoints")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 130, terminal.seen
    assert SHOW_CURSOR in terminal.seen


def test_ctrl_c_ends_a_watch_wherever_it_arrives(server):
    before, end = PROGRAM.split("sys.exit")
    program = f"{before}{INTERRUPTED_IN_A_FINALIZER}sys.exit{end}"
    url = f"http://127.0.0.1:{server.port}"
    words = ("explain", "hello-00001", "--watch", "--admin-url", url)
    terminal = Terminal(*words, program=program)
    assert terminal.end() == 130, terminal.seen
    assert "Exception ignored" not in terminal.seen
    assert terminal.seen.rindex(SHOW_CURSOR) > terminal.seen.rindex(HIDE_CURSOR)


@pytest.mark.parametrize(
    ("words", "found"),
    [("hello", ("default", "hello")), ("shop/hello", ("shop", "hello"))],
)
def test_without_a_namespace_it_is_default(words, found):
    assert key(words) == found


def test_a_namespace_that_is_given_apart():
    assert key("hello", "shop") == key("shop/hello", "shop") == ("shop", "hello")
    with pytest.raises(ValueError, match="--namespace is 'shop', and the revision is 'a/hello'"):
        key("a/hello", "shop")


@pytest.mark.parametrize("words", ["", "/", "a/", "/a", "a/b/c"])
def test_other_words_are_no_revision(words):
    with pytest.raises(ValueError, match="expected NAMESPACE/REVISION or REVISION"):
        key(words)


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        (("default", "helo-00001"), ["default/hello-00001", "default/hello-00002"]),
        (("default", "hello"), ["default/hello-00002", "default/hello-00001"]),
        (("default", "cart-00001"), ["shop/cart-00001"]),
        (("shop", "crt-00001"), ["shop/cart-00001"]),
        (("default", "zzz"), []),
        (("default", "wrong"), []),
    ],
)
def test_names_that_may_have_been_meant(wanted, offered):
    known = (("default", "hello-00001"), ("default", "hello-00002"), ("shop", "cart-00001"))
    answer = {"revisions": [{"namespace": ns, "name": name} for ns, name in known]}
    assert near(parse(json.dumps(answer)), *wanted)[: len(offered) or 1] == offered


def test_a_namespace_in_common_makes_no_name_similar():
    answer = {"revisions": [{"namespace": "default", "name": n} for n in ("web", "slow", "shop")]}
    assert near(parse(json.dumps(answer)), "default", "nope") == []
    assert near(parse(json.dumps(answer)), "default", "shpo") == ["default/shop"]
