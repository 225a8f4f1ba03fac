"""Writes the process log to stderr: JSON lines in a cluster, readable lines in a terminal.

One handler of the root logger serves ``logging``, whose ``extra`` becomes fields. So it also serves
asyncio, the warnings module and uvicorn, which must start with ``log_config=None``. A field
``revision`` becomes Knative's ``knative.dev/key``. The keys are Knative's, unless
``zap-logger-config`` has others. The module must not know the other modules nor the settings.
Knative's counterparts: pkg/logging of knative.dev/pkg, and zap's JSON encoder
(go.uber.org/zap/zapcore).
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from time import monotonic
from typing import Any, Final, NamedTuple, TextIO

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


LEVEL_FORMS: Final[Mapping[str, Callable[[int], str]]] = {
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


TIME_FORMS: Final[Mapping[str, Callable[[float], str | float]]] = {
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
        level: a key of LEVEL_FORMS.
        time: a key of TIME_FORMS.
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


#: What each record has, and the copies of its message that uvicorn and other handlers add.
_NO_FIELDS: Final = frozenset(
    {*logging.LogRecord("", 0, "", 0, "", (), None).__dict__}
    | {"color_message", "message", "asctime"}
)
_TRACES: Final = logging.Formatter()


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a message; ``exception`` is the trace of an exception."""
    fields = {"stack_info": record.stack_info} if record.stack_info else {}
    fields |= {key: value for key, value in record.__dict__.items() if key not in _NO_FIELDS}
    if record.exc_info and record.exc_info[0] is not None:
        fields["exception"] = _TRACES.formatException(record.exc_info)
    return fields


class JsonLines(logging.Formatter):
    """Makes one line of strict JSON of each message.

    Arguments:
        shape: keys and forms.
        origin: the program and the pod.
    """

    def __init__(self, shape: LineShape, origin: Origin) -> None:
        super().__init__()
        self._shape = shape
        self._origin = origin

    def format(self, record: logging.LogRecord) -> str:
        """Return a line without its end."""
        shape = self._shape
        line: dict[str, Any] = {
            shape.level_key: LEVEL_FORMS[shape.level](record.levelno),
            shape.time_key: TIME_FORMS[shape.time](record.created),
            shape.name_key: self._origin.logger,
            shape.caller_key: _caller(record, shape.full_caller),
            shape.message_key: record.getMessage(),
            **self._origin.fields,
        }
        line.pop("", None)
        renamed = _RENAMED | {"exception": shape.stacktrace_key}
        for key, value in _fields_of(record).items():
            if name := renamed.get(key, key):
                line[name if name not in line else name + "_"] = value
        return _json_of(line)


def _json_of(line: Mapping[str, Any]) -> str:
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


logger = logging.getLogger(__name__)

#: Escape codes of a terminal: the time, each level, the message, a key, a value, the end.
_DIM, _BRIGHT, _KEY, _VALUE, _RESET = "\033[2m", "\033[1m", "\033[36m", "\033[35m", "\033[0m"
_RED, _YELLOW, _GREEN = "\033[31m", "\033[33m", "\033[32m"
_LEVEL_COLOURS: Final = {"critical": _RED, "error": _RED, "warning": _YELLOW}
_WIDEST_LEVEL: Final = 9
#: Characters of a text that make its field ambiguous.
_SEPARATORS: Final = frozenset(" \t=\r\n\"'")


class ReadableLines(logging.Formatter):
    """Makes a line for people of each message; a trace follows in lines of its own."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Return a line without its end."""
        fields = _fields_of(record)
        trace = fields.pop("exception", None)
        level = severity(record.levelno).lower()
        in_colour = _LEVEL_COLOURS.get(level, _GREEN) + _BRIGHT
        parts = [
            self._styled(_DIM, f"{datetime.fromtimestamp(record.created):%H:%M:%S.%f}"[:-3]),
            f"[{self._styled(in_colour, level.ljust(_WIDEST_LEVEL))}]",
            self._styled(_BRIGHT, printable(record.getMessage())),
        ]
        for key in sorted(fields.keys() - {"timestamp", "level"}):
            value = _shown(fields[key])
            parts.append(f"{self._styled(_KEY, key)}={self._styled(_VALUE, value)}")
        line = " ".join(filter(None, parts)).rstrip(" ")
        return line if trace is None else f"{line}\n{trace}"

    def _styled(self, style: str, text: str) -> str:
        return f"{style}{text}{_RESET}" if self._colours else text


def _shown(value: object) -> str:
    if not isinstance(value, str):
        return repr(value)
    text = printable(value)
    return repr(text) if _SEPARATORS.intersection(text) else text


def printable(text: str) -> str:
    """Return a text with control characters escaped, so that a header cannot move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "dpanic": logging.CRITICAL,
    "panic": logging.CRITICAL,
    "fatal": logging.CRITICAL,
}
"""Words for levels: Python's, and zap's, which Knative's logging ConfigMap has."""

# Libraries that log every control request, and at debug whole frames and bodies, which may contain
# Secrets and tokens. Only their warnings are logged.
_QUIET: Final = (
    "httpx",
    "httpcore",
    "websockets",
    "kubernetes_asyncio",
    "aiohttp",
    "urllib3",
)

