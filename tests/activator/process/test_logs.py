"""What a reader of the log sees: Knative's keys in JSON, plain lines on a terminal."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from typing import Any

import pytest

from activator.process import logs
from activator.process.logs import (
    LEVEL_FORMS,
    TIME_FORMS,
    JsonLines,
    LineShape,
    of_activator,
    of_scaler,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored():
    """Leave no handler to other tests."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    logs._installed = logs._configured = None
    logging.captureWarnings(False)


def configured(log_format="json", level="info", stream=None) -> io.StringIO:
    stream = stream or io.StringIO()
    logs.configure(log_format, level, of_activator("activator-x"), stream)
    return stream


def only_line(stream: io.StringIO) -> dict[str, object]:
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1, lines
    line = json.loads(lines[0])
    assert isinstance(line, dict)
    return line


@pytest.mark.parametrize("name", ["uvicorn.error", "websockets.server"])
def test_a_message_of_a_server_about_junk_has_one_line_now_and_then(name, monkeypatch):
    now = 100.0
    monkeypatch.setattr(logs, "monotonic", lambda: now)
    stream = configured()
    for _ in range(1000):
        logging.getLogger(name).error("Invalid HTTP request received.")
    assert only_line(stream)["message"] == "Invalid HTTP request received."
    logging.getLogger(name).error("another fault")
    now += 10
    logging.getLogger(name).error("Invalid HTTP request received.")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()[1:]] == [
        "another fault",
        "Invalid HTTP request received. (and 999 others since the last such line)",
    ]


def test_json_lines_carry_knatives_keys():
    stream = configured()
    logging.getLogger("activator.tests").warning(
        "pod lost", extra={"revision": "default/hello", "pods": 3}
    )
    line = only_line(stream)
    stamp, caller = line.pop("timestamp"), line.pop("caller")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", str(stamp))
    assert re.fullmatch(r"process/test_logs\.py:\d+", str(caller))
    assert line == {
        "severity": "WARNING",
        "logger": "activator",
        "message": "pod lost",
        "knative.dev/controller": "activator",
        "knative.dev/pod": "activator-x",
        "knative.dev/key": "default/hello",
        "pods": 3,
    }


def test_the_standard_library_goes_the_same_way_with_its_extras():
    stream = configured()
    logging.getLogger("uvicorn.error").info(
        "started %s", "well", extra={"color_message": "\x1b[1mwell", "port": 8012}
    )
    line = only_line(stream)
    assert (line["message"], line["port"]) == ("started well", 8012)
    assert not {"color_message", "message_"} & line.keys()
    assert str(line["caller"]).startswith("process/test_logs.py:")


def test_python_warnings_are_logged():
    stream = configured()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old thing", stacklevel=1)
    assert "old thing" in str(only_line(stream)["message"])


def test_exceptions_are_one_line_with_a_stacktrace():
    stream = configured()
    try:
        raise RuntimeError("broken\nin two")
    except RuntimeError:
        logging.getLogger("activator").exception("failed")
    line = only_line(stream)
    assert line["severity"] == "ERROR"
    assert "RuntimeError: broken\nin two" in str(line["stacktrace"])


def test_odd_values_still_make_one_line_of_strict_json():
    stream = configured()
    itself: dict[str, object] = {}
    itself["it"] = itself
    for value in (
        float("nan"),
        {1, 2},
        b"\xff",
        itself,
        {("a", 1): 2},
        "\udcff\n\x1b[2J",
        object(),
        float("inf"),
    ):
        logging.getLogger().info("odd", extra={"value": value})
    lines = stream.getvalue().splitlines()
    assert len(lines) == 8
    for line in lines:
        assert line.isascii()
        assert json.loads(line, parse_constant=pytest.fail)["message"] == "odd"


def test_a_field_does_not_replace_a_key_of_the_line():
    stream = configured()
    logging.getLogger().info("kept", extra={"logger": "other", "severity": "none"})
    line = only_line(stream)
    assert (line["message"], line["severity"]) == ("kept", "INFO")
    assert line["logger"] == "activator"
    assert (line["logger_"], line["severity_"]) == ("other", "none")


def test_the_level_can_be_changed_while_running():
    stream = configured(level="error")
    log = logging.getLogger()
    log.info("before")
    logs.set_level("debug")
    log.debug("after")
    assert only_line(stream)["message"] == "after"


def test_zaps_words_are_levels_and_unknown_ones_change_nothing():
    configured(level="warn")
    assert logging.getLogger().level == logging.WARNING
    with pytest.raises(ValueError, match="unknown log level 'loud'"):
        logs.set_level("loud")
    assert logging.getLogger().level == logging.WARNING


def test_an_unknown_format_changes_nothing():
    stream = configured()
    with pytest.raises(ValueError, match="unknown log format 'xml'"):
        logs.configure("xml", "info", of_activator("x"))
    logging.getLogger().info("still here")
    assert only_line(stream)["message"] == "still here"


