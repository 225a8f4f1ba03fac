"""Header field names: which mean something to us, which never pass, which no client may remove.

Knows bytes only. Sources: RFC 9110 section 7.6.1 (hop-by-hop), RFC 9110 section 6.5.1 (trailers);
Knative's control fields are those of ``knative.control_fields``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from activator.knative import control_fields

#: Protected: a client's Connection header cannot remove them from what a pod sees.
_PROTECTED_PREFIXES: Final = (*control_fields.PREFIXES, b"x-forwarded-")
_PROTECTED: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"forwarded"))

#: Fields that have no place in a trailer section: framing, routing, request modifiers,
#: authentication, content format (RFC 9110 section 6.5.1), and all control names.
_NOT_IN_TRAILERS: Final = frozenset(
    (
        *_PROTECTED,
        b"authorization",
        b"cache-control",
        b"connection",
        b"content-encoding",
        b"content-range",
        b"content-type",
        b"cookie",
        b"expect",
        b"keep-alive",
        b"max-forwards",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"range",
        b"set-cookie",
        b"te",
        b"trailer",
        b"upgrade",
        b"www-authenticate",
    )
)

#: The fields of a request that we read, take out or rewrite.
REQUEST_FIELDS: Final = frozenset(
    (
        *(b"connection", b"content-length", b"expect", b"host", b"http2-settings", b"keep-alive"),
        *control_fields.OWN,
        *(b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer"),
        *(b"transfer-encoding", b"upgrade", b"x-forwarded-for"),
    )
)

#: The same of a response.
RESPONSE_FIELDS: Final = frozenset(
    (
        *(b"connection", b"content-length", b"date", b"keep-alive", b"proxy-authenticate"),
        *(b"proxy-authorization", b"proxy-connection", b"trailer", b"transfer-encoding"),
        b"upgrade",
    )
)

#: The fields that frame a message or end its connection; llhttp reads them too.
FRAMING: Final = frozenset(
    (b"connection", b"content-length", b"proxy-connection", b"transfer-encoding", b"upgrade")
)

#: Fields whose values come again in other messages, and are never secret.
RECURRING: Final = frozenset(
    (
        *(b"accept", b"accept-charset", b"accept-encoding", b"accept-language", b"accept-ranges"),
        *(b"access-control-allow-origin", b"alt-svc", b"cache-control", b"connection", b"date"),
        *(b"content-encoding", b"content-language", b"content-length", b"content-type", b"dnt"),
        *control_fields.RECURRING,
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
    """Return the lower-case members of a comma-separated list, without the empty ones."""
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]


def without_named(block: bytes, names: Iterable[bytes]) -> bytes:
    """Take out of ``block`` the fields that a Connection header names, but no protected one."""
    doomed = {name for name in names if not _is_protected(name)}
    return _filtered(block, lambda name: name in doomed)


def is_lookalike(name: bytes) -> bool:
    """Return whether a name, in lower case, is one of ours where ``_`` means ``-``.

    CGI-style environments behind the pod cannot tell ``X_Forwarded_For`` from
    ``X-Forwarded-For`` (Envoy: headers_with_underscores_action).
    """
    return b"_" in name and _is_protected(name.replace(b"_", b"-"))


def clean_trailers(trailers: bytes) -> bytes:
    """Return the trailer lines (each with its CRLF) that may be passed on."""
    kept = (
        line
        for line in trailers.split(b"\r\n")[:-1]
        if not is_barred_from_trailers(line.partition(b":")[0].lower())
    )
    return b"".join(line + b"\r\n" for line in kept)


def is_ours(name: bytes) -> bool:
    """Return whether a request's field of this name, in lower case, means something to us."""
    return name in REQUEST_FIELDS


def lines_of(fields: Mapping[bytes, bytes], without: Collection[bytes] = ()) -> bytes:
    """Return fields as lines, each preceded by its CRLF; no pseudo fields, and none ``without``."""
    return b"".join(
        b"\r\n%b: %b" % (name, value)
        for name, value in fields.items()
        if name[:1] != b":" and name not in without
    )


def _is_protected(name: bytes) -> bool:
    return name in _PROTECTED or name.startswith(_PROTECTED_PREFIXES)


def is_barred_from_trailers(name: bytes) -> bool:
    """Return whether a field of this name, in lower case, has no place in a trailer section."""
    return name in _NOT_IN_TRAILERS or name.startswith(_PROTECTED_PREFIXES)


def _filtered(block: bytes, doomed: Callable[[bytes], bool]) -> bytes:
    lines = block.split(b"\r\n")
    kept = [line for line in lines[1:] if not doomed(line.partition(b":")[0].lower())]
    return b"".join(b"\r\n" + line for line in kept)
