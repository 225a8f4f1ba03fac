"""The tables of states: each state has its row, can end, and is reached."""

from __future__ import annotations

from types import GetSetDescriptorType
from typing import Any

import pytest

from activator.proxy.client import http1 as client
from activator.proxy.exchange import sides as exchange
from activator.proxy.exchange.exchange import Exchange
from activator.proxy.http2 import connection as http2
from activator.proxy.pods import http1 as pods
from activator.proxy.pods import http2 as pods_http2
from activator.proxy.transport.peer_socket import UnreadBytes

#: States, the states that may follow each, the first and the last.
TABLES: dict[str, tuple[Any, Any, Any, Any]] = {
    "client": (client.Http1ClientState, client.FOLLOWS, None, client.CLOSED),
    "exchange": (exchange.ExchangeState, exchange.FOLLOWS, exchange.NEW, exchange.DONE),
    "pod": (pods.Http1PodState, pods.HTTP1_FOLLOWS, pods.OPENING, pods.CLOSED),
    "pod-http2": (
        pods_http2.Http2PodState,
        pods_http2.HTTP2_FOLLOWS,
        pods_http2.Http2PodState.OPENING,
        pods_http2.Http2PodState.CLOSED,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_each_state_has_its_row_and_the_last_one_is_the_end(name):
    states, follows, _, last = TABLES[name]
    assert set(follows) == set(states)
    assert follows[last] == frozenset((last,) if name == "pod" else ())


@pytest.mark.parametrize("name", ["client", "exchange"])
def test_each_state_can_end(name):
    states, follows, _, last = TABLES[name]
    assert all(last in follows[state] for state in states if state is not last)


@pytest.mark.parametrize("name", TABLES)
def test_each_state_is_reached(name):
    states, follows, first, _ = TABLES[name]
    assert set().union(*follows.values()) == set(states) - {first}


def test_a_client_sends_no_request_behind_the_last_response():
    for state in (client.DISCARDING, client.LINGERING, client.CLOSED):
        assert client.READING_HEAD not in client.FOLLOWS[state]
        assert client.FOLLOWS[state] <= {client.LINGERING, client.CLOSED}


def test_no_request_is_sent_again_once_its_response_has_begun():
    for state in exchange.RESPONSE_BEGUN:
        assert exchange.FOLLOWS[state] == {exchange.DONE}
    assert exchange.SENT in exchange.FOLLOWS[exchange.SENT]


@pytest.mark.skipif(
    isinstance(Exchange.__dict__["state"], GetSetDescriptorType),
    reason="a compiled exchange has no attributes that Python could watch",
)
def test_the_tests_check_each_change_of_an_exchange_against_the_table():
    watched = Exchange.__new__(Exchange)
    watched.state = exchange.NEW
    watched.state = exchange.DONE
    with pytest.raises(AssertionError, match=r"from ExchangeState\.DONE to ExchangeState\.SENT"):
        watched.state = exchange.SENT
    assert watched.state is exchange.DONE
    vars(Exchange)["state"].wrong.clear()  # else this test fails as any other would


@pytest.mark.parametrize("before", http2.ConnectionState)
@pytest.mark.parametrize("after", http2.ConnectionState)
async def test_a_connection_of_http2_that_ends_never_goes_on(before, after):
    link = http2.Http2Connection(http2.GONE, lambda: 0.0, UnreadBytes(), server=True)
    link.move(before)
    link.move(after)
    goes_on = before in (http2.OPEN, http2.GOAWAY_DUE) or after is http2.CLOSED
    assert link.state is (after if goes_on else before)


def test_a_request_is_sent_to_a_pod_on_an_idle_connection_alone():
    assert [state for state, after in pods.HTTP1_FOLLOWS.items() if pods.SENT in after] == [
        pods.IDLE
    ]


def test_no_head_follows_a_body_on_a_connection_to_a_pod():
    assert pods.HTTP1_FOLLOWS[pods.BODY] == {pods.IDLE, pods.CLOSED}


def test_a_connection_to_a_pod_that_has_ended_in_http2_stays_so():
    for state in (pods_http2.Http2PodState.OTHER_PROTOCOL, pods_http2.Http2PodState.CLOSED_EARLY):
        assert not pods_http2.HTTP2_FOLLOWS[state]
