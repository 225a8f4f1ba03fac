"""Parses a request head in HTTP/1, has the record of a request, and writes the head for a pod."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from activator.knative.words import ORIGINAL_HOST, ORIGINAL_HOST_START
from activator.proxy.message.fields import (
    HTTP_1_0,
    HTTP_1_1,
    HTTP_2,
    HttpVersion,
    clean_trailers,
    is_handled,
    lines_of,
    tokens,
    values_in,
    without_named,
)
from activator.proxy.message.grammar import (
    REQUEST_LINES,
    Body,
    ChunkedBody,
    FramingError,
    LengthBody,
    MessageHead,
    check_request,
    is_good_part,
)

# Parses a request head in HTTP/1, and defines the record of a request for both versions. Pure.
#
# Bytes that the activator does not interpret pass unchanged: the target, the order and the
# spelling of fields. Sources: RFC 9110, RFC 9112.

#: Methods that llhttp checks unchanged. The activator passes on any other method too (RFC 9110
#: section 16.1.1), so llhttp checks such a request as a POST.
_CHECKED_AS_IS: Final = frozenset(
    (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH")
)
#: Methods that have no second effect if they are repeated (RFC 9110 section 9.2.2).
IDEMPOTENT: Final = frozenset((b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE"))
#: The syntax of a method: a token. Methods have at most 64 bytes.
METHOD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_HOST_CHARACTERS: Final = b"-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
#: The syntax of a host with or without a port.
HOST: Final = re.compile(rb"(?:[!$&'()*+,;=._~%0-9A-Za-z-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
#: A number, since CPython tests ``bytes in bytes`` by way of an exception, which takes 0.6 µs.
_HASH: Final = ord("#")
#: A memo of hosts that are plain names, so that they need no check.
plain_hosts: Final[set[bytes]] = set()
#: Limits of this memo: hosts, and bytes of one host.
MEMO_HOSTS: Final = 1024
MEMO_HOST_BYTES: Final = 255
#: Bytes of the shortest field, with its line end.
_SHORTEST_FIELD: Final = 4
_NEWER: Final = re.compile(rb"HTTP/1\.[2-9]")
_KEEP_ALIVE: Final = (b"", b"keep-alive", b"Keep-Alive")
_NONE: Final[list[bytes]] = []
#: Members of Connection that need no removal: they name no field, or one that is removed anyway.
_OWN_OPTIONS: Final = (b"close", b"keep-alive", b"upgrade", b"te")


def _stripped(value: bytes) -> bytes:
    return value.strip(b" \t")


class Request:
    """A request head.

    It never changes: the exchanges of a recurring HTTP/2 header block share one record.

    Attributes:
        method: as the client sent it.
        target: as the client sent it, but in origin form.
        version: the HTTP version of the client.
        host: the host of an absolute target, else the Host field; empty only in HTTP/1.0.
        fields: in HTTP/1 the handled fields (``fields.REQUEST_FIELDS``), without framing fields; in
            HTTP/2 all fields. By name in lower case.
        section: in HTTP/2 the header block for a pod; empty in HTTP/1.
        keep_alive: whether the client keeps the connection for another request.
        has_body: whether a body follows.
        length: Content-Length; 0 without a body, -1 for an unknown length.
        upgrade: the protocol in Upgrade; empty if the client requests no other protocol.
        expects_continue: whether the client waits for 100 before it sends the body.
        size: the approximate number of bytes of the head that a pod gets.
        counted_as: the method in metrics. It has few values, whatever methods clients invent.
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
        "size",
        "target",
        "upgrade",
        "version",
    )

    def __init__(
        self,
        method: bytes,
        target: bytes,
        version: HttpVersion,
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
        # Not a dataclass: its __init__ would stay interpreted in the compiled build.
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
        self.size: Final = len(target) + len(section) + (0 if lines is None else len(lines))
        is_usual = method == b"GET" or method in _CHECKED_AS_IS
        self.counted_as: Final = method if is_usual else b"_OTHER"

    @property
    def lines(self) -> bytes:
        """All fields that the activator does not handle, unchanged, each preceded by its CRLF.

        Of a request in HTTP/2 they are written at first use. Few requests need them.
        """
        lines = self._lines
        if lines is None:
            lines = self._lines = lines_of(
                self.fields, without=set(filter(is_handled, self.fields))
            )
        return lines

    def copy(self, fields: dict[bytes, bytes], lines: bytes | None, section: bytes) -> Request:
        """Return this request with other values of the attributes of these names."""
        return Request(
            *(self.method, self.target, self.version, self.host, fields, lines, self.keep_alive),
            *(self.has_body, self.length, self.upgrade, self.expects_continue, section),
        )

    def own_lines(self) -> bytes:
        """Return the handled fields, without framing fields, as lines.

        Each line is preceded by its CRLF.
        """
        return lines_of(dict(each for each in self.fields.items() if is_handled(each[0])))

    def value_of(self, name: bytes) -> bytes:
        """Return the value of a field; values of equal names are joined by ``, ``.

        In HTTP/1 a field that the activator does not handle costs a search through the whole head.

        Arguments:
            name: in lower case; no field that frames the message.

        Returns:
            The value; empty if the request does not have the field.
        """
        fields = self.fields
        if name == b"host":
            return self.host
        if fields and name in fields:
            return fields[name].strip(b" \t")
        if self.version is HTTP_2 or self._lines is None:
            return b""
        return values_in(self._lines, name)

    def values(self) -> dict[bytes, list[bytes]]:
        """Return all values of each field, by its name in lower case.

        Of a field in HTTP/2, or one that the activator handles, only the joined values are known:
        then the whole counts as well as each part.
        """
        found = {
            name: [value, *map(_stripped, value.split(b","))] if b"," in value else [value]
            for name, value in self.fields.items()
        }
        if self.version is not HTTP_2 and self._lines:
            for line in self._lines[2:].split(b"\r\n"):
                name, _, value = line.partition(b":")
                found.setdefault(name.lower(), []).append(value.strip(b" \t"))
        return found

    def around_cookies(self) -> bytes:
        """Return bytes that hold the value of Cookie, if the request has one, and maybe others.

        A search in them costs less than ``value_of``: in HTTP/1 they are all unhandled fields.
        """
        if self.version is HTTP_2 or self._lines is None:
            return self.fields.get(b"cookie", b"")
        return self._lines


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of a request head.

    Attributes:
        max_head: bytes of the whole head (Go: 1 MiB).
        max_fields: number of fields.
        max_target: bytes of the request target.
    """

    max_head: int = 1 << 20
    max_fields: int = 1000
    max_target: int = 64 << 10


def read_request(head: bytes, limits: RequestLimits) -> Request:
    """Parse one complete request head in HTTP/1.

    Arguments:
        head: from the method up to the empty line, and with it.
        limits: the limits of a head.

    Returns:
        The request. Its body, if any, follows on the connection: see ``body_of``.

    Raises:
        FramingError: the head is malformed, unsupported or too large. ``status`` is the status of
            the error response.
    """
    # One long function on purpose: it runs for every request, and each call costs instructions.
    if len(head) > limits.max_head:
        raise FramingError("the request head is too large", 431)
    most = limits.max_fields
    if len(head) > _SHORTEST_FIELD * most and head.count(b"\n") - 2 > most:
        raise FramingError("too many header fields", 431)
    parts = MessageHead(REQUEST_LINES, head)
    fields, block, length = parts.fields, parts.block, parts.length
    line = parts.start
    try:
        method, target, spoken = line.split(b" ")
    except ValueError:
        raise FramingError("malformed request line") from None
    version = HTTP_1_1
    is_usual = method == b"GET" or method in _CHECKED_AS_IS  # to compare costs less
    if spoken != b"HTTP/1.1" or not is_usual or len(target) > limits.max_target:
        version, line = _odd_start(line, limits, block)
    if _HASH in target:
        raise FramingError("a fragment in the request target")
    if parts.is_odd or not is_good_part(line, parts.unchecked, ends=version is HTTP_1_1):
        check_request(line + head[len(parts.start) :])
    if parts.new:
        REQUEST_LINES.remember(parts.new)
    host = parts.single
    if parts.singles != 1 or host not in plain_hosts:
        host = _host(host, parts.singles, version)
    if target[:1] != b"/":
        target, host = _other_form(method, target, host)
    has_body = length > 0
    if not parts.acts:
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


def body_of(request: Request) -> Body:
    """Return the framing of the body of a request in HTTP/1; no byte of the body is read yet."""
    return ChunkedBody() if request.length < 0 else LengthBody(request.length)


def _odd_start(line: bytes, limits: RequestLimits, block: bytes) -> tuple[HttpVersion, bytes]:
    """Return the version of an unusual start line, and the line that llhttp checks.

    llhttp gets a line with a method and a version that it knows.

    Raises:
        FramingError: the version, the method or the target is not supported.
    """
    method, target, spoken = line.split(b" ")
    version = HTTP_1_1
    if spoken == b"HTTP/1.0":
        version = HTTP_1_0
    elif _NEWER.fullmatch(spoken):
        line = b"%b %b HTTP/1.1" % (method, target)
    elif spoken != b"HTTP/1.1":
        raise _bad_version(spoken)
    if len(target) > limits.max_target:
        raise FramingError("the request target is too long", 414)
    if method not in _CHECKED_AS_IS:
        if METHOD.fullmatch(method) is None:
            raise FramingError("malformed method")
        if method == b"CONNECT":
            raise FramingError("CONNECT is not supported", 405, block)
        line = b"POST" + line[len(method) :]
    return version, line


def _bad_version(version: bytes) -> FramingError:
    """Return the error for a version other than HTTP/1.x (RFC 9112 section 2.3)."""
    if re.fullmatch(rb"HTTP/[2-9]\.[0-9]", version):
        return FramingError("only HTTP/1.1 and HTTP/1.0 are supported here", 505)
    return FramingError("malformed HTTP version")


def _host(host: bytes, count: int, version: HttpVersion) -> bytes:
    """Return the value of the only Host field; empty in HTTP/1.0 without one.

    Raises:
        FramingError: the Host field is missing, malformed or repeated (RFC 9112 section 3.2).
    """
    if count != 1:
        if count or version is not HTTP_1_0:
            raise FramingError("more than one Host header" if count else "missing Host header")
        return b""
    if host and not host.translate(None, _HOST_CHARACTERS):
        _remember_plain(host)
        return host  # a plain name, in a tenth of the time that the expression takes
    host = host.rstrip(b" \t")
    if HOST.fullmatch(host) is None or b"," in host:
        raise FramingError("malformed Host header")
    return host


def _remember_plain(host: bytes) -> None:
    """Remember a host that is a plain name. A full memo is cleared first."""
    if len(host) <= MEMO_HOST_BYTES:
        if len(plain_hosts) >= MEMO_HOSTS:
            plain_hosts.clear()
        plain_hosts.add(host)


def _other_form(method: bytes, target: bytes, host: bytes) -> tuple[bytes, bytes]:
    """Return target and host of a request whose target is not in origin form.

    Source: RFC 9112 section 3.2.

    Raises:
        FramingError: the form is not supported, or the host in it is malformed.
    """
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


def _check_coding(fields: dict[bytes, bytes], version: HttpVersion) -> None:
    """Remove Transfer-Encoding from the fields (RFC 9112 section 6.3).

    llhttp has already rejected a head with both Transfer-Encoding and Content-Length.

    Raises:
        FramingError: Content-Length is malformed, or the coding is not ``chunked``.
    """
    if fields.pop(b"content-length", None) is not None:
        raise FramingError("malformed Content-Length")
    coding = fields.pop(b"transfer-encoding")
    if coding != b"chunked" and coding.strip(b" \t").lower() != b"chunked":
        raise FramingError("only the transfer coding chunked is supported", 501)
    if version is HTTP_1_0:
        raise FramingError("Transfer-Encoding in HTTP/1.0")


def _upgrade(protocol: bytes, named: list[bytes], *, possible: bool) -> bytes:
    """Return the protocol that a request asks for; empty if the activator ignores the Upgrade.

    It ignores h2c: RFC 9113 section 3.1 removed this upgrade, and requests in the new protocol
    would bypass the activator.

    Arguments:
        protocol: the Upgrade field.
        named: the members of the Connection field.
        possible: the request is HTTP/1.1 without a body. With a body, no bytes of another protocol
            can follow the head.
    """
    if not (protocol and possible and b"upgrade" in named):
        return b""
    return b"" if b"h2c" in tokens(protocol) else protocol


def _expect(expect: bytes, block: bytes) -> bool:
    """Return True for ``100-continue`` (RFC 9110 section 10.1.1).

    Raises:
        FramingError: the client expects something else.
    """
    if expect.lower() != b"100-continue":
        raise FramingError("unsupported expectation", 417, block)
    return True


# Writes the head of a request in HTTP/1, as the pod gets it. Pure.
#
# Sources: RFC 9110, RFC 9112; Knative pkg/activator/handler (control headers), pkg/http/proxy.go.

#: The start of the line with the client's host, for a pod without queue-proxy.
PLAIN_HOST_START: Final = b"Host: "


def pod_head(
    request: Request,
    client: bytes,
    lines: bytes | None = None,
    host_start: bytes = ORIGINAL_HOST_START,
) -> tuple[bytes, bytes]:
    """Return the head of a request for a pod, without the fields that depend on the pod.

    Arguments:
        request: the client's request.
        client: the client's IP address.
        lines: replaces ``request.lines`` if the request is traced.
        host_start: the start of the line with the client's host: ``ORIGINAL_HOST_START`` or
            ``PLAIN_HOST_START``.

    Returns:
        The start line with its CRLF, and the rest with the empty line. The caller puts the fields
        that depend on the pod between them, each with its CRLF: ``Host`` and ``K-Proxy-Request``.
        A pod without queue-proxy has none.
    """
    fields = request.fields
    start = b"%b %b HTTP/1.1\r\n" % (request.method, request.target)
    original_host = request.host
    forwarded_for = client
    trailing = b"\r\n\r\n"
    if fields or request.upgrade:
        # The client's field wins: for a mapped domain, the ingress has already rewritten Host.
        if host_start is ORIGINAL_HOST_START:
            original_host = fields.get(ORIGINAL_HOST) or original_host
        if before := fields.get(b"x-forwarded-for", b"").strip(b" \t"):
            forwarded_for = before + b", " + client
        trailing = _connection_lines(request) + b"\r\n\r\n"
    if request.has_body:
        trailing = _framing_line(request) + trailing
    elif request.length == 0 and request.method in (b"POST", b"PUT", b"PATCH"):
        trailing = b"\r\nContent-Length: 0" + trailing
    return start, b"%b%b\r\nX-Forwarded-For: %b%b%b" % (
        host_start,
        original_host,
        forwarded_for,
        request.lines if lines is None else lines,
        trailing,
    )


def _framing_line(request: Request) -> bytes:
    expect = b"\r\nExpect: 100-continue" if request.expects_continue else b""
    if request.length < 0:
        return b"\r\nTransfer-Encoding: chunked" + expect
    return b"\r\nContent-Length: %d%b" % (request.length, expect)


def _connection_lines(request: Request) -> bytes:
    """Return the hop-by-hop fields that the activator sends to the pod on its own behalf."""
    lines = b""
    if b"te" in request.fields and b"trailers" in tokens(request.fields[b"te"]):
        lines += b"\r\nTE: trailers"
    if b"trailer" in request.fields and request.length < 0:
        named = clean_trailers(
            b"".join(name + b":\r\n" for name in tokens(request.fields[b"trailer"]))
        )
        if names := named.replace(b":\r\n", b", ")[:-2]:
            lines += b"\r\nTrailer: " + names
    if request.upgrade:
        lines += b"\r\nConnection: Upgrade\r\nUpgrade: " + request.upgrade
    return lines


def wants_trailers(request: Request) -> bool:
    """Return whether the pod gets the client's trailers.

    It does if the client announced trailers, or accepts them as every gRPC client does.
    """
    fields = request.fields
    return b"trailer" in fields or b"trailers" in tokens(fields.get(b"te", b""))
