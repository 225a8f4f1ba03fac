"""The write that makes one takeover slice equal to its wanted state.

Pure. ``slice_requests`` knows the requests, and ``takeovers`` the wanted state.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from activator.objects.fields import root
from activator.scale.reports.load import Name
from activator.scale.takeover import slice_requests
from activator.scale.takeover.slice_requests import Request
from activator.scale.takeover.slices import Family, Stored, content_of, slice_name


class Key(NamedTuple):
    """The identity of an EndpointSlice."""

    namespace: str
    name: str


class Write(NamedTuple):
    """A request that makes one slice what it must be; ``content`` as in ``Stored``."""

    key: Key
    request: Request
    content: int | None = None


class Leave(Enum):
    """The wanted state of a slice, if it is no object.

    ABSENT: it must not exist. AS_IS: it must not be changed.
    """

    ABSENT = "absent"
    AS_IS = "as-is"


def key_of(name: Name, family: Family) -> Key:
    """Return the identity of a Service's slice of one address family."""
    return Key(name.namespace, slice_name(name.name, family))


def write_of(key: Key, seen: Stored | None, wanted: Mapping[str, Any] | Leave) -> Write | None:
    """Return the request that gives a slice its wanted state; None if it has that state.

    Arguments:
        seen: the slice; None if it does not exist.
    """
    if wanted is Leave.ABSENT and seen is not None:
        return Write(key, slice_requests.delete(*key, seen.uid))
    if isinstance(wanted, Leave):
        return None
    content = content_of(root(wanted, "EndpointSlice"))
    if seen is None:
        return Write(key, slice_requests.create(wanted), content)
    if content == seen.content:
        return None
    return Write(key, slice_requests.change(wanted, seen), content)
