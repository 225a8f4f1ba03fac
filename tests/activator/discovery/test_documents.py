from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.discovery import documents
from activator.discovery.documents import Document, DocumentError
from tests.rows import in_one_test


def yaml(text: str) -> list[Any]:
    return [document.value for document in documents.parse(text.encode(), is_json=False)]


def test_documents_come_in_order_with_their_lines_and_empty_ones_are_left_out() -> None:
    found = documents.parse(b"# note\na: 1\n---\n---\n\nb: [x, {c: null}]\n", is_json=False)
    assert found == [Document({"a": 1}, 2), Document({"b": ["x", {"c": None}]}, 6)]


def test_json_files_may_hold_several_documents_too() -> None:
    found = documents.parse(b'{"a": 1}\n\n{"b": [2]}', is_json=True)
    assert found == [Document({"a": 1}, 1), Document({"b": [2]}, 3)]


def test_anchors_and_merges_work_and_times_stay_text() -> None:
    assert yaml("a: &a {x: 1}\nb: {<<: *a, y: *a}\nt: 2024-01-01T00:00:00Z\n") == [
        {"a": {"x": 1}, "b": {"x": 1, "y": {"x": 1}}, "t": "2024-01-01T00:00:00Z"}
    ]


def test_a_time_stays_a_text_also_by_its_tag() -> None:
    text = b"a: !!timestamp 2024-01-01\nb: !!timestamp x\n!!timestamp 200101: 1\n"
    (found,) = documents.parse(text, is_json=False)
    assert found.value == {"a": "2024-01-01", "b": "x", "200101": 1}


def test_an_unforeseen_error_of_a_value_is_one_of_its_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("yaml.CSafeLoader.construct_document", Mock(side_effect=AttributeError))
    with pytest.raises(DocumentError, match="in the document that starts here"):
        documents.parse(b"a: 1", is_json=False)


def test_a_byte_order_mark_is_no_error() -> None:
    assert documents.parse(b'\xef\xbb\xbf{"a": 1}', is_json=True) == [Document({"a": 1}, 1)]


@in_one_test(
    ("text", "line", "column", "reason"),
    [
        (b"a: 1\nb: [", 3, 1, "did not find expected node content"),
        (b"a: 1\nb: 2\na: 3\n", 3, 1, "duplicate key 'a'"),
        (b"a:\n  - x: 1\n    x: 2\n", 3, 5, "duplicate key 'x'"),
        (b"a: 1\nb: \x01\n", 2, 4, "a character that YAML does not allow"),
        (b"a: 1\nb: x\xff\n", 2, 5, "not UTF-8: byte 0xff"),
        (b"a: &a [*a]\n", 1, 8, "alias *a refers to nothing"),
        (b"a: &x 1\n---\nb: *x\n", 3, 4, "alias *x refers to nothing"),
        (b"? [1, 2]\n: 3\n", 1, 3, "a key must be a plain value"),
        (b"a: !!python/name:os.system x\n", 1, 4, "could not determine a constructor"),
        (b"a: 1\n---\nb: " + b"9" * 5000, 3, 1, "in the document that starts here"),
    ],
)
def test_broken_yaml_is_pointed_at(text: bytes, line: int, column: int, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        documents.parse(text, is_json=False)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (b'{"a": 1,\n "b": }', 2, "Expecting value"),
        (b'{"a": 1}\n{"b": 1, "b": 2}', 2, "duplicate key 'b'"),
        (b"[" * 1_000_000, 1, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", 1, "in the document that starts here"),
    ],
)
def test_broken_json_is_pointed_at(text: bytes, line: int, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        documents.parse(text, is_json=True)
    assert caught.value.line == line
    assert reason in caught.value.reason


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_and_does_not_crash(opening: str) -> None:
    # The libyaml of PyYAML 6.0.4 reads ahead, and refuses 1,000 open brackets before the limit.
    expected = "nested more than 100 levels|exceeded maximum nesting depth"
    with pytest.raises(DocumentError, match=expected):
        documents.parse((opening * 200_000).encode(), is_json=False)


@pytest.mark.parametrize("use", ["[{0},{0},{0},{0},{0},{0},{0},{0},{0}]", "{{<<: [{0},{0}]}}"])
def test_aliases_that_multiply_are_refused(use: str) -> None:
    first = "a0: &a0 {k: [x, x, x, x]}\n"
    more = "".join(f"a{i}: &a{i} {use.format(f'*a{i - 1}')}\n" for i in range(1, 40))
    with pytest.raises(DocumentError, match="with all aliases resolved"):
        documents.parse((first + more).encode(), is_json=False)


@given(st.binary(max_size=60) | st.text("ab:[]{}&*-?!|>'\"#% \n<,1.", max_size=60), st.booleans())
def test_any_bytes_give_documents_or_the_typed_error(content: bytes | str, is_json: bool) -> None:
    data = content if isinstance(content, bytes) else content.encode()
    try:
        found = documents.parse(data, is_json=is_json)
    except DocumentError as error:
        found = []
        lines = error.line
    else:
        lines = 1
    assert 1 <= lines <= data.count(b"\n") + data.count(b"\r") + 2
    assert all(document.value is not None for document in found)
