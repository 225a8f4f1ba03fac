"""Reads ``zap-logger-config``: the form of log lines in the configuration of zap, Knative's logger.

Decides which keys apply here, and names the other ones. Pure: it knows no logger. Source:
go.uber.org/zap Config and zapcore EncoderConfig.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from activator.process.log_lines import LEVELS, TIMES, LineShape

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
    encoding = _word(config, "encoding", JSON, (JSON, CONSOLE))
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
    if time not in TIMES:
        raise ValueError(f"timeEncoder {time!r} is not known: accepted is {_listed(TIMES)}")
    return LineShape(
        **names,
        # For zap, each other word means lower case.
        level=level if level in LEVELS and (level != "severity" or not said) else "",
        time=time,
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


def _word(values: Mapping[str, Any], key: str, default: str, words: tuple[str, ...]) -> str:
    word = _text(values, key, default)
    if word not in words:
        raise ValueError(f"{key} {word!r} is not known: accepted is {_listed(words)}")
    return word


def _listed(words: Mapping[str, object] | tuple[str, ...]) -> str:
    return ", ".join(word for word in words if word)
