"""The ConfigMap ``config-logging``: how much the process log says.

Knows no logger at work. Knative's counterpart: knative.dev/pkg logging/config.go, where the level
is ``loglevel.activator`` once the ConfigMap has changed, whatever ``zap-logger-config`` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from activator.configmaps import Reader
from activator.logs import LEVELS
from activator.values import Kind

LEVEL: Final = "loglevel.activator"


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """What the process log says.

    Attributes:
        level: one of activator.logs.LEVELS; empty where nothing is said.
    """

    level: str = ""


def _level(text: str) -> str:
    if text and text.lower() not in LEVELS:
        raise ValueError(f"unknown level: {text!r}")
    return text.lower()


_LEVEL: Final = Kind(_level, "one of " + ", ".join(LEVELS), "LEVEL")


def read(reader: Reader, last_good: LoggingConfig) -> LoggingConfig:
    """Read the ConfigMap's keys (activator.configmaps.Read)."""
    return LoggingConfig(reader.settle(reader.read(LEVEL, _LEVEL, ""), last_good.level))
