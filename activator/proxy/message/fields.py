"""Versions of HTTP, and names of header fields: handled, protected, or kept out of trailers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from typing import Final

from activator.knative import words


class HttpVersion(IntEnum):
    """A version of HTTP. Its number is the value of a label in metrics.

    The activator treats HTTP/1.2 to HTTP/1.9 as HTTP/1.1 (RFC 9110 section 2.5).
    """

    HTTP_1_0 = 0
    HTTP_1_1 = 1
    HTTP_2 = 2


#: Module names for the members, for speed: a look-up of ``HttpVersion.HTTP_2`` calls a function.
HTTP_1_0: Final = HttpVersion.HTTP_1_0
HTTP_1_1: Final = HttpVersion.HTTP_1_1
HTTP_2: Final = HttpVersion.HTTP_2


# Lists header field names: which the activator handles, protects, or keeps out of trailers.
#
# Pure. Sources: RFC 9110 section 7.6.1 (hop-by-hop fields), RFC 9110 section 6.5.1 (trailers).
# ``knative.words`` has Knative's control fields.

#: The plain Service of a request, ``namespace/name``; the ingress sets it.
SERVICE: Final = b"activator-service"
#: The class of a request in the queue: high, normal or low.
PRIORITY: Final = b"activator-priority"

#: Protected fields: a client's Connection header cannot remove them from the request to a pod.
_PROTECTED_PREFIXES: Final = (*words.PREFIXES, b"x-forwarded-")
_PROTECTED: Final = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"forwarded", SERVICE, PRIORITY)
)

#: Fields that are not allowed in a trailer section: framing, routing, request modifiers,
#: authentication, content format (RFC 9110 section 6.5.1), and all control fields.
_NOT_IN_TRAILERS: Final = frozenset(
    (
        *_PROTECTED,
        *(b"authorization", b"cache-control", b"connection", b"content-encoding"),
        *(b"content-range", b"content-type", b"cookie", b"expect", b"keep-alive"),
        *(b"max-forwards", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"range", b"set-cookie", b"te", b"trailer", b"upgrade", b"www-authenticate"),
    )
)

#: Request fields that the activator handles: it reads, removes or rewrites them.
REQUEST_FIELDS: Final = frozenset(
    (
        *(b"connection", b"content-length", b"expect", b"host", b"http2-settings", b"keep-alive"),
        *words.OWN,
        *(b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer"),
        *(b"transfer-encoding", b"upgrade", b"x-forwarded-for", SERVICE, PRIORITY),
    )
)

#: Response fields that the activator handles.
RESPONSE_FIELDS: Final = frozenset(
    (
        *(b"connection", b"content-length", b"date", b"keep-alive", b"proxy-authenticate"),
        *(b"proxy-authorization", b"proxy-connection", b"trailer", b"transfer-encoding"),
        b"upgrade",
    )
)

#: Fields that frame a message or close its connection. llhttp reads them too.
FRAMING: Final = frozenset(
    (b"connection", b"content-length", b"proxy-connection", b"transfer-encoding", b"upgrade")
)

#: Fields whose values occur again in other messages and are never secret.
RECURRING: Final = frozenset(
    (
        *(b"accept", b"accept-charset", b"accept-encoding", b"accept-language", b"accept-ranges"),
        *(b"access-control-allow-origin", b"alt-svc", b"cache-control", b"connection", b"date"),
        *(b"content-encoding", b"content-language", b"content-length", b"content-type", b"dnt"),
        *words.RECURRING,
        *(SERVICE, PRIORITY),
        *(b"expect", b"expires", b"host", b"keep-alive", b"pragma", b"priority"),
        *(b"referrer-policy", b"sec-ch-ua", b"sec-ch-ua-mobile", b"sec-ch-ua-platform"),
        *(b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site", b"sec-fetch-user", b"server"),
        *(b"strict-transport-security", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
        *(b"upgrade-insecure-requests", b"user-agent", b"vary", b"via", b"x-content-type-options"),
        *(b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-proto", b"x-frame-options"),
        b"x-powered-by",
    )
)


def tokens(value: bytes) -> list[bytes]:
    """Return the members of a comma-separated list in lower case, without empty members."""
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]


def without_named(block: bytes, names: Iterable[bytes]) -> bytes:
    """Return a block without the fields that a Connection header names; protected fields stay.

    Arguments:
        block: header fields, each preceded by its CRLF.
        names: the members of the Connection header, in lower case.
    """
    removed = {name for name in names if not _is_protected(name)}
    lines = block.split(b"\r\n")
    kept = [line for line in lines[1:] if line.partition(b":")[0].lower() not in removed]
    return b"".join(b"\r\n" + line for line in kept)


_SPACE: Final = 0x20
#: The beginning of a field line by the name of the field. The names come from the configuration.
_MOST_NAMES: Final = 256
_begins: dict[bytes, bytes] = {}


def values_in(lines: bytes, name: bytes) -> bytes:
    """Return the values of a field, joined by ``, ``.

    Arguments:
        lines: field lines, each preceded by its CRLF.
        name: in lower case.
    """
    begins = _begins.get(name)
    if begins is None:
        if len(_begins) >= _MOST_NAMES:
            _begins.clear()
        begins = _begins[name] = b"\r\n" + name + b":"
    # `find` would parse its arguments by a format, which takes longer than `split` does.
    pieces = lines.lower().split(begins)
    count = len(pieces)
    if count == 1:
        return b""
    start = len(pieces[0]) + len(begins)
    if count == 2:  # the usual case: one space before the value, and none behind it
        if start < len(lines) and lines[start] == _SPACE:
            start += 1
        value = lines[start:].partition(b"\r\n")[0]
        if value and (value[0] <= _SPACE or value[-1] <= _SPACE):
            value = value.strip(b" \t")
        return value
    values: list[bytes] = []
    for piece in pieces[1:]:
        found = lines[start : start + len(piece)]  # ordered: a length is not negative
        values.append(found.partition(b"\r\n")[0].strip(b" \t"))
        start += len(piece) + len(begins)
    return b", ".join(values)


#: Maps each byte of a name to the one that all servers read: letters and digits to lower case, all
#: others to ``-``. No pseudo-header field equals another name.
_FOLDED: Final = bytes(
    ord(each.lower()) if each.isascii() and (each.isalnum() or each == ":") else ord("-")
    for each in map(chr, range(256))
)


def folded(name: bytes) -> bytes:
    """Return a name in a form that is equal for all names that some server cannot distinguish.

    CGI-style environments have upper-case letters, digits and ``_`` only (RFC 3875 section 4.1.18).
    """
    return name.translate(_FOLDED)


def is_lookalike(name: bytes) -> bool:
    """Return whether a name equals a protected name if each ``_`` is read as ``-``.

    A CGI-style environment in the pod cannot distinguish ``X_Forwarded_For`` from
    ``X-Forwarded-For`` (Envoy: headers_with_underscores_action).

    Arguments:
        name: in lower case.
    """
    return b"_" in name and _is_protected(name.replace(b"_", b"-"))


def clean_trailers(trailers: bytes) -> bytes:
    """Return the lines of a trailer section that may be passed on.

    Arguments:
        trailers: lines, each with its CRLF.
    """
    kept = (
        line
        for line in trailers.split(b"\r\n")[:-1]
        if not is_barred_from_trailers(line.partition(b":")[0].lower())
    )
    return b"".join(line + b"\r\n" for line in kept)


def is_handled(name: bytes) -> bool:
    """Return whether the activator handles request fields of this name, in lower case."""
    return name in REQUEST_FIELDS


def lines_of(fields: Mapping[bytes, bytes], without: Collection[bytes] = ()) -> bytes:
    """Return fields as lines, each preceded by its CRLF.

    Arguments:
        fields: by name; pseudo-header fields (RFC 9113 section 8.3) are left out.
        without: names that are left out.
    """
    return b"".join(
        b"\r\n%b: %b" % (name, value)
        for name, value in fields.items()
        if name[:1] != b":" and name not in without
    )


def _is_protected(name: bytes) -> bool:
    return name in _PROTECTED or name.startswith(_PROTECTED_PREFIXES)


def is_barred_from_trailers(name: bytes) -> bool:
    """Return whether a trailer section must not have a field of this name, in lower case."""
    return name in _NOT_IN_TRAILERS or name.startswith(_PROTECTED_PREFIXES)
