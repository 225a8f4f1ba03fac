"""Functions, where the comparison with Go (test_compiler.py) does not reach."""

from __future__ import annotations

import json

import pytest

from activator.telemetry.gotemplate.errors import ExecutionError
from activator.telemetry.gotemplate.functions import FUNCTIONS, js, sprint


def test_js_makes_the_inside_of_a_json_text_of_anything() -> None:
    everything = "".join(map(chr, [*range(0x3000), 0xFFFD, 0x1F600, 0xE0001, 0x10FFFF]))
    everything = "".join(c for c in everything if not 0xD800 <= ord(c) < 0xE000)
    assert json.loads(f'"{js(everything)}"') == everything


def test_js_is_gos_but_for_the_apostrophe() -> None:
    assert js('<a href="x">&\'\\\n') == (
        '\\u003Ca href\\u003D\\"x\\"\\u003E\\u0026\\u0027\\\\\\u000A'
    )


def test_blanks_stand_between_what_is_no_text() -> None:
    assert sprint(1, 2, "a", 3, "b", "c", 4.5, True) == "1 2a3b" + "c4.5 true"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("index", (["a"], 1)),
        ("index", (["a"], -1)),
        ("index", (["a"], True)),
        ("index", ("a", "b")),
        ("index", ({"a": ["b"]}, 1)),
        ("index", (None, 1)),
        ("slice", ("abc", 2, 1)),
        ("slice", ("abc", 0, 1, 2)),
        ("slice", (7,)),
        ("len", (7,)),
        ("lt", (1, 1.0)),
        ("lt", (True, False)),
        ("eq", ([], [])),
        ("printf", (1,)),
    ],
)
def test_what_does_not_fit_fails(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(ExecutionError):
        FUNCTIONS[name].call(*arguments)


def test_orders_of_texts_are_those_of_their_bytes() -> None:
    assert FUNCTIONS["lt"].call("Z", "a") is True
    assert FUNCTIONS["ge"].call("é", "z") is True
