"""A ring of numbers behaves as a sorted list that begins again after its end."""

from __future__ import annotations

import random
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from throttler.rendezvous import SIZE, Ring


def ring_of(numbers: set[int]) -> Ring:
    ring = Ring()
    for number in numbers:
        ring.add(number)
    return ring


@given(st.sets(st.integers(0, 30), min_size=1), st.sets(st.integers(0, 30)), st.integers(0, 31))
def test_a_ring_yields_what_is_left_in_order(
    added: set[int], removed: set[int], start: int
) -> None:
    ring = ring_of(added)
    for number in added & removed:
        ring.remove(number)
    left = sorted(added - removed)
    expected = [n for n in left if n >= start] + [n + SIZE for n in left if n < start]
    assert list(ring.after(start)) == expected
    if left:
        assert ring.first(start) == expected[0]


def test_thousands_of_numbers_come_and_go() -> None:
    """So many numbers that parts are split, become empty, and are searched at their borders."""
    chance = random.Random(3)
    ring, model = Ring(), set[int]()
    for share in (0.9, 0.5, 0.1, 0.7, 0.0):
        for _ in range(4000):
            number = chance.randrange(20_000)
            if chance.random() < share and number not in model:
                model.add(number)
                ring.add(number)
            elif model and number in model:
                model.remove(number)
                ring.remove(number)
        ordered = sorted(model)
        assert list(ring.after(0)) == ordered
        for start in (*ordered[:: max(len(ordered) // 50, 1)], 20_000):
            expected = [n for n in ordered if n >= start] + [n + SIZE for n in ordered]
            assert list(islice(ring.after(start), 5)) == expected[:5]
            assert ring.first(start) == expected[0]
        for start in (ordered[len(ordered) // 2], 20_000):  # once around, over all parts
            expected = [n for n in ordered if n >= start]
            assert list(ring.after(start)) == expected + [n + SIZE for n in ordered if n < start]
    for number in model:
        ring.remove(number)
    assert list(ring.after(0)) == []
