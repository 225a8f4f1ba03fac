from __future__ import annotations

from activator.lab.control_plane.writes import merge
from tests.rows import naming


def test_examples_of_the_rfc():
    for target, patch, wanted in (
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a"], {"a": "b"}, {"a": "b"}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ):
        with naming(target, patch):
            assert merge(target, patch) == wanted


def test_neither_argument_changes():
    target, patch = {"a": {"b": 1}}, {"a": {"c": [2]}}
    merge(target, patch)["a"]["c"].append(3)
    assert (target, patch) == ({"a": {"b": 1}}, {"a": {"c": [2]}})
