"""Header field names: which mean something to us, which never pass, which no client may remove.

Knows bytes only. Sources: RFC 9110 section 7.6.1 (hop-by-hop), RFC 9110 section 6.5.1 (trailers),
Knative pkg/networking/constants.go (control names).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

#: What a request carries for us alone, or that we set: a client's own is taken out, but for
#: K-Passthrough-Lb, to which ours is added as Knative's does.
#: Protected: a client's Connection header cannot remove them from what a pod sees.
_CONTROL: Final = (
    b"k-network-hash",
    b"k-network-probe",
    b"k-kubelet-probe",
    b"k-original-host",
    b"k-passthrough-lb",
    b"k-proxy-request",
    b"knative-serving-namespace",
    b"knative-serving-revision",
)

_PROTECTED_PREFIXES: Final = (b"k-", b"knative-", b"x-forwarded-")
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

#: What a field's name means that only looks like one of ours: it never passes.
_LOOKALIKE: Final = b"_"
#: Most field names in a memo beyond our own, and most bytes of one name: 50 KiB in all.
MEMO_NAMES: Final = 512
MEMO_NAME_BYTES: Final = 64


class FieldNames:
    """The names of the fields that mean something to us.

    It remembers what a name means as its sender spells it: a peer spells its names alike from one
    message to the next. It remembers no value: values are new each time, or secret.

    Arguments:
        names: in lower case.
        bars_lookalikes: fields whose names only look like ours are taken out, see is_lookalike.

    Attributes:
        names: the same.
        meanings: by a name as it is spelled: itself in lower case, empty where it means nothing to
            us. Holds our own names and at most ``MEMO_NAMES`` others.
    """

    __slots__ = ("_bars_lookalikes", "_own", "meanings", "names")

    def __init__(self, names: Iterable[bytes], *, bars_lookalikes: bool = False) -> None:
        self.names = frozenset(names)
        self._bars_lookalikes = bars_lookalikes
        self._own = {spelled: name for name in self.names for spelled in (name, name.title())}
        self.meanings = self._own.copy()

    def learn(self, name: bytes) -> bytes:
        """Return what a name means that ``meanings`` lacks, and remember it.

        A full memo forgets all names but our own: to weigh names would cost each message.
        """
        lower = name.lower()
        meaning = b""
        if lower in self.names:
            meaning = lower
        elif self._bars_lookalikes and is_lookalike(lower):
            meaning = _LOOKALIKE
        if len(name) <= MEMO_NAME_BYTES:
            if len(self.meanings) >= len(self._own) + MEMO_NAMES:
                self.meanings = self._own.copy()
            self.meanings[name] = meaning
        return meaning


#: The fields of a request that we read, take out or rewrite.
REQUEST_FIELDS: Final = FieldNames(
    (
        *(b"connection", b"content-length", b"expect", b"host", b"http2-settings", b"keep-alive"),
        *(b"knative-serving-namespace", b"knative-serving-revision", b"k-kubelet-probe"),
        *(b"k-network-hash", b"k-network-probe", b"k-original-host", b"k-proxy-request"),
        *(b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer"),
        *(b"transfer-encoding", b"upgrade", b"x-forwarded-for"),
    ),
    bars_lookalikes=True,
)

#: The same of a response.
RESPONSE_FIELDS: Final = FieldNames(
    (
        *(b"connection", b"content-length", b"date", b"keep-alive", b"proxy-authenticate"),
        *(b"proxy-authorization", b"proxy-connection", b"trailer", b"transfer-encoding"),
        b"upgrade",
    )
)


def split_head(names: FieldNames, head: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Take a message head apart.

    Arguments:
        names: REQUEST_FIELDS or RESPONSE_FIELDS.
        head: start line and fields, without the empty line; each line but the first is preceded
            by its CRLF.

    Returns:
        The start line; the fields of ``names``, by lower-case name, values of equal names joined
        by ``, `` (RFC 9110 section 5.3); all other fields as they came, each preceded by its CRLF,
        but for lookalikes in a request.
    """
    meanings = names.meanings
    lines = head.split(b"\r\n")
    fields: dict[bytes, bytes] = {}
    others = [b""]
    repeated: list[tuple[bytes, bytes]] = []
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        meaning = meanings.get(name)
        if meaning is None:
            meaning = names.learn(name)
        if not meaning:
            others.append(line)
        elif meaning is _LOOKALIKE:
            pass
        elif meaning in fields:
            repeated.append((meaning, value.lstrip(b" \t")))
        else:
            fields[meaning] = value.lstrip(b" \t")
    if repeated:
        _join(fields, repeated)
    return lines[0], fields, b"\r\n".join(others)


def _join(fields: dict[bytes, bytes], repeated: list[tuple[bytes, bytes]]) -> None:
    """Add further values of names that ``fields`` has, in time linear in all their bytes."""
    pieces: dict[bytes, list[bytes]] = {}
    for name, value in repeated:
        if name in pieces:
            said = pieces[name]
            said[-1] = said[-1].rstrip(b" \t")
        else:
            said = pieces[name] = [fields[name].rstrip(b" \t")]
        said.append(b", " + value)
    for name, said in pieces.items():
        fields[name] = b"".join(said)


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
    return name in REQUEST_FIELDS.names


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
