"""zap-logger-config: which fields are applied, reported as ignored, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activator.knative.configmaps.process_log import ZapConfig, parse
from activator.process.logs import LineShape
from tests.rows import in_one_test

#: The example in Knative's config-logging.
EXAMPLE = {
    "level": "info",
    "development": False,
    "outputPaths": ["stdout"],
    "errorOutputPaths": ["stderr"],
    "encoding": "json",
    "encoderConfig": {
        "timeKey": "timestamp",
        "levelKey": "severity",
        "nameKey": "logger",
        "callerKey": "caller",
        "messageKey": "message",
        "stacktraceKey": "stacktrace",
        "lineEnding": "",
        "levelEncoder": "",
        "timeEncoder": "iso8601",
        "durationEncoder": "",
        "callerEncoder": "",
    },
}


def of(encoder: dict[str, Any] | None = None, **top: Any) -> ZapConfig:
    changed = {**EXAMPLE, **top, "encoderConfig": {**EXAMPLE["encoderConfig"], **(encoder or {})}}  # type: ignore[dict-item] # a dict
    found = parse(json.dumps(changed))
    assert found is not None
    return found


def test_knatives_example_can_be_done_whole() -> None:
    assert of() == ZapConfig("info", "json", "stdout", LineShape(level="", time="iso8601"), ())


def test_nothing_is_no_configuration() -> None:
    assert parse("") is parse(" \n") is None


def test_what_is_not_there_has_zaps_default() -> None:
    only = LineShape("", "", "", "", "msg", "", level="", time="")
    text = '{"encoderConfig": {"messageKey": "msg"}}'
    assert parse(text) == ZapConfig("", "json", "stderr", only, ())


@pytest.mark.parametrize("text", ["{}", '{"encoderConfig": {}}', '{"encoderConfig": null}'])
def test_where_no_key_is_named_lines_are_as_usual_and_not_empty(text: str) -> None:
    assert parse(text) == ZapConfig("", "json", "stderr", LineShape(), ())


def test_a_key_that_is_turned_off_is_left_out_of_usual_lines_too() -> None:
    config = parse('{"disableCaller": true}')
    assert config is not None
    assert config.shape == LineShape(caller_key="")


def test_keys_and_forms() -> None:
    shape = of(
        {"timeKey": "ts", "levelEncoder": "capital", "timeEncoder": "RFC3339Nano"}
        | {"callerEncoder": "full"},
        disableStacktrace=True,
    ).shape
    assert shape == LineShape(
        *("ts", "severity", "logger", "caller", "message", ""),
        level="capital",
        time="rfc3339nano",
        full_caller=True,
    )
    assert of(disableCaller=True).shape.caller_key == ""
    assert of({"levelEncoder": "severity"}).shape.level == ""


def test_what_is_not_done_is_named() -> None:
    config = of(
        {"lineEnding": "\r\n"},
        outputPaths=["stdout", "/var/log/x"],
        sampling={"initial": 100},
        development=True,
        initialFields={"a": 1},
    )
    assert config.ignored == (
        *("development", "sampling", "initialFields"),
        *("encoderConfig.lineEnding", "outputPaths"),
    )
    assert config.stream == "stdout"
    assert of(outputPaths=["/x"]).stream == "stderr"


@in_one_test(
    ("text", "reason"),
    [
        ("{", "line 1 column 2"),
        ("[]", "it has to be a JSON object"),
        ('{"encoderConfig": [1]}', "encoderConfig has to be a JSON object"),
        ('{"encoding": "xml"}', "encoding 'xml' is not known: accepted is json, console"),
        ('{"level": 1}', "level has to be a text"),
        ('{"outputPaths": "stdout"}', "outputPaths has to be a list"),
        ('{"encoderConfig": {"timeKey": 1}}', "timeKey has to be a text"),
        ('{"encoderConfig": {"timeEncoder": "sundial"}}', "timeEncoder 'sundial' is not known"),
        ('{"encoderConfig": {"timeKey": "a", "levelKey": "a"}}', "the same key for two fields"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_unusable_values_are_reported(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)
