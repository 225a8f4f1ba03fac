"""What a client is told, and whether it may try again."""

from __future__ import annotations

import pytest

from throttler.errors import (
    ActivatorError,
    RequestQueueFull,
    RequestTimedOut,
    RevisionNotFound,
    UpstreamFailed,
)


@pytest.mark.parametrize(
    ("error", "status", "text", "retriable"),
    [
        (
            RevisionNotFound("hello"),
            404,
            'revision.serving.knative.dev "hello" not found',
            True,
        ),
        (RevisionNotFound(""), 404, 'revision.serving.knative.dev "" not found', True),
        (RequestQueueFull("total-bytes"), 503, "pending request queue full", True),
        (RequestTimedOut(), 504, "activator request timeout", True),
        (UpstreamFailed("connection reset"), 502, "connection reset", False),
    ],
)
def test_each_error_has_its_status_its_text_and_says_whether_it_may_be_repeated(
    error: ActivatorError, status: int, text: str, retriable: bool
) -> None:
    assert isinstance(error, ActivatorError)
    assert (error.status, str(error), error.retriable) == (status, text, retriable)


def test_a_full_queue_says_which_bound_is_reached() -> None:
    assert RequestQueueFull("revision-depth").bound == "revision-depth"
