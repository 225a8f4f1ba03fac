"""Templates against Go: the same output, and an error where Go refuses or fails.

``go_answers.json`` has the output of Go 1.19's text/template for each template and request. The
requests are ``records.REQUESTS``; null means that Go refused the template or failed.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from activator.telemetry.go_values import ExecutionError, TemplateError, encoded
from activator.telemetry.request_log import LogEntry
from activator.telemetry.template import compile_template
from tests.activator.telemetry.records import REQUESTS, record
from tests.rows import in_one_test

ANSWERS = json.loads((Path(__file__).parent / "go_answers.json").read_text())


def rendered(template: str, number: int = 0) -> str:
    return compile_template(template, LogEntry)(LogEntry(REQUESTS[number]))


@in_one_test(("number", "template", "answer"), ANSWERS)
def test_same_as_go(number: int, template: str, answer: str | None) -> None:
    if answer is None:
        with pytest.raises((TemplateError, ExecutionError)):
            rendered(template, number)
    else:
        # Go's js writes \' for an apostrophe, which is invalid in JSON.
        assert rendered(template, number) == answer.replace("\\'", "\\u0027")


@in_one_test(
    ("template", "reason"),
    [
        ('{{define "x"}}{{end}}', "1:3: define is not offered here"),
        ('{{block "x" .}}{{end}}', "1:3: block is not offered here"),
        ('{{template "x"}}', "1:3: template is not offered here"),
        ("{{range .Request.Header}}{{end}}", "1:3: range is not offered here"),
        ("{{with .Response}}{{end}}", "1:3: with is not offered here"),
        ("{{if true}}{{else with 1}}{{end}}", "1:19: unexpected with; }} is missing"),
        ("{{$x := 1}}", "1:3: there is no variable $x"),
        ("{{$x}}", "1:3: there is no variable $x"),
        ("{{if $x := .TraceID}}{{end}}", "1:6: there is no variable $x"),
        ("{{.Request.Header.Accept}}", "1:18: http.Header has no field Accept here"),
        ("{{0x1F}}", "1:3: 0x1F is no number"),
        (r'{{"\x41"}}', r'1:3: "\x41" is no string'),
        ("{{'a'}}", '1:3: unexpected "\'"'),
        ("{{js 1 2}}", "1:3: js cannot be given 2 arguments"),
        ("{{js .Response}}", "1:3: js cannot be given a whole Response"),
        (
            '{{printf "%[1]d" 1}}',
            "1:3: argument indexes such as %[1]s are not offered here",
        ),
        ('{{printf "%v" .Response}}', "1:3: printf cannot be given a whole Response"),
        ('{{printf "%d" "x"}}', "1:3: printf cannot write a value of type string as %d"),
        ('{{printf "%08s" "x"}}', "1:3: printf cannot write a value of type string as %08s"),
        ('{{printf "%*d" 4 7}}', "1:3: printf cannot write a value of type int as %*"),
        ('{{printf "%.3d" 4}}', "1:3: printf cannot write a value of type int as %.3d"),
        (
            '{{printf "%9s" (index .Request.Header "X")}}',
            "1:3: printf cannot write a value of type []string as %9s",
        ),
        ('{{printf "%"}}', "1:3: printf cannot be given 1 arguments"),
        ('{{printf "%d"}}', "1:3: printf cannot be given 1 arguments"),
        ('{{printf "x" 1}}', "1:3: printf cannot be given 2 arguments"),
        ("{{printf .TraceID}}", "1:3: printf needs a constant format, not a string"),
    ],
)
def test_parts_of_go_that_no_log_line_needs_are_refused(template: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(template, LogEntry)
    assert str(caught.value) == reason


@pytest.mark.parametrize("text", ["%9999d", "%-1001s", "%.1001f"])
def test_a_width_that_would_fill_the_memory_is_refused(text: str) -> None:
    value = "1.0" if "f" in text else '"x"' if "s" in text else "1"
    with pytest.raises(TemplateError, match="1000 is the most"):
        compile_template(f'{{{{printf "{text}" {value}}}}}', LogEntry)
    assert len(rendered('{{printf "%1000d" 1}}')) == 1000


@in_one_test(
    ("template", "reason"),
    [
        ("{{}}", "1:3: a value or a function is missing"),
        ("a\n\n  {{.Request.Nope}}", "3:13: http.Request has no field Nope here"),
        ("{{.Request.Method.Foo}}", "1:18: string has no field Foo here"),
        ("{{if true}}\n{{.Request", "2:1: this action is not closed by }}"),
        ("{{if true}}x", "1:3: this if has no end"),
        ("{{lt .Response.Latency 1}}", "1:3: lt cannot compare float64 and int"),
        ("{{lt true false}}", "1:3: values of type bool have no order"),
        ('{{index .Request.Header "X" "Y"}}', "1:3: the index of an element is an int, not string"),
        ("{{index .Request.Header 1}}", "1:3: the key of a map is a string, not int"),
        ("{{index 1 2}}", "1:3: a value of type int has no elements"),
        ('{{.Request.Header.Get "a" "b"}}', "1:18: Get takes 1 arguments, not 2"),
        ("{{.Request.Header.Get 1}}", "1:18: Get takes a string, not int"),
        ("{{.Request}}", "1:3: http.Request cannot be printed; name one of its fields"),
        ("{{js .Request}}", "1:3: js cannot be given a whole http.Request"),
        ("{{.}}", "1:3: request log entry cannot be printed; name one of its fields"),
        ("{{eq 1}}", "1:3: eq cannot be given 1 arguments"),
        # The grammar.
        ("{{end}}", "1:3: unexpected end"),
        ("{{if 1}}{{else}}{{else}}{{end}}", "1:19: unexpected else; the end of if in 1:3 is"),
        ("{{1 2}}", "1:5: an argument for what is no function"),
        ("{{1 | 2}}", "1:7: an argument for what is no function"),
        ("{{.TraceID 1}}", "1:3: TraceID takes 0 arguments, not 1"),
        ("{{true.X}}", "1:7: true has no fields"),
        ("{{js.X}}", "1:5: js has no fields"),
        ("{{js (1}}", "1:8: unexpected }}"),
        ("{{08}}", "1:3: 08 is no number"),
        ("{{if}}{{end}}", "1:5: a value or a function is missing"),
        ("{{js if}}", "1:6: unexpected if"),
        ("{{end}", "1:6: unexpected '}'"),
        # Tokens.
        ("{{", "1:1: this action is not closed by }}"),
        ("{{ @ }}", "1:4: unexpected '@'"),
        ('{{"a}}', "1:3: this string does not end"),
        ('{{"a\nb"}}', "1:3: this string does not end"),
        ('{{.TraceID"a"}}', '1:11: unexpected "a"'),
        ("{{/* a */}}", "1:3: unexpected '/'"),
    ],
)
def test_what_would_fail_with_every_line_is_refused_where_it_stands(
    template: str, reason: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(template, LogEntry)
    assert str(caught.value).startswith(reason)
    assert isinstance(caught.value, ValueError)


def test_an_unknown_function_is_reported_with_the_known_ones() -> None:
    with pytest.raises(TemplateError, match=r"^1:3: there is no function upper here; .*\bjs\b"):
        compile_template("{{upper .TraceID}}", LogEntry)


@in_one_test(
    ("template", "line"),
    [
        ("a \n{{- 1 -}}\t b", "a1b"),
        ("a {{-1}}", "a -1"),
        ("  {{- 1}}", "1"),
        (r'{{"a\"\n\t\\\u00e9"}}', 'a"\n\t\\é'),
        ("{{`a\\n\r`}}", "a\\n"),
        ("{{if .TraceID}}t{{else if 0}}0{{else if 1}}1{{else}}n{{end}}.", "1."),
        ("{{$.Request.Method}}", "GET"),
        ('{{and .TraceID 1 | printf "%5v|"}}', "     |"),
    ],
)
def test_forms_of_the_language(template: str, line: str) -> None:
    assert rendered(template) == line


def test_one_template_serves_many_requests_without_remembering() -> None:
    template = '{{if index .Request.Header "X-One"}}1{{else}}0{{end}}'
    render = compile_template(template, LogEntry)
    assert [render(LogEntry(each)) for each in REQUESTS] == ["1", "0", "0", "0", "0"]


def test_orders_of_texts_are_those_of_their_bytes() -> None:
    assert (
        rendered('{{lt "Z" "a"}} {{ge "é" "z"}} {{lt "\ue000" "\U0001f600"}}') == "true true true"
    )


def test_bytes_that_are_no_utf8_pass_as_they_came() -> None:
    odd = record(b"GET /\xff?\xfe HTTP/1.1\r\nHost: h\r\nUser-Agent: \xff\xc3\r\n\r\n")
    render = compile_template("{{.Request.RequestURI}} {{js .Request.UserAgent}}", LogEntry)
    assert encoded(render(LogEntry(odd))) == b"/\xff?\xfe \xff\xc3"


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
        compile_template(nested, LogEntry)


def test_garbage_is_refused_and_takes_no_time() -> None:
    started = time.process_time()
    for garbage in ("{{/*" * 2000, "{{" * 5000, '{{"' + "\\" * 20_000, "{{ " + "1" * 50_000):
        with pytest.raises(TemplateError):
            compile_template(garbage, LogEntry)
    assert time.process_time() - started < 1.0
