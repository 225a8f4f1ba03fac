"""Responses of unknown servers, read one field at a time."""

from __future__ import annotations

import json

import pytest

from activator.console.responses import Node, parse, printable


def test_fields_of_each_kind():
    node = parse('{"t": "a", "w": 3, "n": 1.5, "f": true, "o": {"t": "b"}, "l": [{"w": 1}]}')
    inner = node.node("o")
    assert inner is not None
    assert (node.text("t"), node.whole("w"), node.number("n")) == ("a", 3, 1.5)
    assert node.number("w") == 3.0
    assert (node.flag("f"), node.flag("t"), node.flag("x")) == (True, False, False)
    assert inner.text("t") == "b"
    assert [one.whole("w") for one in node.nodes("l")] == [1]
    assert list(inner.items()) == [("t", "b")]
    nested = parse('{"a\\u0007": {"w": 1}, "b": null}')
    assert [(name, one.whole("w")) for name, one in nested.children()] == [("a?", 1)]
    assert list(parse('{"a": 1, "b": null}').numbers()) == [("a", 1.0)]


def test_what_is_absent_or_null():
    node = Node({"null": None}, "")
    for name in ("null", "absent"):
        assert name not in node
        assert node.text(name, default="-") == "-"
        assert node.node(name) is None
        assert node.nodes(name, required=False) == []


@pytest.mark.parametrize(
    ("text", "read", "says"),
    [
        ("<html>", None, "Expecting value"),
        ("[]", None, "the response: expected an object, got []"),
        ("[" * 100_000, None, "recursion"),
        ("{}", lambda node: node.nodes("l"), "l is missing"),
        ('{"l": {}}', lambda node: node.nodes("l"), "l: expected an array, got {}"),
        ('{"l": [1]}', lambda node: node.nodes("l"), "l[0]: expected an object, got 1"),
        ('{"l": [{}]}', lambda node: node.nodes("l")[0].whole("w"), "l[0].w is missing"),
        ('{"w": true}', lambda node: node.whole("w"), "w: expected a whole number, got True"),
        ('{"w": null}', lambda node: node.whole("w"), "w: expected a whole number, got None"),
        ('{"n": "1"}', lambda node: node.number("n"), "whole number or a number, got '1'"),
        (json.dumps({"t": ["x" * 999]}), lambda node: node.text("t"), "xxx"),
    ],
)
def test_the_field_that_is_wrong_is_named(text, read, says):
    with pytest.raises(ValueError, match=r".") as caught:
        read(parse(text))
    assert says in str(caught.value)
    assert len(str(caught.value)) < 150


def test_what_a_server_sends_cannot_steer_the_terminal():
    assert printable("a\x1b[2J\nb") == "a?[2J?b"
    assert parse('{"t": "\\u001b"}').text("t") == "?"
