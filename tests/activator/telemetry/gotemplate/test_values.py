"""How Go's values are printed, and which of them count as true."""

from __future__ import annotations

import pytest

from activator.telemetry.gotemplate.errors import ExecutionError
from activator.telemetry.gotemplate.values import (
    MISSING,
    GoMap,
    GoStruct,
    decoded,
    encoded,
    show,
    truth,
    type_name,
)


@pytest.mark.parametrize(
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
        (None, "<nil>"),
        (MISSING, "<no value>"),
    ],
)
def test_printed_as_go_does(value: object, text: str) -> None:
    assert show(value) == text


def test_a_struct_that_go_prints_with_addresses_is_not_printed() -> None:
    with pytest.raises(ExecutionError, match="struct cannot be printed"):
        show(GoStruct())


def test_empty_values_are_false_and_all_others_true() -> None:
    assert all(map(truth, (GoStruct(), "a", 1, 0.1, True, ["a"], GoMap(a=["b"]))))
    assert not any(map(truth, ("", 0, 0.0, False, [], GoMap(), None, MISSING)))


def test_types_have_gos_names() -> None:
    kinds = (str, int, float, bool, list, GoStruct, type(None))
    names = ["string", "int", "float64", "bool", "[]string", "struct", "nil"]
    assert [type_name(kind) for kind in kinds] == names


def test_bytes_survive_being_texts() -> None:
    data = bytes(range(256))
    assert encoded(decoded(data)) == data
