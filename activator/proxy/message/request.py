"""Read a request head.

Bytes in, a record out; knows no socket and no revision. What is not read is passed on exactly as
it came: target, field order, spelling. Sources: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from activator.proxy.message.body import Body, ChunkedBody, LengthBody
from activator.proxy.message.fields import (
    is_ours,
    lines_of,
    tokens,
    without_named,
)
from activator.proxy.message.grammar import FramingError, check_request, is_good_part
from activator.proxy.message.head import Head
from activator.proxy.message.lines import REQUEST_LINES
from activator.proxy.message.version import HTTP_1_0, HTTP_1_1, HTTP_2, Version

#: Methods that llhttp may see. Any other token is as good to us (RFC 9110 section 16.1.1), so it
#: is checked as if it were POST.
_CHECKED_AS_IS: Final = frozenset(
    (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH")
)
#: Methods that may be repeated without a second effect (RFC 9110 section 9.2.2).
IDEMPOTENT: Final = frozenset((b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE"))
#: What a method looks like.
METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_HOST_CHARACTERS: Final = b"-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
#: What a host with or without port looks like.
HOST: Final = re.compile(rb"(?:[!$&'()*+,;=._~%0-9A-Za-z-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
#: As a number: whether bytes are in bytes, CPython asks by way of an exception, which takes 0.6 us.
_HASH: Final = ord("#")
#: Hosts that were found to be plain names, how many of them are remembered, and bytes of one.
plain_hosts: Final[set[bytes]] = set()
MEMO_HOSTS: Final = 1024
MEMO_HOST_BYTES: Final = 255
#: Bytes of the shortest field with its line end.
_SHORTEST_FIELD: Final = 4
_NEWER: Final = re.compile(rb"HTTP/1\.[2-9]")
_KEEP_ALIVE: Final = (b"", b"keep-alive", b"Keep-Alive")
_NONE: Final[list[bytes]] = []
_OWN_OPTIONS: Final = (b"close", b"keep-alive", b"upgrade", b"te")


class Request:
    """A request head.

    Attributes:
        method, target: exactly as they came; the target in origin form.
        version: of HTTP, as the client speaks it.
        host: of the target if that is absolute, else the Host field; empty in HTTP/1.0 only.
        fields: those of fields.REQUEST_FIELDS that are there and are not framing; of a request in
            HTTP/2 all fields, by name.
        section: of a request in HTTP/2: the header block that goes on; empty in HTTP/1.
        keep_alive: whether the client keeps the connection for another request.
        has_body: whether a body follows.
        length: Content-Length, 0 without body, -1 if the length is unknown.
        upgrade: the protocol asked for by Upgrade, empty if there is none.
        expects_continue: whether the client waits for 100 before it sends the body.
        counted_as: the method for metrics: clients may make up any number of others.

    Nothing changes a request once it is read: exchanges of a recurring HTTP/2 block share one.
    """

    __slots__ = (
        "_lines",
        "counted_as",
        "expects_continue",
        "fields",
        "has_body",
        "host",
        "keep_alive",
        "length",
        "method",
        "section",
        "target",
        "upgrade",
        "version",
    )

    def __init__(
        self,
        method: bytes,
        target: bytes,
        version: Version,
        host: bytes,
        fields: dict[bytes, bytes],
        lines: bytes | None,
        keep_alive: bool = True,
        has_body: bool = False,
        length: int = 0,
        upgrade: bytes = b"",
        expects_continue: bool = False,
        section: bytes = b"",
    ) -> None:
        # Not a dataclass: the __init__ of one stays interpreted where others are compiled.
        self.method: Final = method
        self.target: Final = target
        self.version: Final = version
        self.host: Final = host
        self.fields: Final = fields
        self._lines = lines
        self.keep_alive: Final = keep_alive
        self.has_body: Final = has_body
        self.length: Final = length
        self.upgrade: Final = upgrade
        self.expects_continue: Final = expects_continue
        self.section: Final = section
        self.counted_as: Final = method if method in _CHECKED_AS_IS else b"_OTHER"

    @property
    def lines(self) -> bytes:
        """All fields that mean nothing to us, as they came, each preceded by its CRLF.

        Of a request in HTTP/2 they are written at the first use, which few requests have.
        """
        lines = self._lines
        if lines is None:
            lines = self._lines = lines_of(self.fields, without=set(filter(is_ours, self.fields)))
        return lines

    def own_lines(self) -> bytes:
        """Return the fields that mean something to us and are no framing, as lines."""
        return lines_of(dict(each for each in self.fields.items() if is_ours(each[0])))

    def value_of(self, name: bytes) -> bytes:
        """Return the value of a field, values of equal names joined; empty where there is none.

        Costs a search through the whole head in HTTP/1, where only fields of ours are known by
        name. Fields that frame the message are not found.

        Arguments:
            name: in lower case.
        """
        if name == b"host":
            return self.host
        if name in self.fields:
            return self.fields[name].strip(b" \t")
        if self.version is HTTP_2 or self._lines is None:
            return b""
        return _values_in(self._lines, name)

    def size(self) -> int:
        """Return about how many bytes a pod gets of the head."""
        lines = 0 if self._lines is None else len(self._lines)
        return len(self.target) + len(self.section) + lines


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds on a request head.

    Attributes:
        max_head: bytes of the whole head (Go: 1 MiB); max_fields: number of fields;
        max_target: bytes of the request target.
    """

    max_head: int = 1 << 20
    max_fields: int = 1000
    max_target: int = 64 << 10


