"""A request as templates see it, where the comparison with Go does not reach."""

from __future__ import annotations

import pytest

from activator.telemetry.request_view import Entry, Header, Request, Response, Revision, Url
from tests.activator.telemetry.records import record


def test_nothing_is_read_before_a_template_asks() -> None:
    request = Request(record())
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


@pytest.mark.parametrize(
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
    assert Request(absolute).host() == "a"


def test_times_have_no_more_digits_than_a_clock() -> None:
    response = Response(record(latency=0.000276259000202117))
    assert Response.members["Latency"].get(response) == 0.000276259
    assert response.string() == "{200 12 0.000276259}"


def test_a_response_of_ours_has_its_reason_which_go_prints_nothing_of() -> None:
    response = Response(record(why="probe-failing; 10.0.0.1:8012: refused; twice"))
    assert Response.members["Reason"].get(response) == "probe-failing"
    assert Response.members["ReasonDetail"].get(response) == "10.0.0.1:8012: refused; twice"
    assert response.string() == Response(record()).string()
    assert Response.members["Reason"].get(Response(record())) == ""


def test_every_field_that_is_offered_can_be_read() -> None:
    entry = Entry(record())
    request = entry.request
    for struct in (entry, request, request.url(), Response(record()), Revision(record().revision)):
        for name, member in type(struct).members.items():
            if not member.parameters:
                assert isinstance(member.get(struct), member.returns), name
