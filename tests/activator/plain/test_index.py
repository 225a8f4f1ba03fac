from __future__ import annotations

from activator.plain.matches import Index


def test_a_key_has_no_value_one_or_several() -> None:
    index = Index[str, int]()
    assert list(index.get("a")) == []
    index.add("a", 1)
    index.add("a", 1)
    assert list(index.get("a")) == [1]
    index.add("a", 2)
    index.add("b", 3)
    assert list(index.get("a")) == [1, 2]
    assert list(index.get("b")) == [3]


def test_values_are_removed_one_by_one() -> None:
    index = Index[str, int]()
    for value in (1, 2, 3):
        index.add("a", value)
    for value, left in ((2, [1, 3]), (9, [1, 3]), (1, [3]), (1, [3]), (3, []), (3, [])):
        index.discard("a", value)
        assert list(index.get("a")) == left
    index.add("a", 0)
    assert list(index.get("a")) == [0]
