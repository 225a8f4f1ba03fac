"""Templates against Go: the same output, and an error where Go refuses or fails.

``go_answers.json`` has the output of Go 1.19's text/template for each template and request. The
requests are ``records.REQUESTS``; null means that Go refused the template or failed.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from activator.telemetry.gotemplate.compiler import compile_template
from activator.telemetry.gotemplate.errors import ExecutionError, TemplateError
from activator.telemetry.gotemplate.values import encoded
from activator.telemetry.request_view import Entry
from tests.activator.telemetry.records import REQUESTS, record

ANSWERS = json.loads((Path(__file__).parent / "go_answers.json").read_text())

#: Features of Go that this engine refuses, with the reason that it gives.
REFUSED = {
    '{{define "x"}}{{end}}': "1:3: define is not offered here",
    '{{block "x" .}}{{end}}': "1:3: block is not offered here",
    '{{range index .Request.Header "X-Multi"}}{{break}}{{end}}': "1:44: break is not offered here",
    '{{printf "%[1]d" 1}}': "1:3: argument indexes such as %[1]s are not offered here",
    '{{printf "%v" .Response}}': "1:3: printf cannot be given a whole Response",
    "{{print .Revision}}": "1:3: print cannot be given a whole Revision",
}
#: The same templates in a form that the engine accepts.
DIFFERENT = {
    '{{printf "%.3g %.10g %#g" 1234567.0 1234567.0 1.0}}': "1.23e+06 1234567 1",
}


def rendered(template: str, number: int = 0) -> str:
    return compile_template(template, Entry)(Entry(REQUESTS[number]))


@pytest.mark.parametrize(("number", "template", "answer"), ANSWERS)
def test_same_as_go(number: int, template: str, answer: str | None) -> None:
    if (reason := REFUSED.get(template)) is not None:
        with pytest.raises(TemplateError) as caught:
            rendered(template, number)
        assert str(caught.value) == reason
    elif answer is None:
        with pytest.raises((TemplateError, ExecutionError)):
            rendered(template, number)
    else:
        # Go's js writes \' for an apostrophe, which is invalid in JSON.
        expected = DIFFERENT.get(template, answer.replace("\\'", "\\u0027"))
        assert rendered(template, number) == expected


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{}}", "1:3: a value or a function is missing"),
        ("a\n\n  {{.Request.Nope}}", "3:13: http.Request has no field Nope here"),
        ("{{.Request.Method.Foo}}", "1:18: string has no field Foo here"),
        ("{{if true}}\n{{.Request", "2:1: this action is not closed by }}"),
        ("{{if true}}x", "1:3: this if has no end"),
        ("{{lt .Response.Latency 1}}", "1:3: lt cannot compare float64 and int"),
        ('{{.Request.Header.Get "a" "b"}}', "1:18: Get takes 1 arguments, not 2"),
        ("{{.Request.Header.Get 1}}", "1:18: Get takes a string, not int"),
        ("{{.Request}}", "1:3: http.Request cannot be printed; name one of its fields"),
        ("{{len .Request}}", "1:3: len cannot be given a whole http.Request"),
        ("{{.}}", "1:3: request log entry cannot be printed; name one of its fields"),
        ("{{range .Response.Code}}{{end}}", "1:9: a value of type int cannot be ranged over"),
        ("{{$x}}", "1:3: there is no variable $x"),
        ("{{($x := 1)}}", "1:4: a variable cannot be set in parentheses"),
        ("{{with .Response}}{{.Size}}{{.Foo}}{{end}}", "1:30: Response has no field Foo here"),
    ],
)
def test_what_would_fail_with_every_line_is_refused_where_it_stands(
    template: str, reason: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(template, Entry)
    assert str(caught.value) == reason


def test_an_unknown_function_is_reported_with_the_known_ones() -> None:
    with pytest.raises(TemplateError, match=r"^1:3: there is no function upper here; .*\bjs\b"):
        compile_template("{{upper .TraceID}}", Entry)


@pytest.mark.parametrize(
    "template",
    [
        "{{$x := .Response}}{{$x.Nope}}",
        "{{$x := .Request.Header}}{{$x.Get}}",
        "{{$x := .Request.Header}}{{$x.Get 1}}",
        "{{$x := .Request}}{{$x}}",
        '{{range index .Request.Header "X-Multi"}}{{.Foo}}{{end}}',
        "{{$x := 1}}{{range $x}}{{end}}",
        '{{$x := "a"}}{{.Request.ProtoAtLeast $x 1}}',
    ],
)
def test_what_shows_only_with_a_request_fails_with_that_request(template: str) -> None:
    render = compile_template(template, Entry)
    with pytest.raises(ExecutionError):
        render(Entry(REQUESTS[0]))


def test_the_dot_is_restored_after_a_block() -> None:
    template = "{{with .Request}}{{range .Header}}{{end}}{{.Method}}{{end}}{{.TraceID}}"
    assert rendered(template, 1) == "POST0af7651916cd43dd8448eb211c80319c"


def test_one_template_serves_many_requests_without_remembering() -> None:
    render = compile_template("{{$n := 0}}{{range .Request.Header}}{{$n = 1}}{{end}}{{$n}}", Entry)
    assert [render(Entry(each)) for each in REQUESTS] == ["1", "1", "1", "1", "0"]


def test_bytes_that_are_no_utf8_pass_as_they_came() -> None:
    odd = record(b"GET /\xff?\xfe HTTP/1.1\r\nHost: h\r\nUser-Agent: \xff\xc3\r\n\r\n")
    render = compile_template("{{.Request.RequestURI}} {{js .Request.UserAgent}}", Entry)
    assert encoded(render(Entry(odd))) == b"/\xff?\xfe \xff\xc3"


def test_and_and_or_look_at_no_more_than_they_need() -> None:
    missing = '(index .Request.Header "None" 0)'
    assert rendered(f'{{{{or "x" {missing}}}}}{{{{and "" {missing}}}}}') == "x"


@pytest.mark.parametrize(
    "nested",  # ten times as deep as Python's stack
    ["{{if 1}}" * 10_000, "{{" + "(" * 10_000, "{{if 1}}{{else if 1}}" * 10_000],
)
@pytest.mark.untraced  # long when traced
def test_no_nesting_exhausts_the_stack(nested: str) -> None:
    with pytest.raises(TemplateError):
        compile_template(nested, Entry)


def test_garbage_is_refused_and_takes_no_time() -> None:
    started = time.process_time()
    for garbage in ("{{/*" * 2000, "{{" * 5000, '{{"' + "\\" * 20_000, "{{ " + "1" * 50_000):
        with pytest.raises(TemplateError):
            compile_template(garbage, Entry)
    assert time.process_time() - started < 1.0
