"""Tokens, their places, and the spaces that trim markers remove."""

from __future__ import annotations

import pytest

from activator.telemetry.gotemplate.errors import At, TemplateError
from activator.telemetry.gotemplate.lexer import Kind, tokens


def texts(template: str) -> list[str]:
    return [token.text for token in tokens(template)]


def test_every_kind_of_token() -> None:
    template = "a{{f .X $y . \"s\" `r` 'c' -1.5 := = | ( ) , }}"
    assert [(token.kind.name, token.text) for token in tokens(template)] == [
        ("TEXT", "a"),
        ("LEFT", "{{"),
        ("WORD", "f"),
        ("FIELD", ".X"),
        ("VARIABLE", "$y"),
        ("DOT", "."),
        ("STRING", '"s"'),
        ("RAW_STRING", "`r`"),
        ("CHARACTER", "'c'"),
        ("NUMBER", "-1.5"),
        ("DECLARE", ":="),
        ("ASSIGN", "="),
        ("PIPE", "|"),
        ("OPEN", "("),
        ("CLOSE", ")"),
        ("COMMA", ","),
        ("RIGHT", "}}"),
        ("END", ""),
    ]


def test_places_count_lines_and_columns_from_1() -> None:
    found = [(token.text, token.at) for token in tokens("ab\n c{{x\n .Y}}")]
    assert found[2:4] == [("x", At(2, 5)), (".Y", At(3, 2))]


def test_a_blank_parts_operands() -> None:
    spaced = [token.spaced for token in tokens("{{a .B.C}}") if token.kind is not Kind.LEFT]
    assert spaced == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("template", "left"),
    [
        ("a \n{{- 1 -}}\t b", ["a", "{{", "1", "}}", "b", ""]),
        ("a {{-1}}", ["a ", "{{", "-1", "}}", ""]),
        ("a {{- /* c\nd */ -}} b", ["a", "b", ""]),
        ("a {{/* }} */}} b", ["a ", " b", ""]),
        ("  {{- 1}}", ["{{", "1", "}}", ""]),
    ],
)
def test_trim_markers_and_comments(template: str, left: list[str]) -> None:
    assert texts(template) == left


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{", "1:1: this action is not closed by }}"),
        ("{{ @ }}", "1:4: unexpected '@'"),
        ('{{"a}}', "1:3: this string does not end"),
        ('{{"a\nb"}}', "1:3: this string does not end"),
        ("{{/* a }}", "1:3: this comment is not closed by */"),
        ("{{/* a */ b}}", "1:3: a comment must be closed by */}} at once"),
        ('{{.X"a"}}', "1:5: unexpected '\"'"),
        ("{{ /* a */}}", "1:4: unexpected '/'"),
    ],
)
def test_what_is_no_token_is_named_with_its_place(template: str, reason: str) -> None:
    with pytest.raises(TemplateError) as caught:
        list(tokens(template))
    assert str(caught.value) == reason
