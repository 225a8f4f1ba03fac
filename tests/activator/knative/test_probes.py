"""What queue-proxy is asked; how it is sent is in probing/test_probe.py."""

from __future__ import annotations

from activator.knative.probes import QUEUE_PROXY


def test_only_200_with_its_word_means_ready() -> None:
    assert QUEUE_PROXY.body == b"queue"
    assert [status for status in range(100, 600) if QUEUE_PROXY.accepts(status)] == [200]
