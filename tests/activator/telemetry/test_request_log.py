"""The request log: the lines of each ConfigMap, and a template that fails."""

from __future__ import annotations

import json
import logging
from time import process_time

import pytest

from activator.knative.configmaps.following import Followed
from activator.knative.configmaps.observability import (
    DEFAULT_TEMPLATE,
    ObservabilityConfig,
    RequestLogConfig,
    observability_reader,
)
from activator.telemetry.request_log import (
    LONGEST,
    Header,
    LogEntry,
    LoggedRequest,
    LoggedResponse,
    LoggedRevision,
    RequestLog,
    Url,
    compiled,
)
from tests.activator.telemetry.records import record
from tests.rows import in_one_test

ENABLE, TEMPLATE = "logging.enable-request-log", "logging.request-log-template"


@pytest.fixture
def lines() -> list[bytes]:
    return []


@pytest.fixture
def log(lines: list[bytes]) -> RequestLog:
    return RequestLog(lines.append, lambda: 5.0)


def test_default_template_gives_the_line_that_knatives_pipelines_read(log, lines) -> None:
    assert log.configure(RequestLogConfig(True, DEFAULT_TEMPLATE))
    log.ended(
        record(
            b"GET /a?b=1 HTTP/1.1\r\nHost: h\r\nuser-agent: curl/8\r\nReferer: it's\r\n\r\n",
            trace_id="0af7651916cd43dd8448eb211c80319c",
        )
    )
    assert lines == [
        b'{"httpRequest": {"requestMethod": "GET", "requestUrl": "/a?b\\u003D1", '
        b'"requestSize": "0", "status": 200, "responseSize": "12", "userAgent": "curl/8", '
        b'"remoteIp": "10.0.0.9:51234", "serverIp": "", "referer": "it\\u0027s", '
        b'"latency": "0.0123s", "protocol": "HTTP/1.1"}, '
        b'"traceId": "0af7651916cd43dd8448eb211c80319c"}\n'
    ]
    assert json.loads(lines[0])["httpRequest"]["requestUrl"] == "/a?b=1"


@pytest.mark.parametrize("template", ["{{.TraceID}}", "{{.TraceID}}\n"])
def test_each_line_ends_once(log, lines, template: str) -> None:
    log.configure(RequestLogConfig(True, template))
    log.ended(record(trace_id="t"))
    assert lines == [b"t\n"]


