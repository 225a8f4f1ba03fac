"""Makes one line of strict JSON from a log event: its keys, and the forms of time, level and place.

The keys are Knative's, unless ``zap-logger-config`` has others. Must not know where lines go, nor
structlog. Knative's counterpart: zap's JSON encoder and its EncoderConfig
(go.uber.org/zap/zapcore).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Final, NamedTuple

Event = MutableMapping[str, Any]

_SEVERITIES: Final = (
    (logging.CRITICAL, "CRITICAL"),
    (logging.ERROR, "ERROR"),
    (logging.WARNING, "WARNING"),
    (logging.INFO, "INFO"),
    (logging.NOTSET, "DEBUG"),
)
#: zap's words for these severities.
_ZAP: Final = {"CRITICAL": "fatal", "WARNING": "warn"}
_NANOSECONDS: Final = 1_000_000_000

# Fields with a name of Knative's own.
_RENAMED: Final = {"revision": "knative.dev/key"}


def severity(number: int) -> str:
    """Return the severity's name for one of logging's levels."""
    return next(name for least, name in _SEVERITIES if number >= least)


def _zap_level(number: int) -> str:
    name = severity(number)
    return _ZAP.get(name, name.lower())


LEVELS: Final[Mapping[str, Callable[[int], str]]] = {
    "": _zap_level,
    "severity": severity,
    "lowercase": _zap_level,
    "color": _zap_level,
    "capital": lambda number: _zap_level(number).upper(),
    "capitalColor": lambda number: _zap_level(number).upper(),
}
"""Forms of the level by zap's ``levelEncoder``; ``severity`` is Knative's own. There are no colours
in JSON."""


def _moment(created: float, form: str = "%Y-%m-%dT%H:%M:%S") -> str:
    return f"{datetime.fromtimestamp(int(created), UTC):{form}}"


def _rfc3339_nano(created: float) -> str:
    # zap writes nine digits. A float of a present time is exact to about 0.2 µs.
    return f"{_moment(created)}.{int(created * _NANOSECONDS) % _NANOSECONDS:09d}Z"


TIMES: Final[Mapping[str, Callable[[float], str | float]]] = {
    "": lambda created: created,
    "epoch": lambda created: created,
    "millis": lambda created: created * 1000,
    "nanos": lambda created: int(created * _NANOSECONDS),
    "iso8601": lambda created: f"{_moment(created)}.{int(created * 1000) % 1000:03d}Z",
    "rfc3339": lambda created: _moment(created) + "Z",
    "rfc3339nano": _rfc3339_nano,
}
"""Forms of the time by zap's ``timeEncoder``, in lower case."""


@dataclass(frozen=True, slots=True)
class LineShape:
    """Keys and forms of a line. A line has no field for an empty key.

    Attributes:
        time_key, level_key, name_key, caller_key, message_key, stacktrace_key: names of the
            fields.
        level: a key of LEVELS.
        time: a key of TIMES.
        full_caller: whether the line has the whole path of a source file.
    """

    time_key: str = "timestamp"
    level_key: str = "severity"
    name_key: str = "logger"
    caller_key: str = "caller"
    message_key: str = "message"
    stacktrace_key: str = "stacktrace"
    level: str = "severity"
    time: str = "rfc3339nano"
    full_caller: bool = False


class Origin(NamedTuple):
    """The program and the pod of all lines.

    Attributes:
        logger: the name of the program.
        fields: the fields that each line has, by name.
    """

    logger: str
    fields: Mapping[str, str]


def of_activator(pod_name: str) -> Origin:
    """Return the origin of an activator's lines, with Knative's keys."""
    fields = {"knative.dev/controller": "activator", "knative.dev/pod": pod_name}
    return Origin("activator", fields)


def of_scaler(pod_name: str) -> Origin:
    """Return the origin of a scaler's lines. Knative has no such program."""
    return Origin("activator-scale", {"pod": pod_name})


def line_of(event: Event, record: logging.LogRecord, shape: LineShape, origin: Origin) -> str:
    """Return a line without its end.

    Arguments:
        event: the fields; ``event`` is the message, ``exception`` the trace of an exception.
        record: level, time and place of the message.
        shape: keys and forms.
        origin: the program and the pod.
    """
    line: dict[str, Any] = {
        shape.level_key: LEVELS[shape.level](record.levelno),
        shape.time_key: TIMES[shape.time](record.created),
        shape.name_key: origin.logger,
        shape.caller_key: _caller(record, shape.full_caller),
        shape.message_key: str(event.pop("event", "")),
        **origin.fields,
    }
    line.pop("", None)
    renamed = _RENAMED | {"exception": shape.stacktrace_key}
    for key, value in event.items():
        if name := renamed.get(key, key):
            line[name if name not in line else name + "_"] = value
    return _json(line)


def _json(line: Mapping[str, Any]) -> str:
    """Return a line of strict JSON for any values."""
    try:
        return json.dumps(line, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        # A value is NaN, a key is no text, or a value contains itself.
        return json.dumps({str(key): _text(value) for key, value in line.items()})


def _plain(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def _text(value: object) -> object:
    return value if isinstance(value, str | bool | int | None) else repr(value)


def _caller(record: logging.LogRecord, full: bool) -> str:
    path = PurePath(record.pathname)
    name = str(path) if full else f"{path.parent.name}/{path.name}"
    return f"{name}:{record.lineno}"
