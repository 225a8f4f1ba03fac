"""The ConfigMap ``config-logging``: how much the process log says, and in which shape.

Knows no logger at work. Knative's counterpart: knative.dev/pkg logging/config.go, where the shape
is taken at start alone, and the level, once the ConfigMap changes, is ``loglevel.activator`` or
info, whatever ``zap-logger-config`` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from activator.configmaps import zap
from activator.configmaps.following import Reader
from activator.configmaps.zap import ZapConfig
from activator.logs import LEVELS
from activator.values import Kind

LEVEL: Final = "loglevel.activator"
ZAP: Final = "zap-logger-config"


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """What the process log says.

    Attributes:
        level: one of activator.logs.LEVELS; empty where nothing is said.
        zap: the shape of its lines; None where nothing is said.
    """

    level: str = ""
    zap: ZapConfig | None = None


def _level(text: str) -> str:
    if text and text.lower() not in LEVELS:
        raise ValueError(f"level {text!r} is not known: accepted is {', '.join(LEVELS)}")
    return text.lower()


def _zap(text: str) -> ZapConfig | None:
    config = zap.parse(text)
    if config is not None:
        _level(config.level)
    return config


_LEVEL: Final = Kind(_level, "one of " + ", ".join(LEVELS), "LEVEL")
_ZAP: Final = Kind(_zap, "", "JSON")


def read(reader: Reader, last_good: LoggingConfig) -> LoggingConfig:
    """Read the ConfigMap's keys (activator.configmaps.following.Read)."""
    zap = reader.read(ZAP, _ZAP, None)
    zap = reader.settle(zap, last_good.zap, "the shape before" if last_good.zap else "Knative's")
    level = reader.read(LEVEL, _LEVEL, "")
    level = reader.settle(level, last_good.level)
    return LoggingConfig(level or (zap.level.lower() if zap is not None else ""), zap)
