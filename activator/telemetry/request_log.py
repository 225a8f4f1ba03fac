"""Writes the request log: a line for each ended request, in the form of the operator's template.

The caller decides which requests get a line. Knative's counterpart: pkg/http/request_log.go.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import lru_cache
from time import gmtime, strftime, time
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from activator.knative.configmaps.observability import RequestLogConfig
from activator.process.logs import Repeats
from activator.telemetry.go_values import (
    ExecutionError,
    GoMap,
    GoStruct,
    Member,
    TemplateError,
    decoded,
    encoded,
    show_float,
)
from activator.telemetry.template import compile_template
from throttler.model import Revision

if TYPE_CHECKING:
    from activator.runtime import RequestRecord

logger = logging.getLogger(__name__)

# The values of a template present an ended request with the names of Go's structs. They are
# RequestLogTemplateInput of pkg/http/request_log.go, net/http's Request and net/url's URL. The
# costly parts (header fields, the parts of the URL) are made on the template's first use.

_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_AS_IT_IS: Final = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]/]|%[0-9A-Fa-f]{2})*")
_ABSOLUTE: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)(.*)", re.DOTALL)
#: The characters of a path that net/url does not escape.
_PATH_SAFE: Final = "$&+,/:;=@"


class Values(GoMap):
    """net/url's Values: a query."""

    go_name: ClassVar[str] = "url.Values"

    def first(self, key: str) -> str:
        """Return the first value of a key; empty if there is none."""
        return (self.get(key) or [""])[0]

    def has(self, key: str) -> bool:
        """Return whether the query has the key."""
        return key in self


Values.members = {
    "Get": Member(Values.first, str, (str,)),
    "Has": Member(Values.has, bool, (str,)),
}


class Url(GoStruct):
    """net/url's URL, of a request target."""

    __slots__ = ("escaped_path", "host", "path", "query", "question", "raw_path", "scheme")
    go_name: ClassVar[str] = "url.URL"
    stringer: ClassVar[bool] = True

    def __init__(self, target: str) -> None:
        absolute = _ABSOLUTE.fullmatch(target)
        self.scheme = absolute[1].lower() if absolute else ""
        self.host = absolute[2] if absolute else ""
        rest = absolute[3] if absolute else target
        raw, question, query = rest.partition("?")
        self.question: str = question
        self.query: str = query
        # Go rejects a request with a percent sign that begins no escape.
        broken = _PERCENT.search(encoded(raw)) is not None
        self.path = raw if broken else decoded(unquote_to_bytes(encoded(raw)))
        again = raw if broken else quote(encoded(self.path), safe=_PATH_SAFE)
        self.raw_path = "" if again == raw or raw == "*" else raw
        self.escaped_path = raw if _AS_IT_IS.fullmatch(raw) else again

    def string(self) -> str:
        """Return the URL, assembled from its parts."""
        origin = f"{self.scheme}://{self.host}" if self.scheme else ""
        return origin + self.request_uri(empty="")

    def request_uri(self, empty: str = "/") -> str:
        """Return path and query."""
        return (self.escaped_path or empty) + self.question + self.query

    def values(self) -> Values:
        """Return the keys of the query; a malformed pair is left out, as in Go."""
        found = Values()
        for pair in self.query.split("&"):
            key, _, value = pair.partition("=")
            if pair and ";" not in pair and not _PERCENT.search(encoded(pair)):
                found.setdefault(_unescaped(key), []).append(_unescaped(value))
        return found

    def hostname(self) -> str:
        """Return the host without port and brackets."""
        host = self.host.rpartition("@")[2]
        if host.startswith("["):
            return host[1:].partition("]")[0]
        return host.partition(":")[0]

    def port(self) -> str:
        """Return the port in the client's spelling; empty if there is none."""
        _, colon, port = self.host.rpartition("@")[2].rpartition("]")[2].rpartition(":")
        return port if colon and port.isdigit() else ""


def _unescaped(text: str) -> str:
    return unquote_plus(text, errors="surrogateescape")


Url.members = {
    "EscapedPath": Member(lambda url: url.escaped_path, str),
    "ForceQuery": Member(lambda url: bool(url.question) and not url.query, bool),
    "Host": Member(lambda url: url.host, str),
    "Hostname": Member(Url.hostname, str),
    "IsAbs": Member(lambda url: bool(url.scheme), bool),
    "Path": Member(lambda url: url.path, str),
    "Port": Member(Url.port, str),
    "Query": Member(Url.values, Values),
    "RawPath": Member(lambda url: url.raw_path, str),
    "RawQuery": Member(lambda url: url.query, str),
    "RequestURI": Member(Url.request_uri, str),
    "Scheme": Member(lambda url: url.scheme, str),
    "String": Member(Url.string, str),
}


