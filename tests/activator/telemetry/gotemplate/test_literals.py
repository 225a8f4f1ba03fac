"""Go's constants."""

from __future__ import annotations

import pytest

from activator.telemetry.gotemplate.lexer import Kind
from activator.telemetry.gotemplate.literals import READERS


@pytest.mark.parametrize(
    ("kind", "literal", "value"),
    [
        (Kind.STRING, r'"a\"\n\t\\"', 'a"\n\t\\'),
        (Kind.STRING, r'"\u00e9\U0001F600\101\xc3\xa9"', "é😀Aé"),
        (Kind.STRING, r'"\xff"', "\udcff"),
        (Kind.RAW_STRING, "`a\\n\r`", "a\\n"),
        (Kind.CHARACTER, r"'\''", 39),
        (Kind.CHARACTER, "'é'", 0xE9),
        (Kind.CHARACTER, r"'\xff'", 0xFF),
        (Kind.NUMBER, "1_000", 1000),
        (Kind.NUMBER, "017", 15),
        (Kind.NUMBER, "0x1F", 31),
        (Kind.NUMBER, "-5", -5),
        (Kind.NUMBER, "1e3", 1000.0),
        (Kind.NUMBER, ".5", 0.5),
    ],
)
def test_literals_mean_what_they_mean_in_go(kind: Kind, literal: str, value: object) -> None:
    found = READERS[kind](literal)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "literal"),
    [
        (Kind.STRING, r'"\q"'),
        (Kind.STRING, r'"\'"'),
        (Kind.STRING, r'"\ud800"'),
        (Kind.CHARACTER, "'ab'"),
        (Kind.CHARACTER, r"'\"'"),
        (Kind.NUMBER, "08"),
        (Kind.NUMBER, "0x"),
        (Kind.NUMBER, "1__0"),
        (Kind.NUMBER, "1_"),
        (Kind.NUMBER, "9223372036854775808"),
        (Kind.NUMBER, "1e400"),
        (Kind.NUMBER, "1i"),
        (Kind.NUMBER, "1" * 5000),
    ],
)
def test_what_is_no_literal_is_refused(kind: Kind, literal: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 # the parser says it with the place
        READERS[kind](literal)
