"""Writes the process log to stderr: JSON lines in a cluster, readable lines in a terminal.

One handler of the root logger serves structlog and ``logging``, whose ``extra`` becomes fields. So
it also serves asyncio, the warnings module and uvicorn, which must start with ``log_config=None``.
A field ``revision`` becomes Knative's ``knative.dev/key``. The module must not know the other
modules nor the settings. It imports structlog, which takes 80 ms, only in ``configure``, so that
``--help`` is fast. Knative's counterparts: pkg/logging of knative.dev/pkg, and the keys of its zap
encoder.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from activator.process.log_lines import Event, LineShape, Origin, line_of, severity

if TYPE_CHECKING:
    from structlog.typing import Processor

logger = logging.getLogger(__name__)

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
    "watchfiles",
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
    _import_structlog()
    _install(_configured.stream, log_format, LineShape())
    logging.captureWarnings(True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _SERVERS:
        logging.getLogger(name).filters[:] = [_Limit()]
    _configure_structlog()


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


def _install(stream: TextIO, log_format: str, shape: LineShape) -> None:
    global _installed
    assert _configured is not None
    readable = log_format == "console" or (log_format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    renderers = _console(stream) if readable else _json(shape, _configured.origin)
    handler.setFormatter(_formatter(renderers))
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


def _import_structlog() -> None:
    """Import structlog without rich, which takes 5 MiB; structlog needs it for tracebacks only."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment] # an import of it fails meanwhile
    try:
        import structlog  # noqa: F401 # the functions below use it
    finally:
        del sys.modules["rich"]


def _configure_structlog() -> None:
    import structlog

    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _formatter(renderers: list[Processor]) -> logging.Formatter:
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _drop_echoes],
        processors=[*renderers],
    )


def _drop_echoes(logger: object, method: str, event: Event) -> Event:
    # uvicorn adds a copy of each message with escape codes; other handlers add fields as well.
    for key in ("color_message", "message", "asctime"):
        event.pop(key, None)
    return event


def _json(shape: LineShape, origin: Origin) -> list[Processor]:
    import structlog

    def line(logger: object, method: str, event: Event) -> str:
        record: logging.LogRecord = event.pop("_record")
        event.pop("_from_structlog", None)
        return line_of(event, record, shape, origin)

    return [structlog.processors.format_exc_info, line]


def _console(stream: TextIO) -> list[Processor]:
    import structlog

    colours = stream.isatty() and "NO_COLOR" not in os.environ
    renderer = structlog.dev.ConsoleRenderer(
        colors=colours, exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
    )
    return [_readable, renderer]


def _readable(logger: object, method: str, event: Event) -> Event:
    record: logging.LogRecord = event.pop("_record")
    event.pop("_from_structlog", None)
    event["timestamp"] = f"{datetime.fromtimestamp(record.created):%H:%M:%S.%f}"[:-3]
    event["level"] = severity(record.levelno).lower()
    for key, value in event.items():
        if isinstance(value, str) and key != "exception":
            event[key] = printable(value)
    return event


def printable(text: str) -> str:
    """Return a text with control characters escaped, so that a header cannot move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


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
