"""The states of an exchange."""

from __future__ import annotations

from types import GetSetDescriptorType

import pytest

from activator.proxy.exchange.exchange import Exchange
from activator.proxy.exchange.states import DONE, FOLLOWS, NEW, RESPONSE_BEGUN, SENT, State


def test_each_state_has_its_row_and_can_end():
    assert set(FOLLOWS) == set(State)
    assert all(DONE in FOLLOWS[state] for state in State if state is not DONE)
    assert FOLLOWS[DONE] == frozenset()


def test_each_state_but_the_first_is_reached():
    assert set().union(*FOLLOWS.values()) == set(State) - {NEW}


def test_no_request_is_sent_again_once_its_response_has_begun():
    for state in RESPONSE_BEGUN:
        assert FOLLOWS[state] == {DONE}
    assert SENT in FOLLOWS[SENT]


@pytest.mark.skipif(
    isinstance(Exchange.__dict__["state"], GetSetDescriptorType),
    reason="a compiled exchange has no attributes that Python could watch",
)
def test_the_tests_check_each_change_of_an_exchange_against_the_table():
    exchange = Exchange.__new__(Exchange)
    exchange.state = NEW
    exchange.state = DONE
    with pytest.raises(AssertionError, match=r"from State\.DONE to State\.SENT"):
        exchange.state = SENT
    assert exchange.state is DONE
    vars(Exchange)["state"].wrong.clear()  # else this test fails as any other would
