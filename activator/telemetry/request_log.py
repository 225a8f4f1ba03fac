"""Writes the request log: a line for each ended request, in the form of the operator's template.

The caller decides which requests get a line. Knative's counterpart: pkg/http/request_log.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from activator.knative.configmaps.observability import RequestLogConfig
from activator.process.logs import Repeats
from activator.telemetry.gotemplate.compiler import compile_template
from activator.telemetry.gotemplate.errors import At, ExecutionError, TemplateError
from activator.telemetry.gotemplate.values import decoded, encoded, show_float
from activator.telemetry.request_view import Entry, Url, seconds

if TYPE_CHECKING:
    from activator.runtime import RequestRecord

logger = logging.getLogger(__name__)


class Writer(Protocol):
    """A sink of lines."""

    def write(self, line: bytes) -> None:
        """Write a line; must not block."""


#: Most characters of a template: far above any log line. Compiling that many takes a tenth of a
#: second, and no request passes meanwhile.
LONGEST: Final = 16 << 10


def compiled(template: str) -> Callable[[Entry], str]:
    """Return a function that renders an entry. A line feed is added to a template without one.

    Raises:
        TemplateError: the template is invalid.
    """
    if len(template) > LONGEST:
        raise TemplateError(At(1, 1), f"it has {len(template)} characters; {LONGEST} are allowed")
    return compile_template(template if template.endswith("\n") else template + "\n", Entry)


class RequestLog:
    """Writes a line for each ended request of a known revision, without probes.

    Attributes:
        lines: the number of lines made.
        failures: the number of lines that only say that the template did not fit.
    """

    def __init__(self, writer: Writer, clock: Callable[[], float]) -> None:
        """Arguments: writer: the sink of the lines; clock: monotonic seconds."""
        self.lines = 0
        self.failures = 0
        self._writer = writer
        self._clock = clock
        self._render: Callable[[Entry], str] | None = None
        self._repeats = Repeats()

    def configure(self, config: RequestLogConfig) -> bool:
        """Set the template, or turn the log off.

        Arguments:
            config: ``compiled`` has already accepted its template.

        Returns:
            Whether requests are logged from now on.
        """
        self._render = compiled(config.template) if config.enabled else None
        return self._render is not None

    def ended(self, record: RequestRecord) -> None:
        """Write the line of a request; neither block nor raise, since the byte path calls this."""
        if self._render is None:
            return
        self.lines += 1
        try:
            line = self._render(Entry(record))
        except ExecutionError as error:
            line = self._fallback(record, error)
        self._writer.write(encoded(line))

    def _fallback(self, record: RequestRecord, error: ExecutionError) -> str:
        self.failures += 1
        if self._repeats.admit("", self._clock()) is not None:
            logger.warning("request log: the template does not fit a request: %s", error)
        return (
            f"Invalid request log template: method: {decoded(record.method)}, "
            f"response code: {record.status}, latency: {show_float(seconds(record.latency))}, "
            f"url: {Url(decoded(record.target)).string()}\n"
        )
