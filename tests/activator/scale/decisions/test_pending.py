"""Services that change in one turn of the loop."""

from __future__ import annotations

import asyncio

from activator.scale.decisions.pending import MOST, Pending
from activator.scale.reports.load import Name

ONE, TWO = Name("shop", "one"), Name("shop", "two")


async def test_each_service_is_decided_once_at_the_end_of_the_turn() -> None:
    decided: list[list[Name]] = []
    pending = Pending(lambda names: decided.append(list(names)))
    pending.add(TWO)
    pending.update([ONE, TWO])
    assert decided == []
    await asyncio.sleep(0)
    assert decided == [[TWO, ONE]]
    pending.add(ONE)
    await asyncio.sleep(0)
    assert decided == [[TWO, ONE], [ONE]]


async def test_services_that_are_decided_now_are_not_decided_again() -> None:
    decided: list[list[Name]] = []
    pending = Pending(lambda names: decided.append(list(names)))
    pending.add(ONE)
    pending.clear()
    await asyncio.sleep(0)
    assert not any(decided)


async def test_thousands_of_changes_are_decided_in_several_turns() -> None:
    decided: list[list[Name]] = []
    pending = Pending(lambda names: decided.append(list(names)))
    names = [Name("shop", f"hello-{number}") for number in range(2 * MOST + 1)]
    pending.update(names)
    for _ in range(3):
        await asyncio.sleep(0)
        pending.add(ONE)
    await asyncio.sleep(0)
    assert [len(each) for each in decided] == [MOST, MOST, 2, 1]
    assert [name for each in decided for name in each] == [*names, ONE, ONE]
