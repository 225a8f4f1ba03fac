"""What queue-proxy's probe contains; probing/test_probe.py tests how it is sent."""

from __future__ import annotations

from activator.knative.words import QUEUE_PROXY


def test_only_200_with_its_word_means_ready() -> None:
    assert QUEUE_PROXY.body == b"queue"
    assert [status for status in range(100, 600) if QUEUE_PROXY.accepts(status)] == [200]
