"""Describe the fields of responses: their meaning, and their closed sets of words."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from msgspec import Meta

from throttler.reason import TABLE, RequestState

#: Reasons of queued requests.
WAITING: Final = tuple(row.reason for row in TABLE if row.request is RequestState.QUEUED)

#: Reasons for which a request of a known revision can fail.
FAILING: Final = tuple(row.reason for row in TABLE if row.request is not RequestState.REFUSED)


def says(
    meaning: str, words: Iterable[Enum | str | None] = (), *, deprecated: bool = False
) -> Meta:
    """Return the description of a field.

    Arguments:
        meaning: text for the reference and the OpenAPI document, with code in backquotes.
        words: the closed set of its values; empty if any value of the type is possible.
        deprecated: whether a later version removes the field.
    """
    values = [word.value if isinstance(word, Enum) else word for word in words]
    more = {"enum": values} if values else {}
    return Meta(
        description=meaning,
        extra_json_schema=more | ({"deprecated": True} if deprecated else {}) or None,
    )


#: The meaning of the field ``kind``.
KIND: Final = (
    "`revision` for a Revision of Knative, `service` for a Service of Kubernetes that opts in; "
    "both may have one name"
)
