from __future__ import annotations

import pytest

from activator.discovery.rejections import Rejection, log_rejection


def test_a_rejection_is_logged_with_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    log_rejection(Rejection("Revision", "ns", "r", "Revision ns/r: spec: wrong", kept=True))
    record = caplog.records[0]
    assert record.__dict__["object_name"] == "r"
    assert record.__dict__["reason"] == "Revision ns/r: spec: wrong"
    assert "its last good state stays in force: Revision ns/r: spec: wrong" in caplog.text


def test_a_rejection_without_a_last_good_state_names_none(caplog: pytest.LogCaptureFixture) -> None:
    log_rejection(Rejection("Revision", "ns", "r", "Revision ns/r: spec: wrong", kept=False))
    assert caplog.messages == ["object ignored: Revision ns/r: spec: wrong"]