def read_request(head: bytes, limits: RequestLimits) -> Request:
    """Read one whole head.

    Arguments:
        head: from the method up to and with the empty line.

    Raises:
        FramingError: it is malformed or breaks a limit; ``status`` is the answer that fits.
    """
    if len(head) > limits.max_head:
        raise FramingError("the request head is too large", 431)
    most = limits.max_fields
    if len(head) > _SHORTEST_FIELD * most and head.count(b"\n") - 2 > most:
        raise FramingError("too many header fields", 431)
    parts = Head(REQUEST_LINES, head)
    fields, block, length = parts.fields, parts.block, parts.length
    method, target, version, line = _start_line(parts.start, limits, block)
    if parts.is_odd or not is_good_part(line, parts.unchecked, ends=version is HTTP_1_1):
        check_request(line + head[len(parts.start) :])
    if parts.new:
        REQUEST_LINES.remember(parts.new)
    host = _host(parts.single, parts.singles, version)
    if target[:1] != b"/":
        target, host = _other_form(method, target, host)
    has_body = length > 0
    if not fields:
        length = max(length, 0)
        return Request(
            method, target, version, host, fields, block, version is HTTP_1_1, has_body, length
        )
    if b"transfer-encoding" in fields or b"content-length" in fields:
        _check_coding(fields, version)
        has_body = True
        length = -1
    elif length < 0:
        length = 0
    connection = fields.pop(b"connection", b"")
    named = _NONE if connection in _KEEP_ALIVE and version else tokens(connection)
    keep_alive = b"close" not in named if version else b"keep-alive" in named
    upgrade, expects = b"", False
    if fields or named:
        if b"upgrade" in fields:
            protocol = fields.pop(b"upgrade").strip(b" \t")
            upgrade = _upgrade(protocol, named, possible=version is HTTP_1_1 and not has_body)
        if b"expect" in fields:
            expects = _expect(fields.pop(b"expect").strip(b" \t"), block)
            expects = expects and version is HTTP_1_1 and has_body
        if others := [name for name in named if name not in _OWN_OPTIONS]:
            block = without_named(block, others)
    return Request(
        method,
        target,
        version,
        host,
        fields,
        block,
        keep_alive,
        has_body,
        length,
        upgrade,
        expects,
    )


def _values_in(lines: bytes, name: bytes) -> bytes:
    """Return the values of a field among lines that each follow a CRLF, joined."""
    begins = b"\r\n" + name + b":"
    lower = lines.lower()
    values: list[bytes] = []
    at = lower.find(begins)
    while at >= 0:
        end = lines.find(b"\r\n", at + 2)
        if end < 0:
            end = len(lines)
        value = lines[at + len(begins) : end]  # ordered: a name holds no CRLF
        values.append(value.strip(b" \t"))
        at = lower.find(begins, end)
    return b", ".join(values)


def body_of(request: Request) -> Body:
    """Return the framing of a request's body in HTTP/1, before its first byte."""
    return ChunkedBody() if request.length < 0 else LengthBody(request.length)


