"""One log line, with Knative's keys or with keys that an operator chose."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from activator.process.log_lines import LEVELS, TIMES, LineShape, line_of, of_activator, of_scaler

#: 2026-11-21T10:28:00.123456Z
MOMENT = 1795256880.123456


def line(shape: LineShape | None = None, level: int = logging.INFO, **event: Any) -> dict[str, Any]:
    record = logging.LogRecord("x", level, "/src/activator/app.py", 7, "", (), None)
    record.created = MOMENT
    text = line_of(
        {"event": "hello", **event}, record, shape or LineShape(), of_activator("activator-1")
    )
    assert "\n" not in text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_without_a_word_from_the_operator_the_keys_are_knatives() -> None:
    assert line(revision="default/hello", exception="Traceback", pods=3) == {
        "severity": "INFO",
        "timestamp": "2026-11-21T10:28:00.123456000Z",
        "logger": "activator",
        "caller": "activator/app.py:7",
        "message": "hello",
        "knative.dev/controller": "activator",
        "knative.dev/pod": "activator-1",
        "knative.dev/key": "default/hello",
        "stacktrace": "Traceback",
        "pods": 3,
    }


def test_a_line_of_the_scaler_has_no_key_of_knative() -> None:
    record = logging.LogRecord("x", logging.INFO, "/src/activator/app.py", 7, "", (), None)
    found = json.loads(line_of({"event": "hello"}, record, LineShape(), of_scaler("scale-1")))
    assert (found["logger"], found["pod"]) == ("activator-scale", "scale-1")
    assert not [key for key in found if key.startswith("knative")]


def test_keys_can_have_other_names_or_none() -> None:
    shape = LineShape("ts", "level", "", "", "msg", "", level="", time="epoch", full_caller=True)
    assert line(shape, exception="Traceback") == {
        "level": "info",
        "ts": MOMENT,
        "msg": "hello",
        "knative.dev/controller": "activator",
        "knative.dev/pod": "activator-1",
    }


@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("", MOMENT),
        ("millis", MOMENT * 1000),
        ("nanos", 1795256880123456000),
        ("iso8601", "2026-11-21T10:28:00.123Z"),
        ("rfc3339", "2026-11-21T10:28:00Z"),
    ],
)
def test_forms_of_time(form: str, written: object) -> None:
    assert form in TIMES
    assert line(LineShape(time=form))["timestamp"] == written


@pytest.mark.parametrize(
    ("level", "knative", "zap"),
    [
        (logging.DEBUG, "DEBUG", "debug"),
        (logging.INFO, "INFO", "info"),
        (logging.WARNING, "WARNING", "warn"),
        (logging.ERROR, "ERROR", "error"),
        (logging.CRITICAL, "CRITICAL", "fatal"),
    ],
)
def test_forms_of_levels(level: int, knative: str, zap: str) -> None:
    assert line(level=level)["severity"] == knative
    assert line(LineShape(level=""), level)["severity"] == zap
    assert line(LineShape(level="capital"), level)["severity"] == zap.upper()
    assert set(LEVELS) == {"", "severity", "lowercase", "color", "capital", "capitalColor"}


def test_a_place_can_be_whole() -> None:
    assert line(LineShape(full_caller=True))["caller"] == "/src/activator/app.py:7"


def test_a_field_does_not_replace_a_key() -> None:
    found = line(LineShape(message_key="msg"), msg="other", message="free")
    assert (found["msg"], found["msg_"], found["message"]) == ("hello", "other", "free")
