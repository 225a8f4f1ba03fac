"""What config-logging means."""

from __future__ import annotations

import logging

import pytest

from activator.knative.configmaps.following import ConfigMapError, Followed
from activator.knative.configmaps.process_log import (
    LogChanges,
    LoggingConfig,
    ZapConfig,
    logging_reader,
)
from activator.process import logs
from tests.activator.knative.configmaps.strict import strictly
from tests.rows import in_one_test

read = logging_reader("error")


def parse(data: dict[str, str]) -> LoggingConfig:
    return strictly(read, data, LoggingConfig())


def test_an_empty_one_says_nothing() -> None:
    assert parse({}) == parse({"loglevel.activator": ""}) == LoggingConfig("")


@in_one_test(
    "level", ["debug", "info", "warn", "error", "dpanic", "panic", "fatal", "Info", "WARN"]
)
def test_the_level_is_one_of_zaps_in_any_case(level: str) -> None:
    assert parse({"loglevel.activator": level}).level == level.lower()


@pytest.mark.parametrize("level", ["loud", "info ", "1", "trace"])
def test_another_level_is_refused(level: str) -> None:
    with pytest.raises(ConfigMapError, match=r"^loglevel\.activator: .* accepted is one of debug"):
        parse({"loglevel.activator": level})


def test_the_shape_is_read_and_its_level_counts_where_no_other_is_said() -> None:
    zap = '{"level": "WARN", "encoding": "console"}'
    config = parse({"zap-logger-config": zap})
    assert config.level == "warn"
    assert config.zap is not None
    assert config.zap.encoding == "console"
    both = {"zap-logger-config": zap, "loglevel.activator": "debug"}
    assert parse(both).level == "debug"


@pytest.mark.parametrize("zap", ["{", '{"level": "loud"}', "null"])
def test_a_shape_that_cannot_be_used_keeps_the_one_before(zap: str) -> None:
    followed = Followed("config-logging", read, LoggingConfig())
    followed.update({"zap-logger-config": '{"encoding": "console"}'})
    before = followed.value.zap
    followed.update({"zap-logger-config": zap, "loglevel.activator": "debug"})
    assert followed.value == LoggingConfig("debug", before)
    assert followed.problems["zap-logger-config"].endswith("the previous form stays in force")


@pytest.mark.parametrize(
    ("before", "now", "in_force"),
    [
        ({}, {}, "error"),
        ({"loglevel.activator": "debug"}, {}, "debug"),
        ({"zap-logger-config": '{"level": "WARN"}'}, {}, "warn"),
        ({}, {"zap-logger-config": '{"level": "WARN"}'}, "warn"),
    ],
)
def test_a_level_that_cannot_be_used_is_reported_with_the_one_that_stays(
    before: dict[str, str], now: dict[str, str], in_force: str
) -> None:
    followed = Followed("config-logging", read, LoggingConfig())
    followed.update(before)
    followed.update({**now, "loglevel.activator": "loud"})
    assert followed.value.level in (in_force, "")
    assert followed.problems["loglevel.activator"].endswith(f"; {in_force} stays in force")


def test_levels_of_other_components_are_theirs() -> None:
    assert parse({"loglevel.autoscaler": "loud"}) == LoggingConfig("")


@pytest.fixture(autouse=True)
def no_output() -> None:
    """Leave the outputs of the process as they are: only the level and the lines count here."""
    logs.release()


def test_the_level_is_that_of_the_configmap_or_else_the_default(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    changes = LogChanges("error")
    changes.apply(LoggingConfig(level="debug"))
    assert logging.getLogger().level == logging.DEBUG
    changes.apply(LoggingConfig())
    assert logging.getLogger().level == logging.ERROR


def test_keys_without_effect_are_logged_once_and_again_after_a_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    changes = LogChanges("info")
    for ignored in (("sampling",), ("sampling",), (), ("sampling",), ("sampling", "development")):
        changes.apply(LoggingConfig(zap=ZapConfig(ignored=ignored)))
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warnings == [
        "zap-logger-config: not supported: sampling",
        "zap-logger-config: not supported: sampling",
        "zap-logger-config: not supported: sampling, development",
    ]
