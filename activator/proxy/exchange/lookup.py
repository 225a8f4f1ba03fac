"""Which revision a request is for, and the key by which the revision's policy picks a pod.

The revision follows from the two control headers, which the ingress sets, else from the host. The
key is the value of the header field that the revision's annotation names. Knative's counterpart:
pkg/activator/handler/context_handler.go.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from activator.knative.control_fields import NAMESPACE, REVISION
from activator.proxy.message.request import Request
from activator.records.entries import Entries, Entry

#: As a number: whether bytes are in bytes, CPython asks by way of an exception, which takes 0.6 us.
_COMMA = ord(",")
#: Bytes of a key.
_LONGEST_KEY: Final = 64


def find(entries: Entries, request: Request) -> Entry:
    """Return what belongs to the revision that a request names.

    Raises:
        RevisionNotFound: it names none, or none that exists.
    """
    fields = request.fields
    if not fields:
        return entries.find_host(request.host)
    namespace = fields.get(NAMESPACE, b"")
    name = fields.get(REVISION, b"")
    if namespace and name:
        if _COMMA in name or _COMMA in namespace:  # the same several times, see contradiction
            namespace, name = namespace.partition(b",")[0], name.partition(b",")[0]
        return entries.find(namespace.strip(b" \t"), name.strip(b" \t"))
    return entries.find_host(request.host, name.partition(b",")[0].strip(b" \t"))


def key_of(request: Request, header: bytes) -> bytes:
    """Return the key of a request; empty where it lacks the header field.

    Waiting requests keep their keys, so a long value is replaced by its digest.

    Arguments:
        header: the name of the field, in lower case.
    """
    value = request.value_of(header)
    return value if len(value) <= _LONGEST_KEY else blake2b(value, digest_size=32).digest()


def contradiction(fields: dict[bytes, bytes]) -> str:
    """Return what is wrong where a request names two revisions: an ingress appended one, and a
    client had its own; empty if nothing is wrong. A name that is only repeated counts once."""
    if _COMMA in fields.get(REVISION, b"") or _COMMA in fields.get(NAMESPACE, b""):
        return _one_each(fields)
    return ""


def _one_each(fields: dict[bytes, bytes]) -> str:
    for name in (REVISION, NAMESPACE):
        first, *others = [part.strip(b" \t") for part in fields.get(name, b"").split(b",")]
        if any(other != first for other in others):
            return f"{name.decode()} is given twice and differs"
    return ""
