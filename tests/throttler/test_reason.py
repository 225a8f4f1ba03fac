"""The words of reasons; test_wait_reason.py tests when each of them holds."""

from __future__ import annotations

from throttler.reason import ROWS, TABLE, Reason, of_connections


def test_each_reason_has_one_row() -> None:
    assert [row.reason for row in TABLE] == list(Reason)
    assert ROWS.keys() == set(Reason)


def test_a_text_about_requests_becomes_one_about_connections_and_names_stay() -> None:
    text = "No request waits: requests of default/request-log and request.example wait, request 1."
    assert of_connections(text) == (
        "No connection waits: connections of default/request-log and request.example wait, "
        "connection 1."
    )
    assert of_connections("never requested") == "never requested"
