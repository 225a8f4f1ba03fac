"""Long responses arrive completely, in pieces; other tasks run between the pieces."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activator.admin.streaming import BLOCK, PIECE, encode, in_order, in_turns, json_pieces

ELEMENTS = st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3))


@given(ELEMENTS)
def test_the_pieces_are_one_object(elements):
    text = b"".join(json_pieces("things", elements, {"rest": 1}))
    assert json.loads(text) == {"things": elements, "rest": 1}


def test_no_piece_is_much_longer_than_the_limit_and_nothing_is_made_ahead():
    made = 0

    def elements():
        nonlocal made
        for number in range(1000):
            made += 1
            yield {"number": number, "text": "x" * 1000}

    pieces = json_pieces("things", elements(), {"rest": 1})
    first = next(pieces)
    assert made < 100
    assert max(map(len, [first, *pieces])) < PIECE + 2000


async def test_others_have_a_turn_after_each_piece_also_an_empty_one():
    seen: list[object] = []

    async def others():
        while True:
            seen.append("others")
            await asyncio.sleep(0)

    def pieces():
        for piece in (b"a", b"", b"b"):
            seen.append(piece)
            yield piece

    other = asyncio.ensure_future(others())
    assert [piece async for piece in in_turns(pieces())] == [b"a", b"b"]
    other.cancel()
    assert seen[:6] == [b"a", "others", b"", "others", b"b", "others"]


@pytest.mark.parametrize("value", ["\ud800", {"a": ["\udfff", "é"]}])
def test_half_a_surrogate_pair_is_escaped(value):
    assert json.loads(encode(value)) == value


def test_text_is_utf_8():
    assert encode({"name": "é"}) == '{"name":"é"}'.encode()


@pytest.mark.parametrize("count", [0, 1, BLOCK, 3 * BLOCK + 7])
def test_sorting_pauses_and_then_yields_all_in_order(count):
    items = [f"{number * 7919 % (count + 1):05}" for number in range(count)]
    found = list(in_order(items, str))
    pauses = -(-count // BLOCK)
    assert found == [None] * pauses + sorted(items)


def test_a_pause_among_the_elements_is_an_empty_piece():
    pieces = list(json_pieces("things", iter([None, {"a": 1}, None, {"a": 2}]), {"rest": 1}))
    assert pieces[:2] == [b"", b""]
    assert json.loads(b"".join(pieces)) == {"things": [{"a": 1}, {"a": 2}], "rest": 1}
