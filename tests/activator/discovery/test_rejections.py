from __future__ import annotations

import pytest

from activator.discovery.object_warnings import Effect, Rejection, log_rejection


def test_a_rejection_is_logged_with_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    log_rejection(Rejection("Revision", "ns", "r", "Revision ns/r: spec: wrong", Effect.KEPT))
    record = caplog.records[0]
    assert record.__dict__["object_name"] == "r"
    assert record.__dict__["reason"] == "Revision ns/r: spec: wrong"
    log_rejection(Rejection("Revision", "ns", "r", "spec: wrong", Effect.UNUSED))
    log_rejection(Rejection("Revision", "ns", "r", "spec: wrong", Effect.DEFAULTS))
    assert caplog.messages == [
        "invalid object: Revision ns/r: spec: wrong; its last good state stays in force",
        "invalid object: spec: wrong; it is not in use",
        "invalid object: spec: wrong; it has no last good state, so each wrong annotation has a "
        "safe default",
    ]
