"""The waiting page and the responses to peeks, without a connection."""

from __future__ import annotations

from dataclasses import replace

import pytest

from activator.proxy.message.waiting_page import (
    Start,
    StartPhase,
    Template,
    page,
    peek,
    whole_seconds,
)
from throttler.reason import Reason

EVERYTHING = Template(
    "{{polling}}<p>{{name}} {{namespace}} {{phase}} {{step}} {{message}} {{forecast}} {{reason}}"
)


def start(phase: StartPhase = StartPhase.ASKED, forecast: int | None = None) -> Start:
    return Start("shop", "default", phase, forecast, Reason.NO_ENDPOINTS, "")


@pytest.mark.parametrize(
    ("phase", "forecast", "shown"),
    [
        (StartPhase.ASKED, None, "asked 1 A new instance is requested. not known yet"),
        (StartPhase.LISTED, 89, "listed 2 An instance is starting. about 89 s"),
        (StartPhase.PROBED, 90, "probed 3 An instance runs. It does not respond yet. about 2 min"),
        (StartPhase.BUSY, 1, "busy 3 All instances are busy at the moment. about 1 s"),
        (
            *(StartPhase.FAILED, None),
            "failed 0 It did not start in time (no-endpoints). Load this page again to retry. "
            "not known yet",
        ),
    ],
)
def test_a_page_has_the_phase_and_the_forecast(
    phase: StartPhase, forecast: int | None, shown: str
) -> None:
    body = page(EVERYTHING, start(phase, forecast)).body.decode()
    assert body.endswith(f"<p>shop default {shown} no-endpoints")


def test_a_peek_has_the_phase_and_the_forecast_until_a_request_would_be_served() -> None:
    assert b"Activator-Forecast: 7" in peek(start(forecast=7)).fields
    assert b"Activator-Forecast" not in peek(start()).fields
    assert (peek(start()).status, peek(None).status, peek(None).why) == (503, 200, "")


def test_a_late_start_is_longer_than_usual_and_has_no_forecast() -> None:
    late = replace(start(StartPhase.LISTED), is_late=True)
    assert b"longer than usual" in page(EVERYTHING, late).body
    assert b"Activator-Forecast: late" in peek(late).fields


def test_the_last_page_does_not_load_itself_again() -> None:
    for phase, status in ((StartPhase.ASKED, 503), (StartPhase.FAILED, 504)):
        shown, peeked = page(EVERYTHING, start(phase)), peek(start(phase))
        assert shown.status == peeked.status == status
        assert (b'http-equiv="refresh"' in shown.body) == (phase is StartPhase.ASKED)
        assert (shown.retry_after is None) == (peeked.retry_after is None) == (status == 504)


@pytest.mark.parametrize(("expected", "shown"), [(None, None), (0.0, 1), (0.2, 1), (1.01, 2)])
def test_a_forecast_is_in_whole_seconds(expected: float | None, shown: int | None) -> None:
    assert whole_seconds(expected) == shown