def test_update_request_log_from_config_map(log, lines) -> None:
    """TestUpdateRequestLogFromConfigMap of cmd/activator/request_log_test.go."""
    followed = Followed(
        "config-observability",
        observability_reader(compiled),
        ObservabilityConfig(),
        lambda config: log.configure(config.request_log),
    )
    names = "{{.Revision.Name}}, {{.Revision.Namespace}}, {{.Revision.Service}}, "
    names += "{{.Revision.Configuration}}, {{.Revision.PodName}}, {{.Revision.PodIP}}"
    page, bare = "http://example.com/testpage", "http://example.com"
    steps = [
        (page, {TEMPLATE: ""}, ""),
        (page, {TEMPLATE: "{{.Request.URL}}\n", ENABLE: "true"}, page + "\n"),
        (bare, {TEMPLATE: "{{}}"}, bare + "\n"),
        (bare, {TEMPLATE: names, ENABLE: "true"}, "hello-00001, default, hello, hello-cfg, , \n"),
        (page, {TEMPLATE: ""}, ""),
        (page, {TEMPLATE: "{{.Request.URL}}\n", ENABLE: "true"}, page + "\n"),
        (page, {TEMPLATE: "{{.Request.URL}}\n", ENABLE: "false"}, ""),
        (page, {TEMPLATE: "", ENABLE: "true"}, ""),
    ]
    for target, data, written in steps:
        lines.clear()
        followed.update(data)
        log.ended(record(f"POST {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode()))
        assert b"".join(lines).decode() == written, data


def test_a_wrong_template_is_reported_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    followed = Followed(
        "config-observability", observability_reader(compiled), ObservabilityConfig()
    )
    followed.update({ENABLE: "true", TEMPLATE: "{{.Request.Method}} {{.Request.Body}}"})
    assert caplog.messages == [
        "ConfigMap config-observability, key logging.request-log-template: "
        "'{{.Request.Method}} {{.Request.Body}}' cannot be used: 1:31: http.Request has "
        "no field Body here; the request log stays off"
    ]


def test_a_template_that_would_hold_up_requests_while_it_is_read_is_refused() -> None:
    compiled("x" * LONGEST)
    with pytest.raises(ValueError, match=r"^1:1: it has 16385 characters"):
        compiled("x" * (LONGEST + 1))


def test_a_line_that_fails_says_what_it_was_about(log, lines, caplog) -> None:
    log.configure(RequestLogConfig(True, '{{index .Request.Header "X" 0}}'))
    asked = record(b"PUT /a%20b?c HTTP/1.1\r\nHost: h\r\n\r\n", status=502, latency=1.5e-05)
    log.ended(asked)
    log.ended(asked)
    log.ended(record(b"GET / HTTP/1.1\r\nHost: h\r\nX: there\r\n\r\n"))
    failed = (
        b"Invalid request log template: method: PUT, response code: 502, latency: 1.5e-05, "
        b"url: /a%20b?c\n"
    )
    assert lines == [failed, failed, b"there\n"]
    assert (log.lines, log.failures) == (3, 2)
    assert caplog.messages == [
        "request log: the template does not fit a request: index out of range: 0"
    ]


@pytest.mark.untraced
@pytest.mark.parametrize(
    "template",
    [
        r'{{"\\"' + " | js" * 40 + "}}",
        '{{printf "%1000s" "x"}}' * 200,
        "{{.Request.Header}}" * 800,
        "{{if and" + " true" * 1000 + "}}{{end}}" + "{{js .Request.Header}}" * 400,
        "{{if eq (js .Request.Header) `x`}}{{end}}" * 300,
    ],
    ids=str.__len__,
)
def test_a_template_cannot_hold_up_requests_or_fill_the_memory(log, lines, template: str) -> None:
    fields = "".join(f"x-{number}: {number:0100}\r\n" for number in range(50))
    asked = record(f"GET /p HTTP/1.1\r\nHost: h\r\n{fields}\r\n".encode())
    assert log.configure(RequestLogConfig(True, template))
    begun = process_time()
    log.ended(asked)
    assert process_time() - begun < 10.0  # it takes 0.02 s; without a limit it never ends
    assert lines[0].startswith(b"Invalid request log template: method: GET")
    assert len(lines[0]) < 200


def test_a_line_as_long_as_any_reader_takes_is_written(log, lines) -> None:
    log.configure(RequestLogConfig(True, "{{js .Request.RequestURI}} {{.Request.Header}}"))
    log.ended(record(b"GET /" + b"'" * 8000 + b" HTTP/1.1\r\nHost: h\r\n\r\n"))
    assert lines == [b"/" + rb"\u0027" * 8000 + b" map[]\n"]


def test_off_writes_nothing(log, lines) -> None:
    assert not log.configure(RequestLogConfig(False, DEFAULT_TEMPLATE))
    log.ended(record())
    assert lines == []
    assert log.lines == 0


def test_what_clients_send_makes_no_second_line(log, lines, caplog) -> None:
    caplog.set_level(logging.ERROR)
    log.configure(RequestLogConfig(True, DEFAULT_TEMPLATE))
    odd = bytes(set(range(0x21, 0x100)))
    log.ended(record(b"GET /" + odd.replace(b" ", b"") + b" HTTP/1.1\r\nHost: h\r\n\r\n"))
    assert lines[0].count(b"\n") == 1


# The values that templates see, where the comparison with Go does not reach.


def test_nothing_is_read_before_a_template_asks() -> None:
    request = LoggedRequest(record())
    assert request.header() is request.header()
    assert request.url() is request.url()


def test_header_names_are_canonical_and_framing_is_none_of_them() -> None:
    header = Header.of(
        b"\r\nx-b3-TRACEID: a\r\nX-B3-Traceid:b \r\nTransfer-Encoding: chunked\r\nempty:\r\nodd"
    )
    assert header == {"X-B3-Traceid": ["a", "b"], "Empty": [""]}
    assert header.first("x-b3-traceid") == "a"
    assert header.values_of("X-B3-TRACEID") == ["a", "b"]
    assert (header.first("none"), header.values_of("none")) == ("", [])
    assert Header.of(b"") == {}


@in_one_test(
    ("target", "string"),
    [
        ("/", "/"),
        ("/a b", "/a%20b"),
        ("/%zz", "/%zz"),
        ("/a?%zz=\xff", "/a?%zz=\xff"),
        ("*", "*"),
        ("HTTP://h:1/p?q", "http://h:1/p?q"),
        ("http://h", "http://h"),
        ("", ""),
    ],
)
def test_urls_become_text(target: str, string: str) -> None:
    assert Url(target).string() == string


@pytest.mark.parametrize(
    ("host", "name", "port"),
    [("h", "h", ""), ("h:80", "h", "80"), ("[::1]:80", "::1", "80"), ("[::1]", "::1", "")],
)
def test_hosts_have_a_name_and_a_port(host: str, name: str, port: str) -> None:
    url = Url(f"http://{host}/")
    assert (url.hostname(), url.port()) == (name, port)


def test_queries_leave_out_what_go_cannot_read() -> None:
    found = Url("/?a=1&a=%41+b&b;c=2&%zz=3&d&=e").values()
    assert found == {"a": ["1", "A b"], "d": [""], "": ["e"]}


def test_the_host_of_an_absolute_target_wins() -> None:
    absolute = record(b"GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n")
    assert LoggedRequest(absolute).host() == "a"


def test_times_have_no_more_digits_than_a_clock() -> None:
    response = LoggedResponse(record(latency=0.000276259000202117))
    assert LoggedResponse.members["Latency"].get(response) == 0.000276259
    assert response.string() == "{200 12 0.000276259}"


def test_a_response_of_ours_has_its_reason_which_go_prints_nothing_of() -> None:
    response = LoggedResponse(record(why="probe-failing; 10.0.0.1:8012: refused; twice"))
    assert LoggedResponse.members["Reason"].get(response) == "probe-failing"
    assert LoggedResponse.members["ReasonDetail"].get(response) == "10.0.0.1:8012: refused; twice"
    assert response.string() == LoggedResponse(record()).string()
    assert LoggedResponse.members["Reason"].get(LoggedResponse(record())) == ""


def test_every_field_that_is_offered_can_be_read() -> None:
    entry = LogEntry(record())
    request = entry.request
    for struct in (
        entry,
        request,
        request.url(),
        LoggedResponse(record()),
        LoggedRevision(record().revision),
    ):
        for name, member in type(struct).members.items():
            if not member.parameters:
                assert isinstance(member.get(struct), member.returns), name