def _start_line(
    line: bytes, limits: RequestLimits, block: bytes
) -> tuple[bytes, bytes, Version, bytes]:
    """Return method, target and version, and the line in words that llhttp knows."""
    try:
        method, target, version = line.split(b" ")
    except ValueError:
        raise FramingError("malformed request line") from None
    spoken = HTTP_1_1
    if version != b"HTTP/1.1":
        if version == b"HTTP/1.0":
            spoken = HTTP_1_0
        elif _NEWER.fullmatch(version):
            line = b"%b %b HTTP/1.1" % (method, target)
        else:
            raise _bad_version(version)
    if len(target) > limits.max_target:
        raise FramingError("the request target is too long", 414)
    if method not in _CHECKED_AS_IS:
        if METHOD.fullmatch(method) is None:
            raise FramingError("malformed method")
        if method == b"CONNECT":
            raise FramingError("CONNECT is not offered", 405, block)
        line = b"POST" + line[len(method) :]
    if _HASH in target:
        raise FramingError("a fragment in the request target")
    return method, target, spoken, line


def _bad_version(version: bytes) -> FramingError:
    """RFC 9112 section 2.3: digits are known to be one each, or it is no HTTP at all."""
    if re.fullmatch(rb"HTTP/[2-9]\.[0-9]", version):
        return FramingError("only HTTP/1.1 and HTTP/1.0 are spoken here", 505)
    return FramingError("malformed HTTP version")


def _host(host: bytes, count: int, version: Version) -> bytes:
    """Return the one Host value; RFC 9112 section 3.2 wants 400 for none, several, or nonsense."""
    if count != 1:
        if count or version is not HTTP_1_0:
            raise FramingError("more than one Host header" if count else "missing Host header")
        return b""
    if host in plain_hosts:
        return host
    if host and not host.translate(None, _HOST_CHARACTERS):
        _remember_plain(host)
        return host  # a plain name, in a tenth of the time that the expression takes
    host = host.rstrip(b" \t")
    if HOST.fullmatch(host) is None or b"," in host:
        raise FramingError("malformed Host header")
    return host


def _remember_plain(host: bytes) -> None:
    """Remember a host that is a plain name; a full memo forgets all."""
    if len(host) <= MEMO_HOST_BYTES:
        if len(plain_hosts) >= MEMO_HOSTS:
            plain_hosts.clear()
        plain_hosts.add(host)


def _other_form(method: bytes, target: bytes, host: bytes) -> tuple[bytes, bytes]:
    """Read a target that is not in origin form (RFC 9112 section 3.2)."""
    if target == b"*" and method == b"OPTIONS":
        return target, host
    if target[:7].lower() != b"http://":
        raise FramingError("unsupported request target")
    authority, slash, path = target[7:].partition(b"/")
    authority, question, query = authority.partition(b"?")
    if HOST.fullmatch(authority) is None:
        raise FramingError("malformed authority in the request target")
    if question:
        path = question + query + slash + path
    return b"/" + path, authority


def _check_coding(fields: dict[bytes, bytes], version: Version) -> None:
    """Take out Transfer-Encoding; refuse all but chunks (RFC 9112 section 6.3).

    llhttp has refused one beside a Content-Length.
    """
    if fields.pop(b"content-length", None) is not None:
        raise FramingError("malformed Content-Length")
    coding = fields.pop(b"transfer-encoding")
    if coding != b"chunked" and coding.strip(b" \t").lower() != b"chunked":
        raise FramingError("only the transfer coding chunked is supported", 501)
    if version is HTTP_1_0:
        raise FramingError("Transfer-Encoding in HTTP/1.0")


def _upgrade(protocol: bytes, named: list[bytes], *, possible: bool) -> bytes:
    """Return the protocol that a request asks for; empty where it may not change.

    h2c by upgrade is gone (RFC 9113 section 3.1) and a way around us; a body leaves no room for
    bytes of another protocol behind the head.
    """
    if not (protocol and possible and b"upgrade" in named):
        return b""
    return b"" if b"h2c" in tokens(protocol) else protocol


def _expect(expect: bytes, block: bytes) -> bool:
    """RFC 9110 section 10.1.1."""
    if expect.lower() != b"100-continue":
        raise FramingError("unsupported expectation", 417, block)
    return True
