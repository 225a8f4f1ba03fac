"""The OpenAPI document: what the admin port may be asked, and what it answers.

The shapes follow from views.py, so that they cannot differ from what is sent. Must not know how
the answers are made. https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from activator.admin import problems, views

OPENAPI: Final = "3.1.0"

_REF: Final = "#/components/schemas/{name}"


@cache  # takes some milliseconds, in which traffic would wait
def document(version: str) -> dict[str, Any]:
    """Return the document as JSON's values.

    Arguments:
        version: of the activator.
    """
    types = (
        *(views.RevisionsView, views.RevisionDetailView, views.HistoryView),
        views.ProblemView,
    )
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "activator's admin side",
            "version": version,
            "description": "Read only. Within /api/v1 fields are added, and words to closed sets; "
            "clients ignore what they do not know.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {path: {"get": _operation(*rest)} for path, *rest in _PATHS},
        "components": {"schemas": schemas},
    }


def _json(view: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=view)}}}


_TEXT: Final[dict[str, Any]] = {"text/plain": {"schema": {"type": "string"}}}
_EVENTS: Final[dict[str, Any]] = {"text/event-stream": {"schema": {"type": "string"}}}
_PROBLEM: Final[dict[str, Any]] = {
    problems.MEDIA_TYPE: {"schema": {"$ref": _REF.format(name="ProblemView")}}
}


def _parameter(place: str, name: str, meaning: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": meaning,
        "schema": {"type": "string"},
    }


#: Path, what it is called, what it tells, its answers by status (media types, what it means), and
#: its parameters.
_PATHS: Final[tuple[tuple[Any, ...], ...]] = (
    (
        *("/healthz", "health", "Whether the process is alive."),
        {200: (_TEXT, "It is.")},
    ),
    (
        *("/readyz", "readiness", "Whether it should be sent traffic."),
        {200: (_TEXT, "It should."), 503: (_TEXT, "It should not; the text says why.")},
    ),
    (
        *("/metrics", "metrics", "Metrics in the text format of Prometheus."),
        {200: (_TEXT, "All of them.")},
    ),
    (
        *("/api/v1/revisions", "revisions", "Every revision, with its pods and its queue."),
        {
            200: (_json("RevisionsView"), "All, or those of one namespace."),
            400: (_PROBLEM, "A revision is named in another way than NAMESPACE/NAME."),
        },
        _parameter("query", "namespace", "Only the revisions of this namespace."),
        _parameter("query", "revision", "Only this revision, NAMESPACE/NAME; may be repeated."),
    ),
    (
        *("/api/v1/revisions/{namespace}/{name}", "revision", "One revision."),
        {
            200: (_json("RevisionDetailView"), "The revision as in the list, and more."),
            404: (_PROBLEM, "It is not known."),
        },
        _parameter("path", "namespace", "Of the Revision."),
        _parameter("path", "name", "Of the Revision."),
    ),
    (
        *("/api/v1/history", "history", "The last ten minutes of all that had requests."),
        {
            200: (_json("HistoryView"), "In steps of five seconds."),
            400: (_PROBLEM, "How many steps is no number, or a revision is named otherwise."),
        },
        _parameter("query", "steps", "Only the last so many steps."),
        _parameter("query", "revision", "Only this revision, NAMESPACE/NAME; may be repeated."),
    ),
    (
        *("/api/v1/events", "events", "What happens, as it happens; it does not end."),
        {
            200: (_EVENTS, "Server-sent events."),
            400: (_PROBLEM, "A filter is none."),
            503: (_PROBLEM, "As many streams are open as may be."),
        },
        _parameter("query", "revision", "Only this revision, NAMESPACE/NAME; may be repeated."),
        _parameter("query", "kind", "Only events of this kind; may be repeated."),
        _parameter("header", "Last-Event-ID", "The last event that the client has had."),
    ),
    (
        *("/api/v1/activator", "activator", "Who answers, and what it knows."),
        {200: (_json("ActivatorView"), "As in the list of revisions.")},
    ),
    (
        *("/api/v1/openapi.json", "openapi", "This document."),
        {200: ({"application/json": {"schema": {"type": "object"}}}, "OpenAPI 3.1.")},
    ),
)


def _operation(
    name: str, summary: str, answers: dict[int, tuple[Any, str]], *parameters: dict[str, Any]
) -> dict[str, Any]:
    answers = {
        **answers,
        421: (_PROBLEM, "Asked by a host name that is not known; use an address."),
    }
    return {
        "operationId": name,
        "summary": summary,
        "parameters": list(parameters),
        "responses": {
            str(status): {"description": meaning, "content": content}
            for status, (content, meaning) in sorted(answers.items())
        },
    }
