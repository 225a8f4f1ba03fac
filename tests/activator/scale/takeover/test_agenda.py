"""Which slices are compared next, and how many at a time."""

from __future__ import annotations

from math import inf

from activator.scale.reports.load import ServiceName
from activator.scale.takeover.slices import SliceKey
from activator.scale.takeover.takeovers import MOST, Agenda

KEYS = [SliceKey("shop", f"s{n}-activator") for n in range(MOST + 1)]


def test_a_slice_is_due_once_in_the_order_of_the_events() -> None:
    agenda = Agenda()
    agenda.extend(KEYS[:2])
    agenda.add(KEYS[2])
    agenda.add(KEYS[0])
    assert list(agenda.take_keys()) == KEYS[:3]
    assert not agenda.is_due
    assert list(agenda.take_keys()) == []


def test_a_later_slice_is_due_at_its_time() -> None:
    agenda = Agenda()
    agenda.add_at(7.0, KEYS[0])
    agenda.add_at(5.0, KEYS[1])
    assert agenda.next_time == 5
    agenda.advance(4.9)
    assert not agenda.is_due
    agenda.advance(5.0)
    assert list(agenda.take_keys()) == [KEYS[1]]
    assert agenda.next_time == 7


def test_one_call_gets_a_few_slices_and_a_few_services() -> None:
    agenda = Agenda()
    names = [ServiceName("shop", f"s{n}") for n in range(MOST + 1)]
    agenda.sweep(names)
    assert len(agenda.take_names()) == MOST
    assert agenda.is_due
    assert agenda.take_names() == names[:1]
    assert not agenda.is_due
    agenda.extend(KEYS)
    assert list(agenda.take_keys()) == KEYS[:MOST]
    assert list(agenda.take_keys()) == KEYS[MOST:]


def test_a_cleared_agenda_has_nothing() -> None:
    agenda = Agenda()
    agenda.add(KEYS[0])
    agenda.add_at(5.0, KEYS[1])
    agenda.sweep([ServiceName("shop", "s0")])
    agenda.clear()
    assert (agenda.is_due, agenda.next_time) == (False, inf)
