"""Reads the ConfigMap ``config-logging``: the level and the form of the process log.

Pure: it knows no logger. Knative's counterpart: knative.dev/pkg logging/config.go. There the form
is read only at start. After a change of the ConfigMap the level is ``loglevel.activator`` or info,
and ``zap-logger-config`` does not count.
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
    """The values of the ConfigMap.

    Attributes:
        level: one of activator.process.logs.LEVELS; empty if missing.
        zap: the form of lines; None if missing.
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
    """Return a reader of the ConfigMap's keys (activator.knative.configmaps.following.Read).

    Args:
        default_level: the level in force if the ConfigMap has none.
    """
    return partial(_read, default_level)


def _read(default_level: str, reader: Reader, last_good: LoggingConfig) -> LoggingConfig:
    zap = reader.read(ZAP, _ZAP, None)
    shown = "the previous form" if last_good.zap else "Knative's form"
    zap = reader.settle(zap, last_good.zap, shown)
    of_shape = zap.level.lower() if zap is not None else ""
    level = reader.read(LEVEL, _LEVEL, "")
    level = reader.settle(level, last_good.level, last_good.level or of_shape or default_level)
    return LoggingConfig(level or of_shape, zap)
