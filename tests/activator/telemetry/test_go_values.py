"""Go's values in print, where the comparison with Go (test_template.py) does not reach."""

from __future__ import annotations

import json

import pytest

from activator.telemetry.go_values import (
    ExecutionError,
    GoMap,
    GoStruct,
    decoded,
    encoded,
    js,
    show,
    truth,
    type_name,
)
from tests.rows import in_one_test


@in_one_test(
    ("value", "text"),
    [
        ("a", "a"),
        (True, "true"),
        (7, "7"),
        (0.0, "0"),
        (1.0, "1"),
        (0.0123, "0.0123"),
        (1.5e-05, "1.5e-05"),
        (100000.0, "100000"),
        (1e6, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (-2.5e20, "-2.5e+20"),
        (float("inf"), "+Inf"),
        (["a", "b"], "[a b]"),
        ([], "[]"),
        (GoMap({"b": ["1", "2"], "a": []}), "map[a:[] b:[1 2]]"),
    ],
)
def test_printed_as_go_does(value: object, text: str) -> None:
    assert show(value) == text


def test_a_struct_that_go_prints_with_addresses_is_not_printed() -> None:
    with pytest.raises(ExecutionError, match="struct cannot be printed"):
        show(GoStruct())


def test_empty_values_are_false_and_all_others_true() -> None:
    assert all(map(truth, (GoStruct(), "a", 1, 0.1, True, ["a"], GoMap(a=["b"]))))
    assert not any(map(truth, ("", 0, 0.0, False, [], GoMap())))


def test_types_have_gos_names() -> None:
    kinds = (str, int, float, bool, list, GoStruct, object)
    names = ["string", "int", "float64", "bool", "[]string", "struct", "any"]
    assert [type_name(kind) for kind in kinds] == names


def test_bytes_survive_being_texts() -> None:
    data = bytes(range(256))
    assert encoded(decoded(data)) == data


def test_js_makes_the_inside_of_a_json_text_of_anything() -> None:
    everything = "".join(map(chr, [*range(0x3000), 0xFFFD, 0x1F600, 0xE0001, 0x10FFFF]))
    everything = "".join(c for c in everything if not 0xD800 <= ord(c) < 0xE000)
    assert json.loads(f'"{js(everything)}"') == everything


def test_js_is_gos_but_for_the_apostrophe() -> None:
    assert js('<a href="x">&\'\\\n') == (
        '\\u003Ca href\\u003D\\"x\\"\\u003E\\u0026\\u0027\\\\\\u000A'
    )
