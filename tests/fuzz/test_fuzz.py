"""The fuzzer itself, and a short run of it where the compiled build is installed."""

from __future__ import annotations

from enum import Enum

import pytest

from activator.build import Build, running
from activator.proxy.message.grammar import FramingError
from tests.fuzz import __main__ as fuzz
from tests.fuzz.corpus import CORPUS
from tests.fuzz.inputs import made
from tests.fuzz.outcome import described, digest, outcome
from tests.fuzz.parsers import PARSERS

#: Each parser gets some hundreds of them.
FEW = 5000


def test_an_input_is_the_same_each_time_and_another_for_another_seed():
    inputs = [made(1, number) for number in range(200)]
    assert inputs == [made(1, number) for number in range(200)]
    assert inputs != [made(2, number) for number in range(200)]


def test_pieces_are_those_of_the_input_in_order():
    for number in range(500):
        name, pieces = made(3, number)
        assert len(pieces) == 1 or PARSERS[name].in_pieces
        assert all(isinstance(piece, bytes) for piece in pieces)


def test_each_parser_has_inputs_that_it_takes_and_some_that_it_refuses():
    taken, refused = set(), set()
    for number in range(FEW):
        name, pieces = made(1, number)
        found = outcome(PARSERS[name].parse, pieces)
        if not found.startswith("raise "):
            taken.add(name)
        if "raise " in found:
            refused.add(name)
    assert taken == set(PARSERS)
    assert set(PARSERS) - refused <= {"body of a length", "field lines", "response with bare LF"}


def test_a_parser_raises_no_error_that_its_caller_does_not_expect():
    expected = ("FramingError", "ConnectionFault", "ValueError")
    for number in range(FEW):
        name, pieces = made(4, number)
        found = outcome(PARSERS[name].parse, pieces)
        if found.startswith("raise "):
            assert found.removeprefix("raise ").startswith(expected), (number, name, found)


def test_each_kind_of_input_is_used():
    assert {parser.corpus for parser in PARSERS.values()} == set(CORPUS)


class Colour(Enum):
    RED = "red"


def test_outcomes_differ_where_values_types_or_attributes_do():
    error = FramingError("wrong", 431)
    values = [
        *(1, True, 1.0, "1", b"1", None, [1], (1,), {1: 2}, {2: 1}, {1}, frozenset({1})),
        *(Colour.RED, error, FramingError("wrong", 400), ValueError("wrong"), KeyError("wrong")),
    ]
    texts = [described(value) for value in values]
    assert len(set(texts)) == len(values)
    assert len({digest(text) for text in texts}) == len(values)
    assert described({b"b": 1, b"a": 2}) != described({b"a": 2, b"b": 1})  # the order counts


def test_a_difference_is_shown_and_counted(monkeypatch, capsys):
    monkeypatch.setattr(fuzz, "outcomes", lambda seed, numbers: [("a", "a"), ("a", "b")])
    shown = []
    monkeypatch.setattr(fuzz, "show", lambda seed, number: shown.append(number))
    assert fuzz.compare(7, range(2)) == 1
    assert shown == [1]
    assert capsys.readouterr().out == "2 inputs of seed 7: 1 different outcomes\n"


@pytest.mark.skipif(running() is Build.PURE, reason="this run is on the source: make test-compiled")
def test_both_builds_make_the_same_of_the_same_bytes(capsys):
    assert fuzz.compare(1, range(FEW)) == 0, capsys.readouterr().out


@pytest.mark.skipif(running() is Build.COMPILED, reason="this run is on the compiled build")
def test_without_a_compiled_build_it_says_how_to_get_one(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fuzz"])
    assert fuzz.main() == 2
    assert "make fuzz" in capsys.readouterr().out