#: Fields that net/http removes from the map.
_FRAMING: Final = frozenset({b"transfer-encoding", b"trailer"})


class Header(GoMap):
    """net/http's Header: fields by their canonical names."""

    go_name: ClassVar[str] = "http.Header"

    @classmethod
    def of(cls, block: bytes) -> Header:
        """Return the fields of a block; each field is preceded by its CRLF."""
        found = cls()
        for line in block.split(b"\r\n"):
            name, colon, value = line.partition(b":")
            if colon and name.lower() not in _FRAMING:
                found.setdefault(_field_name(name), []).append(decoded(value.strip(b" \t")))
        return found

    def values_of(self, name: str) -> list[str]:
        """Return all values of a field, whatever the case of its name."""
        return self.get(_canonical(name)) or []

    def first(self, name: str) -> str:
        """Return the first value of a field; empty if there is none."""
        return (self.values_of(name) or [""])[0]


Header.members = {
    "Get": Member(Header.first, str, (str,)),
    "Values": Member(Header.values_of, list, (str,)),
}

_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _canonical(name: str) -> str:
    """Return the canonical name: ``x-b3-traceid`` → ``X-B3-Traceid``.

    A name that is no token stays unchanged, as in net/textproto.
    """
    if not _TOKEN.fullmatch(name):
        return name
    return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))


@lru_cache(maxsize=1024)
def _short_name(name: bytes) -> str:
    return _canonical(decoded(name))


def _field_name(name: bytes) -> str:
    # Clients choose names, so the cache keeps no long ones.
    return _short_name(name) if len(name) <= 64 else _canonical(decoded(name))


def _field_of(name: bytes) -> Callable[[LoggedRequest], str]:
    """Return a function that finds the first value of a field without parsing all fields."""
    pattern = re.compile(rb"\r\n" + name + rb":[ \t]*([^\r\n]*)", re.IGNORECASE)

    def find(request: LoggedRequest) -> str:
        found = pattern.search(request.record.headers)
        return decoded(found[1].rstrip(b" \t")) if found else ""

    return find


class LoggedRequest(GoStruct):
    """net/http's LoggedRequest."""

    __slots__ = ("_header", "_url", "record")
    go_name: ClassVar[str] = "http.Request"

    def __init__(self, record: RequestRecord) -> None:
        self.record = record
        self._header: Header | None = None
        self._url: Url | None = None

    def header(self) -> Header:
        """Return the fields of the request head."""
        if self._header is None:
            self._header = Header.of(self.record.headers)
        return self._header

    def url(self) -> Url:
        """Return the target's parts."""
        if self._url is None:
            self._url = Url(decoded(self.record.target))
        return self._url

    def host(self) -> str:
        """Return the host of an absolute target, else of the Host field."""
        return self.url().host or decoded(self.record.host)

    def transfer_encoding(self) -> list[str]:
        """Return the codings of the body: HTTP/2 has none (RFC 9113 section 8.1)."""
        chunked = self.record.content_length < 0 and self.record.minor != 2
        return ["chunked"] if chunked else []

    def at_least(self, major: int, minor: int) -> bool:
        """Return whether the protocol has at least this version."""
        return self.version() >= (major, minor)

    def version(self) -> tuple[int, int]:
        """Return the protocol's version, major and minor."""
        minor = self.record.minor
        return (2, 0) if minor == 2 else (1, minor)


LoggedRequest.members = {
    "ContentLength": Member(lambda request: request.record.content_length, int),
    "Header": Member(LoggedRequest.header, Header),
    "Host": Member(LoggedRequest.host, str),
    "Method": Member(lambda request: decoded(request.record.method), str),
    "Proto": Member(lambda request: "HTTP/{}.{}".format(*request.version()), str),
    "ProtoAtLeast": Member(LoggedRequest.at_least, bool, (int, int)),
    "ProtoMajor": Member(lambda request: request.version()[0], int),
    "ProtoMinor": Member(lambda request: request.version()[1], int),
    "Referer": Member(_field_of(b"referer"), str),
    "RemoteAddr": Member(lambda request: request.record.client, str),
    "RequestURI": Member(lambda request: decoded(request.record.target), str),
    "TransferEncoding": Member(LoggedRequest.transfer_encoding, list),
    "URL": Member(LoggedRequest.url, Url),
    "UserAgent": Member(_field_of(b"user-agent"), str),
}