# Libraries that log each malformed request. Any peer can send thousands of them.
_SERVERS: Final = ("uvicorn.error", "websockets.server")

_FURTHER: Final = object()  # one kind for all kinds beyond the limit of Repeats

_installed: logging.Handler | None = None


class _Configured(NamedTuple):
    """The arguments of ``configure``."""

    log_format: str
    origin: Origin
    stream: TextIO


_configured: _Configured | None = None


def configure(log_format: str, level: str, origin: Origin, stream: TextIO | None = None) -> None:
    """Send all logs of this process to one stream. A further call replaces the arguments.

    Arguments:
        log_format: json, console, or auto: console if the stream is a terminal.
        level: one of ``LEVELS``.
        origin: the program and the pod of all lines.
        stream: stderr by default.

    Raises:
        ValueError: the format or the level is unknown; nothing has changed.
    """
    global _configured
    if log_format not in ("auto", "json", "console"):
        raise ValueError(f"unknown log format {log_format!r}: accepted is auto, json or console")
    set_level(level)
    _configured = _Configured(log_format, origin, stream or sys.stderr)
    _install(_configured.stream, log_format, LineShape())
    logging.captureWarnings(True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _SERVERS:
        logging.getLogger(name).filters[:] = [_Limit()]


def reshape(
    shape: LineShape | None = None,
    encoding: str = "auto",
    stream: TextIO | None = None,
) -> None:
    """Change the form of lines. Without arguments, restore the form that ``configure`` set.

    Does nothing before ``configure``: then the log belongs to another program.

    Arguments:
        shape: form of JSON lines; None for Knative's.
        encoding: json or console; counts only if the format of ``configure`` is auto.
        stream: None for the stream of ``configure``.
    """
    if _configured is not None:
        log_format = encoding if _configured.log_format == "auto" else _configured.log_format
        _install(stream or _configured.stream, log_format, shape or LineShape())


def release() -> None:
    """Leave the log to another program again."""
    global _configured, _installed
    if _installed is not None:
        logging.getLogger().removeHandler(_installed)
    _configured = _installed = None
    logging.captureWarnings(False)


def _install(stream: TextIO, log_format: str, shape: LineShape) -> None:
    global _installed
    assert _configured is not None
    readable = log_format == "console" or (log_format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    colours = stream.isatty() and "NO_COLOR" not in os.environ
    lines = ReadableLines(colours=colours) if readable else JsonLines(shape, _configured.origin)
    handler.setFormatter(lines)
    root = logging.getLogger()
    if _installed is not None:
        root.removeHandler(_installed)
    root.addHandler(handler)
    _installed = handler


def set_level(level: str) -> None:
    """Set the lowest severity in the log.

    Raises:
        ValueError: ``LEVELS`` has no such word; the level has not changed.
    """
    number = LEVELS.get(level.lower())
    if number is None:
        raise ValueError(f"unknown log level {level!r}: accepted is one of {', '.join(LEVELS)}")
    logging.getLogger().setLevel(number)


def change_level(level: str) -> None:
    """Set the lowest severity in the log, and log a change, also if the new level hides INFO.

    Raises:
        ValueError: as ``set_level``.
    """
    root = logging.getLogger()
    before = root.level
    set_level(level)
    after = root.level
    if after != before:
        root.setLevel(min(before, after))
        logger.info("log level: %s", level.lower())
        root.setLevel(after)


class Repeats:
    """Decides whether to log a message that may occur a thousand times a second.

    Each kind of message is logged at most once per interval, with the number of omitted messages.
    Memory is bounded: beyond ``kinds`` kinds within one interval, all further kinds count as one.

    Arguments:
        interval: seconds between two messages of a kind.
        kinds: limit of different kinds.
    """

    def __init__(self, interval: float = 10.0, kinds: int = 1024) -> None:
        self._interval = interval
        self._kinds = kinds
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        return len(self._seen)

    def admit(self, kind: Hashable, now: float) -> int | None:
        """Return the number of omitted messages of a kind; None if the caller must omit this one.

        Arguments:
            kind: equal for messages that a reader need not see twice, such as (event, pod).
            now: monotonic seconds; never less than in the previous call.
        """
        if kind not in self._seen:
            self._remove_old(now)
            if len(self._seen) >= self._kinds:
                kind = _FURTHER
        since, hidden = self._seen.get(kind, (None, 0))
        if since is not None and now - since < self._interval:
            self._seen[kind] = (since, hidden + 1)
            return None
        self._seen[kind] = (now, 0)
        self._seen.move_to_end(kind)
        return hidden

    def _remove_old(self, now: float) -> None:
        while self._seen:
            oldest, (since, _) = next(iter(self._seen.items()))
            if now - since < self._interval:
                return
            del self._seen[oldest]


class _Limit(logging.Filter):
    """Lets one message of a kind pass now and then, with the number of omitted ones."""

    def __init__(self) -> None:
        super().__init__()
        self._repeats = Repeats()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the log has this message."""
        error = record.exc_info[0] if record.exc_info else None
        more = self._repeats.admit((record.name, record.msg, error), monotonic())
        if more:
            others = "1 other" if more == 1 else f"{more} others"
            record.msg = f"{record.msg} (and {others} since the last such line)"
        return more is not None
