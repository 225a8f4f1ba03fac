"""The error texts that a client gets."""

from __future__ import annotations

import pytest

from throttler.errors import (
    ActivatorError,
    RequestQueueFull,
    RevisionNotFound,
    WaitTooLong,
)


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (RevisionNotFound("hello"), 404, 'revision "hello" not found'),
        (RevisionNotFound(""), 404, 'revision "" not found'),
        (RequestQueueFull("total-bytes"), 503, "pending request queue full"),
        (WaitTooLong(70.0, 60.0), 503, "expected wait exceeds the time-out"),
    ],
)
def test_each_error_has_its_status_and_its_text(
    error: ActivatorError, status: int, text: str
) -> None:
    assert isinstance(error, ActivatorError)
    assert (error.status, str(error)) == (status, text)


def test_a_full_queue_says_which_bound_is_reached() -> None:
    assert RequestQueueFull("revision-depth").limit == "revision-depth"
