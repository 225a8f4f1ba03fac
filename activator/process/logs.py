"""The process log: JSON lines for a cluster, readable lines for a terminal, all of it on stderr.

One handler on the root logger serves ``structlog.get_logger(__name__)`` as well as
``logging.getLogger(__name__)`` with ``extra=``, and with it uvicorn (to be started with
``log_config=None``), asyncio, watchfiles and the warnings module. Fields named ``revision`` come
out as Knative's ``knative.dev/key``.
Must not know who logs what, nor the settings' table. Importing this module is cheap: structlog
(some 80 ms) is imported by ``configure``, so that ``--help`` does not pay for it.
Knative's counterparts: pkg/logging of knative.dev/pkg and its zap encoder's keys.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from activator.process.log_lines import Event, LineShape, line_of, severity

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
"""Words for levels: Python's and those of zap, which Knative's logging ConfigMap is written in."""

# Libraries that say too much: every file event, every control request, and at debug whole
# frames and bodies, which may hold Secrets and tokens. Their warnings are wanted.
_QUIET: Final = (
    "watchfiles",
    "httpx",
    "httpcore",
    "websockets",
    "kubernetes_asyncio",
    "aiohttp",
    "urllib3",
)

_FURTHER: Final = object()  # the kind that all kinds beyond the limit of Repeats share

_installed: logging.Handler | None = None


class _Told(NamedTuple):
    """What ``configure`` was told."""

    log_format: str
    pod_name: str
    stream: TextIO


_told: _Told | None = None


def configure(log_format: str, level: str, pod_name: str, stream: TextIO | None = None) -> None:
    """Route every log of this process to one stream; may be called again to change it.

    Arguments:
        log_format: json, console, or auto: console when the stream is a terminal.
        level: one of ``LEVELS``.
        pod_name: this activator's name, for ``knative.dev/pod``.
        stream: where to; stderr by default.

    Raises:
        ValueError: the format or the level is unknown; nothing has changed then.
    """
    global _told
    if log_format not in ("auto", "json", "console"):
        raise ValueError(f"unknown log format {log_format!r}: accepted is auto, json or console")
    set_level(level)
    _told = _Told(log_format, pod_name, stream or sys.stderr)
    _install(_told.stream, log_format, LineShape())
    logging.captureWarnings(True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    _configure_structlog()


def reshape(
    shape: LineShape | None = None,
    encoding: str = "auto",
    stream: TextIO | None = None,
) -> None:
    """Have lines look otherwise, or as ``configure`` was told when called without arguments.

    Does nothing where ``configure`` was never called: the log is another program's then.

    Arguments:
        shape: of JSON lines; None is Knative's.
        encoding: json or console; counts where ``configure`` was told auto.
        stream: where to; None is where ``configure`` was told.
    """
    if _told is not None:
        log_format = encoding if _told.log_format == "auto" else _told.log_format
        _install(stream or _told.stream, log_format, shape or LineShape())


def _install(stream: TextIO, log_format: str, shape: LineShape) -> None:
    global _installed
    assert _told is not None
    readable = log_format == "console" or (log_format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(_console(stream) if readable else _json(shape, _told.pod_name)))
    root = logging.getLogger()
    if _installed is not None:
        root.removeHandler(_installed)
    root.addHandler(handler)
    _installed = handler


def set_level(level: str) -> None:
    """Change the least severity that is logged, from now on.

    Raises:
        ValueError: the word is none of ``LEVELS``; the level stays as it was.
    """
    number = LEVELS.get(level.lower())
    if number is None:
        raise ValueError(f"unknown log level {level!r}: accepted is one of {', '.join(LEVELS)}")
    logging.getLogger().setLevel(number)


def change_level(level: str) -> None:
    """As ``set_level``, and say so while it can be seen.

    Raises:
        ValueError: the word is none of ``LEVELS``; the level stays as it was.
    """
    root = logging.getLogger()
    before = root.level
    set_level(level)
    after = root.level
    if after != before:
        root.setLevel(min(before, after))
        logger.info("log level: %s", level.lower())
        root.setLevel(after)


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
    # uvicorn passes each message again with escape codes in it; other handlers leave theirs.
    for key in ("color_message", "message", "asctime"):
        event.pop(key, None)
    return event


def _json(shape: LineShape, pod_name: str) -> list[Processor]:
    import structlog

    def line(logger: object, method: str, event: Event) -> str:
        record: logging.LogRecord = event.pop("_record")
        event.pop("_from_structlog", None)
        return line_of(event, record, shape, pod_name)

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
    """The text with control characters escaped, so that a header cannot move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Repeats:
    """Decides whether a message that may come a thousand times a second is logged once more.

    Each kind of message is let through at most once per interval, and then with the number that
    were left out. Memory is bounded: once ``kinds`` different kinds were logged within one
    interval, all further ones count as one kind.
    """

    def __init__(self, interval: float = 10.0, kinds: int = 1024) -> None:
        """Args: interval in seconds between two messages of a kind; how many kinds to know."""
        self._interval = interval
        self._kinds = kinds
        self._seen: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        return len(self._seen)

    def admit(self, kind: Hashable, now: float) -> int | None:
        """How many of this kind were left out since the last one, or None: leave it out.

        Arguments:
            kind: what makes two messages the same to a reader, such as (event, pod).
            now: monotonic seconds; never less than in the call before.
        """
        if kind not in self._seen:
            self._forget(now)
            if len(self._seen) >= self._kinds:
                kind = _FURTHER
        since, hidden = self._seen.get(kind, (None, 0))
        if since is not None and now - since < self._interval:
            self._seen[kind] = (since, hidden + 1)
            return None
        self._seen[kind] = (now, 0)
        self._seen.move_to_end(kind)
        return hidden

    def _forget(self, now: float) -> None:
        while self._seen:
            oldest, (since, _) = next(iter(self._seen.items()))
            if now - since < self._interval:
                return
            del self._seen[oldest]
