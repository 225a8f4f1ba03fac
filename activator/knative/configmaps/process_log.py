"""The ConfigMap ``config-logging``: how much the process log says, and in which shape.

Knows no logger at work. Knative's counterpart: knative.dev/pkg logging/config.go, where the shape
is taken at start alone, and the level, once the ConfigMap changes, is ``loglevel.activator`` or
info, whatever ``zap-logger-config`` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from activator.knative.configmaps import zap
from activator.knative.configmaps.following import Read, Reader
from activator.knative.configmaps.zap import ZapConfig
from activator.process.logs import LEVELS
from activator.settings.values import Kind

LEVEL: Final = "loglevel.activator"
ZAP: Final = "zap-logger-config"


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """What the process log says.

    Attributes:
        level: one of activator.process.logs.LEVELS; empty where nothing is said.
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


def reader_of(default_level: str) -> Read[LoggingConfig]:
    """Return what reads the ConfigMap's keys (activator.knative.configmaps.following.Read).

    Args:
        default_level: what is in force where the ConfigMap says nothing.
    """
    return partial(_read, default_level)


def _read(default_level: str, reader: Reader, last_good: LoggingConfig) -> LoggingConfig:
    zap = reader.read(ZAP, _ZAP, None)
    shown = "the shape before" if last_good.zap else "Knative's shape"
    zap = reader.settle(zap, last_good.zap, shown)
    of_shape = zap.level.lower() if zap is not None else ""
    level = reader.read(LEVEL, _LEVEL, "")
    level = reader.settle(level, last_good.level, last_good.level or of_shape or default_level)
    return LoggingConfig(level or of_shape, zap)