def seconds(latency: float) -> float:
    """Return a time rounded to nanoseconds, as in Go."""
    return round(latency, 9)


class LoggedResponse(GoStruct):
    """The response. Knative's struct has no field for the reason."""

    __slots__ = ("record",)
    go_name: ClassVar[str] = "Response"

    def __init__(self, record: RequestRecord) -> None:
        self.record = record

    def string(self) -> str:
        """Return the struct as Go prints it."""
        record = self.record
        return f"{{{record.status} {record.response_size} {show_float(seconds(record.latency))}}}"


LoggedResponse.members = {
    "Code": Member(lambda response: response.record.status, int),
    "Latency": Member(lambda response: seconds(response.record.latency), float),
    "Reason": Member(lambda response: response.record.why.partition("; ")[0], str),
    "ReasonDetail": Member(lambda response: response.record.why.partition("; ")[2], str),
    "Size": Member(lambda response: response.record.response_size, int),
}


class LoggedRevision(GoStruct):
    """The revision of the request. As in Knative's activator, PodName and PodIP are empty."""

    __slots__ = ("model",)
    go_name: ClassVar[str] = "Revision"

    def __init__(self, model: Revision) -> None:
        self.model = model

    def string(self) -> str:
        """Return the struct as Go prints it."""
        model = self.model
        names = (model.id.name, model.id.namespace, model.service, model.configuration, "", "")
        return f"{{{' '.join(names)}}}"


LoggedRevision.members = {
    "Configuration": Member(lambda revision: revision.model.configuration, str),
    "Name": Member(lambda revision: revision.model.id.name, str),
    "Namespace": Member(lambda revision: revision.model.id.namespace, str),
    "PodIP": Member(lambda revision: "", str),
    "PodName": Member(lambda revision: "", str),
    "Service": Member(lambda revision: revision.model.service, str),
}


class LogEntry(GoStruct):
    """The root value of a template (``.``)."""

    __slots__ = ("record", "request")
    go_name: ClassVar[str] = "request log entry"

    def __init__(self, record: RequestRecord) -> None:
        self.record = record
        self.request = LoggedRequest(record)


def _received(entry: LogEntry) -> str:
    """Return when the request arrived, as in the Common Log Format."""
    return strftime("%d/%b/%Y:%H:%M:%S +0000", gmtime(time() - entry.record.latency))


LogEntry.members = {
    "Received": Member(_received, str),
    "Request": Member(lambda entry: entry.request, LoggedRequest),
    "Response": Member(lambda entry: LoggedResponse(entry.record), LoggedResponse),
    "Revision": Member(lambda entry: LoggedRevision(entry.record.revision), LoggedRevision),
    "TraceID": Member(lambda entry: entry.record.trace_id, str),
}


# -- the log --------------------------------------------------------------------------------------

#: Most characters of a template: far above any log line. Compiling that many takes a tenth of a
#: second, and no request passes meanwhile.
LONGEST: Final = 16 << 10


def compiled(template: str) -> Callable[[LogEntry], str]:
    """Return a function that renders an entry. A line feed is added to a template without one.

    Raises:
        TemplateError: the template is invalid.
    """
    if len(template) > LONGEST:
        raise TemplateError(f"1:1: it has {len(template)} characters; {LONGEST} are allowed")
    return compile_template(template if template.endswith("\n") else template + "\n", LogEntry)


class RequestLog:
    """Writes a line for each ended request of a known revision, without probes.

    Attributes:
        lines: the number of lines made.
        failures: the number of lines that only say that the template did not fit.
    """

    def __init__(self, write: Callable[[bytes], None], clock: Callable[[], float]) -> None:
        """Arguments: write: takes a line and does not block; clock: monotonic seconds."""
        self.lines = 0
        self.failures = 0
        self._write = write
        self._clock = clock
        self._render: Callable[[LogEntry], str] | None = None
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
            line = self._render(LogEntry(record))
        except ExecutionError as error:
            line = self._fallback(record, error)
        self._write(encoded(line))

    def _fallback(self, record: RequestRecord, error: ExecutionError) -> str:
        self.failures += 1
        if self._repeats.admit("", self._clock()) is not None:
            logger.warning("request log: the template does not fit a request: %s", error)
        return (
            f"Invalid request log template: method: {decoded(record.method)}, "
            f"response code: {record.status}, latency: {show_float(seconds(record.latency))}, "
            f"url: {Url(decoded(record.target)).string()}\n"
        )
