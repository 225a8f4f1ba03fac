"""What a changed config-logging does to the process log."""

from __future__ import annotations

import logging

import pytest

from activator.knative.configmaps.process_log import LogChanges, LoggingConfig, ZapConfig
from activator.process import logs


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
