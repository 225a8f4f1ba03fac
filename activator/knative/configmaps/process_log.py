"""Reads the ConfigMap ``config-logging``, with the configuration of zap, and applies it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from activator.knative.configmaps.following import ConfigMapReader, Read
from activator.process import logs
from activator.process.logs import LEVEL_FORMS, LEVELS, TIME_FORMS, LineShape
from activator.settings.values import Kind

# Reads ``zap-logger-config``: the form of log lines in the configuration of zap, Knative's
# logger.
#
# Decides which keys apply here, and names the other ones. Pure: it knows no logger. Source:
# go.uber.org/zap Config and zapcore EncoderConfig.

JSON: Final = "json"
CONSOLE: Final = "console"

_KEYS: Final = {
    "timeKey": "time_key",
    "levelKey": "level_key",
    "nameKey": "name_key",
    "callerKey": "caller_key",
    "messageKey": "message_key",
    "stacktraceKey": "stacktrace_key",
}
_STREAMS: Final = ("stdout", "stderr")
#: Keys of zap without effect here, each with the values that need no warning.
_IDLE: Final[Mapping[str, tuple[object, ...]]] = {
    "development": (False,),
    "sampling": (None,),
    "initialFields": (None, {}),
}
_IDLE_ENCODERS: Final[Mapping[str, tuple[object, ...]]] = {
    "functionKey": ("",),
    "lineEnding": ("", "\n"),
    "skipLineEnding": (False,),
    "consoleSeparator": ("", "\t"),
    "nameEncoder": ("", "full"),
}


@dataclass(frozen=True, slots=True)
class ZapConfig:
    """The part of the configuration that applies here.

    Attributes:
        level: lowest severity in the log; empty if missing.
        encoding: json or console.
        stream: stdout or stderr.
        shape: form of JSON lines.
        ignored: keys that have no effect here.
    """

    level: str = ""
    encoding: str = JSON
    stream: str = "stderr"
    shape: LineShape = field(default_factory=LineShape)
    ignored: tuple[str, ...] = ()


def parse(text: str) -> ZapConfig | None:
    """Read the configuration.

    Arguments:
        text: JSON; empty for no configuration.

    Raises:
        ValueError: the text is unusable; the error has the reason.
    """
    if not text.strip():
        return None
    try:
        config = _object(json.loads(text), "it")  # JSONDecodeError says line and column
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    encoder = _object(config.get("encoderConfig") or {}, "encoderConfig")
    encoding = _known("encoding", _text(config, "encoding", JSON), (JSON, CONSOLE))
    paths = config.get("outputPaths") or ["stderr"]
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError("outputPaths has to be a list of texts")
    streams = [path for path in paths if path in _STREAMS]
    ignored = [name for name in _IDLE if config.get(name, _IDLE[name][0]) not in _IDLE[name]]
    ignored += [
        f"encoderConfig.{name}"
        for name, idle in _IDLE_ENCODERS.items()
        if encoder.get(name, idle[0]) not in idle
    ]
    ignored += [] if streams == paths and len(paths) == 1 else ["outputPaths"]
    return ZapConfig(
        _text(config, "level", ""),
        encoding,
        streams[0] if streams else "stderr",
        _shape(config, encoder),
        tuple(ignored),
    )


def _shape(config: Mapping[str, Any], encoder: Mapping[str, Any]) -> LineShape:
    usual = LineShape()
    # zap leaves out a field without a key. Without any key, it would write empty lines.
    said = any(_text(encoder, key, "") for key in _KEYS)
    names = {
        field: _text(encoder, key, "") if said else getattr(usual, field)
        for key, field in _KEYS.items()
    }
    if config.get("disableCaller") is True:
        names["caller_key"] = ""
    if config.get("disableStacktrace") is True:
        names["stacktrace_key"] = ""
    given = [name for name in names.values() if name]
    if len(given) > len(set(given)):
        raise ValueError("encoderConfig has the same key for two fields")
    level = _text(encoder, "levelEncoder", "" if said else usual.level)
    time = _text(encoder, "timeEncoder", "" if said else usual.time).lower()
    return LineShape(
        **names,
        # For zap, each other word means lower case.
        level=level if level in LEVEL_FORMS and (level != "severity" or not said) else "",
        time=_known("timeEncoder", time, TIME_FORMS),
        full_caller=encoder.get("callerEncoder") == "full",
    )


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} has to be a JSON object")
    return value


def _text(values: Mapping[str, Any], key: str, default: str) -> str:
    value = values.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key} has to be a text")
    return value


def _known(key: str, word: str, words: Collection[str]) -> str:
    if word not in words:
        accepted = ", ".join(filter(None, words))
        raise ValueError(f"{key} {word!r} is not known: accepted is {accepted}")
    return word


# Reads the ConfigMap ``config-logging``: the level and the form of the process log.
#
# Pure: it knows no logger. Knative's counterpart: knative.dev/pkg logging/config.go. There the
# form is read only at start. After a change of the ConfigMap the level is ``loglevel.activator``
# or info, and ``zap-logger-config`` does not count.

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
    config = parse(text)
    if config is not None:
        _level(config.level)
    return config


_LEVEL: Final = Kind(_level, "one of " + ", ".join(LEVELS), "LEVEL")
_ZAP: Final = Kind(_zap, "", "JSON")


def logging_reader(default_level: str) -> Read[LoggingConfig]:
    """Return a reader of the ConfigMap's keys (activator.knative.configmaps.following.Read).

    Args:
        default_level: the level in force if the ConfigMap has none.
    """
    return partial(_read, default_level)


def _read(default_level: str, reader: ConfigMapReader, last_good: LoggingConfig) -> LoggingConfig:
    zap = reader.read(ZAP, _ZAP, None)
    shown = "the previous form" if last_good.zap else "Knative's form"
    zap = reader.settle(zap, last_good.zap, shown)
    of_shape = zap.level.lower() if zap is not None else ""
    level = reader.read(LEVEL, _LEVEL, "")
    level = reader.settle(level, last_good.level, last_good.level or of_shape or default_level)
    return LoggingConfig(level or of_shape, zap)


logger = logging.getLogger(__name__)


# Applies the ConfigMap ``config-logging`` to the process log.
#
# ``process_log`` reads the ConfigMap; this module acts. Knative reads the form of lines at start
# only (knative.dev/pkg logging/config.go).


class LogChanges:
    """The process log, as the ConfigMap has it.

    Arguments:
        default_level: lowest severity in the log if the ConfigMap has none.
    """

    def __init__(self, default_level: str) -> None:
        self._default_level = default_level
        self._logged_ignored: tuple[str, ...] = ()

    def apply(self, config: LoggingConfig) -> None:
        """Change level and form of the log; log keys that have no effect once."""
        logs.change_level(config.level or self._default_level)
        if (zap := config.zap) is None:
            logs.reshape()
            return
        logs.reshape(zap.shape, zap.encoding, sys.stdout if zap.stream == "stdout" else None)
        logged, self._logged_ignored = self._logged_ignored, zap.ignored
        if zap.ignored and zap.ignored != logged:
            logger.warning("zap-logger-config: not supported: %s", ", ".join(zap.ignored))
