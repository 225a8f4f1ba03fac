"""Make the OpenAPI document about the admin port's responses.

It follows from the types of ``views``, so it cannot differ from the responses. Must not know how
the responses are made. https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any, Final, get_args, get_type_hints

import msgspec

from activator.admin.http_application import PROBLEM_TYPE
from activator.admin.views import activators, details, revisions

OPENAPI: Final = "3.1.0"

_REF: Final = "#/components/schemas/{name}"
_MODULES: Final = (activators, details, revisions)


@cache  # takes some milliseconds, in which traffic would wait
def document(version: str) -> dict[str, Any]:
    """Return the document as JSON values.

    Arguments:
        version: version of the activator.
    """
    types = (
        *(revisions.RevisionsView, revisions.RevisionDetailView, revisions.HistoryView),
        revisions.ProblemView,
    )
    _, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for name, schema in schemas.items():
        describe(schema, next(vars(each)[name] for each in _MODULES if name in vars(each)))
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "activator's admin port",
            "version": version,
            "description": "Read-only. Later versions may add fields within /api/v1, and words to "
            "closed sets. Clients must ignore unknown fields and words.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {path: {"get": _operation(*rest)} for path, *rest in _PATHS},
        "components": {"schemas": schemas},
    }


def describe(schema: dict[str, Any], view: Any) -> None:
    """Add the meanings and the closed sets of a view's fields to its schema."""
    properties = schema["properties"]
    for name, meaning, words in fields_of(view):
        said: dict[str, Any] = {"description": meaning}
        if words:
            said["enum"] = words
        if meaning.startswith("deprecated "):
            said["deprecated"] = True
        properties[name] = said | properties[name]


def fields_of(view: Any) -> Iterator[tuple[str, str, list[str | None]]]:
    """Yield the fields of a view: name, meaning, and words of a closed set."""
    for name, hint in get_type_hints(view, include_extras=True).items():
        _, meaning, *closed = get_args(hint)
        words = (word for words in closed for word in words)
        yield name, meaning, [word.value if isinstance(word, Enum) else word for word in words]


def _json(view: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=view)}}}


_TEXT: Final[dict[str, Any]] = {"text/plain": {"schema": {"type": "string"}}}
_EVENTS: Final[dict[str, Any]] = {"text/event-stream": {"schema": {"type": "string"}}}
_QUEUE: Final[dict[str, Any]] = {"application/json": {"schema": {"type": "object"}}}
_PROBLEM: Final[dict[str, Any]] = {
    PROBLEM_TYPE: {"schema": {"$ref": _REF.format(name="ProblemView")}}
}


def _parameter(place: str, name: str, meaning: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": meaning,
        "schema": {"type": "string"},
    }


#: Path, name, content, responses by status (media types, meaning), and parameters.
_PATHS: Final[tuple[tuple[Any, ...], ...]] = (
    (
        *("/healthz", "health", "Whether the process is alive."),
        {200: (_TEXT, "The process is alive.")},
    ),
    (
        *("/readyz", "readiness", "Whether the activator accepts traffic."),
        {200: (_TEXT, "It does."), 503: (_TEXT, "It does not; the text has the reason.")},
    ),
    (
        *("/livez", "liveness", "Whether the process works, for the KEDA HTTP add-on."),
        {200: (_TEXT, "It works.")},
    ),
    (
        *("/queue", "queue", "The requests of the objects of the KEDA HTTP add-on."),
        {200: (_QUEUE, "By NAMESPACE/NAME: Concurrency, RequestCount and RPS.")},
    ),
    (
        *("/reasons/{name}", "reason", "The page of a reason or of an alert, in Markdown."),
        {200: (_TEXT, "The page."), 404: (_PROBLEM, "No page has this name.")},
        _parameter("path", "name", "A reason, an alert, or README for the list."),
    ),
    (
        *("/metrics", "metrics", "Metrics in the text format of Prometheus."),
        {200: (_TEXT, "All metrics.")},
    ),
    (
        *("/api/v1/revisions", "revisions", "All revisions, with their pods and queues."),
        {
            200: (_json("RevisionsView"), "All revisions, or the revisions of the filters."),
            400: (_PROBLEM, "A filter is not of the form NAMESPACE/NAME."),
        },
        _parameter("query", "namespace", "Only the revisions of this namespace."),
        _parameter("query", "revision", "Only this revision, NAMESPACE/NAME; may be repeated."),
    ),
    (
        *("/api/v1/revisions/{namespace}/{name}", "revision", "One revision."),
        {
            200: (_json("RevisionDetailView"), "The revision as in the list, with more fields."),
            404: (_PROBLEM, "The revision is unknown."),
        },
        _parameter("path", "namespace", "Namespace of the Revision."),
        _parameter("path", "name", "Name of the Revision."),
    ),
    (
        *("/api/v1/history", "history", "The last ten minutes of the revisions that had requests."),
        {
            200: (_json("HistoryView"), "In steps of five seconds."),
            400: (_PROBLEM, "The number of steps, or a filter, is invalid."),
        },
        _parameter("query", "steps", "Only this many last steps."),
        _parameter("query", "revision", "Only this revision, NAMESPACE/NAME; may be repeated."),
    ),
    (
        *("/api/v1/events", "events", "Events as they occur; the response does not end."),
        {
            200: (_EVENTS, "Server-sent events."),
            400: (_PROBLEM, "A filter is invalid."),
            503: (_PROBLEM, "The limit of open streams is reached."),
        },
        _parameter("query", "revision", "Only this revision, NAMESPACE/NAME; may be repeated."),
        _parameter("query", "kind", "Only events of this kind; may be repeated."),
        _parameter("header", "Last-Event-ID", "Id of the last event that the client has."),
    ),
    (
        *(
            "/api/v1/activator",
            "activator",
            "The activator that responds, and the age of its state.",
        ),
        {200: (_json("ActivatorView"), "As in the list of revisions.")},
    ),
    (
        *("/api/v1/openapi.json", "openapi", "This document."),
        {200: ({"application/json": {"schema": {"type": "object"}}}, "OpenAPI 3.1.")},
    ),
)


def _operation(
    name: str, summary: str, responses: dict[int, tuple[Any, str]], *parameters: dict[str, Any]
) -> dict[str, Any]:
    responses = {
        **responses,
        421: (_PROBLEM, "The host name is unknown; use an address."),
    }
    return {
        "operationId": name,
        "summary": summary,
        "parameters": list(parameters),
        "responses": {
            str(status): {"description": meaning, "content": content}
            for status, (content, meaning) in sorted(responses.items())
        },
    }