def test_libraries_that_might_log_secrets_stay_quiet_even_at_debug():
    stream = configured(level="debug")
    logging.getLogger("kubernetes_asyncio.client.rest").debug("token: abc")
    logging.getLogger("httpx").info("HTTP Request")
    assert stream.getvalue() == ""
    logging.getLogger("httpx").warning("shown")
    assert only_line(stream)["message"] == "shown"


def test_an_operator_may_give_lines_another_shape_and_take_it_back():
    stream, elsewhere = configured(log_format="auto"), io.StringIO()
    log = logging.getLogger()
    logs.reshape(LineShape(message_key="msg", level=""), "json", elsewhere)
    log.info("shaped")
    logs.reshape(encoding="console")
    log.info("readable")
    assert stream.getvalue().endswith("readable\n")
    assert not stream.getvalue().startswith("{")
    stream.truncate(0)
    stream.seek(0)
    logs.reshape()
    log.info("as before")
    assert only_line(stream)["message"] == "as before"
    shaped = only_line(elsewhere)
    assert (shaped["msg"], shaped["severity"]) == ("shaped", "info")


def test_a_format_that_was_asked_for_wins_over_the_operators_encoding():
    stream = configured(log_format="json")
    logs.reshape(encoding="console")
    logging.getLogger().info("still JSON")
    assert only_line(stream)["message"] == "still JSON"


def test_another_programs_log_is_left_alone(monkeypatch):
    monkeypatch.setattr(logs, "_configured", None)
    before = list(logging.getLogger().handlers)
    logs.reshape(LineShape(), "json")
    assert logging.getLogger().handlers == before


def test_configuring_again_replaces_the_stream():
    first, second = configured(), configured()
    logging.getLogger().info("once")
    assert first.getvalue() == ""
    assert only_line(second)["message"] == "once"


def test_auto_is_readable_on_a_terminal_and_json_elsewhere(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = configured("auto", stream=Terminal())
    logging.getLogger().info("pod started", extra={"pod": "127.0.0.1:8012"})
    assert "pod started" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()
    assert not terminal.getvalue().startswith("{")
    pipe = configured("auto")
    logging.getLogger().info("pod started")
    assert only_line(pipe)["message"] == "pod started"


def test_readable_lines_have_no_colour_where_none_is_wanted(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = configured("console", stream=Terminal())
    logging.getLogger("x").warning("look out", extra={"revision": "default/hello"})
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d\.\d{3} \[warning *\] look out +revision=default/hello\n",
        terminal.getvalue(),
    )


def test_a_trace_follows_a_readable_line():
    stream = configured("console")
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logging.getLogger("x").exception("failed", extra={"b": 'say "hi"', "a": [1], "level": "no"})
    first, *trace = stream.getvalue().splitlines()
    assert first.endswith("""[error    ] failed a=[1] b='say "hi"'""")
    assert (trace[0], trace[-1]) == ("Traceback (most recent call last):", "RuntimeError: broken")


def test_readable_lines_cannot_be_forged_by_what_a_client_sends():
    stream = configured("console")
    logging.getLogger().info("path /\n\x1b[2J", extra={"path": "a\x1b[31m\nb"})
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_repeats_let_one_through_per_interval_and_count_the_rest():
    repeats = logs.Repeats(interval=10.0)
    assert repeats.admit("lost", 100.0) == 0
    assert repeats.admit("lost", 101.0) is None
    assert repeats.admit("lost", 109.9) is None
    assert repeats.admit("other", 109.9) == 0
    assert repeats.admit("lost", 110.0) == 2
    assert repeats.admit("lost", 111.0) is None


def test_repeats_hold_a_bounded_number_of_kinds_and_of_lines():
    repeats = logs.Repeats(interval=10.0, kinds=100)
    admitted = sum(repeats.admit(kind, 5.0) is not None for kind in range(10_000))
    assert admitted == 101
    assert len(repeats) == 101
    assert repeats.admit("new", 15.0) == 0
    assert len(repeats) == 1


#: 2026-11-21T10:28:00.123456Z
MOMENT = 1795256880.123456


def line(
    shape: LineShape | None = None, level: int = logging.INFO, **fields: Any
) -> dict[str, Any]:
    record = logging.LogRecord("x", level, "/src/activator/app.py", 7, "hello", (), None)
    record.created = MOMENT
    vars(record).update(fields)
    text = JsonLines(shape or LineShape(), of_activator("activator-1")).format(record)
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
    record = logging.LogRecord("x", logging.INFO, "/src/activator/app.py", 7, "hello", (), None)
    found = json.loads(JsonLines(LineShape(), of_scaler("scale-1")).format(record))
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
    assert form in TIME_FORMS
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
    assert set(LEVEL_FORMS) == {"", "severity", "lowercase", "color", "capital", "capitalColor"}


def test_a_place_can_be_whole() -> None:
    assert line(LineShape(full_caller=True))["caller"] == "/src/activator/app.py:7"


def test_a_field_does_not_replace_a_key() -> None:
    found = line(LineShape(message_key="text"), text="other", timestamp="free")
    assert (found["text"], found["text_"], found["timestamp_"]) == ("hello", "other", "free")
