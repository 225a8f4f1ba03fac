"""Header field names: which mean something to us, which never pass, which nobody may remove.

Knows bytes only. Sources: RFC 9110 section 7.6.1 (hop-by-hop), RFC 9110 section 6.5.1 (trailers),
Knative pkg/networking/constants.go (control names).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

#: What a request carries for us alone, or that we set: a client's own is taken out, but for
#: K-Passthrough-Lb, to which ours is added as Knative's does.
#: Protected: a client's Connection header cannot remove them from what a pod sees.
_CONTROL = (
    b"k-network-hash",
    b"k-network-probe",
    b"k-kubelet-probe",
    b"k-original-host",
    b"k-passthrough-lb",
    b"k-proxy-request",
    b"knative-serving-namespace",
    b"knative-serving-revision",
)

_PROTECTED_PREFIXES = (b"k-", b"knative-", b"x-forwarded-")
_PROTECTED = frozenset((b"host", b"content-length", b"transfer-encoding", b"forwarded"))

#: Fields that have no place in a trailer section: framing, routing, request modifiers,
#: authentication, content format (RFC 9110 section 6.5.1), and all control names.
_NOT_IN_TRAILERS = frozenset(
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

#: The fields of a request that we read, take out or rewrite. Grouped by their first letter, so
#: that the matcher leaves other fields after one character.
REQUEST_FIELDS = re.compile(
    rb"\r\n("
    rb"[Cc](?i:onnection|ontent-length)"
    rb"|[Ee](?i:xpect)"
    rb"|[Hh](?i:ost|ttp2-settings)"
    rb"|[Kk](?i:eep-alive|native-serving-(?:revision|namespace)"
    rb"|-(?:network-(?:probe|hash)|kubelet-probe|proxy-request|original-host))"
    rb"|[Pp](?i:roxy-(?:connection|authenticate|authorization))"
    rb"|[Tt](?i:e|railer|ransfer-encoding)"
    rb"|[Uu](?i:pgrade)"
    rb"|[Xx](?i:-forwarded-for)"
    rb"):[ \t]*([^\r]*)"
)

#: The same of a response.
RESPONSE_FIELDS = re.compile(
    rb"\r\n("
    rb"[Cc](?i:onnection|ontent-length)"
    rb"|[Dd](?i:ate)"
    rb"|[Kk](?i:eep-alive)"
    rb"|[Pp](?i:roxy-(?:connection|authenticate|authorization))"
    rb"|[Tt](?i:railer|ransfer-encoding)"
    rb"|[Uu](?i:pgrade)"
    rb"):[ \t]*([^\r]*)"
)


def split_head(pattern: re.Pattern[bytes], head: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Take a message head apart.

    Arguments:
        pattern: REQUEST_FIELDS or RESPONSE_FIELDS.
        head: start line and fields, without the empty line; each line but the first is preceded
            by its CRLF.

    Returns:
        The start line; the fields that the pattern names, by lower-case name, values of equal
        names joined by ``, `` (RFC 9110 section 5.3); all other fields as they came, each
        preceded by its CRLF.
    """
    parts = pattern.split(head)
    start, separator, early = parts[0].partition(b"\r\n")
    if early:
        early = separator + early
    count = len(parts)
    if count == 4:
        return start, {parts[1].lower(): parts[2]}, early + parts[3]
    fields = dict(zip(map(bytes.lower, parts[1::3]), parts[2::3]))  # noqa: B905 # both as long
    if 3 * len(fields) != count - 1:
        fields = _joined(parts)
    return start, fields, early + b"".join(parts[3::3])


def _joined(parts: list[bytes]) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for name, value in zip(parts[1::3], parts[2::3], strict=True):
        key = name.lower()
        fields[key] = fields[key].rstrip(b" \t") + b", " + value if key in fields else value
    return fields


def tokens(value: bytes) -> list[bytes]:
    """Return the lower-case members of a comma-separated list, without the empty ones."""
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]


def without_named(block: bytes, names: Iterable[bytes]) -> bytes:
    """Take out of ``block`` the fields that a Connection header names, but no protected one."""
    doomed = {name for name in names if not _is_protected(name)}
    return _filtered(block, lambda name: name in doomed)


def without_lookalikes(block: bytes) -> bytes:
    """Take out fields whose name becomes a control or forwarding name where ``_`` means ``-``.

    CGI-style environments behind the pod cannot tell ``X_Forwarded_For`` from
    ``X-Forwarded-For`` (Envoy: headers_with_underscores_action).
    """
    return _filtered(block, is_lookalike)


def is_lookalike(name: bytes) -> bool:
    """Return whether without_lookalikes takes out a field of this name, in lower case."""
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
    return REQUEST_FIELDS.fullmatch(b"\r\n%b:" % name) is not None


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
