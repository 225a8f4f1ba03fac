"""Error responses of the API server: Status objects with Kubernetes' own texts.

Kubernetes' counterpart: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from activator.lab.control_plane.resources import ApiKind

JSON = "application/json"


class PlaneResponse(NamedTuple):
    """A whole response; ``retry_after`` in seconds, 0 for no such header."""

    status: int
    body: bytes
    content_type: str = JSON
    retry_after: int = 0


class ApiError(Exception):
    """A request failed. The text is the message of the Status object.

    Attributes:
        code: the HTTP status.
        reason: the word for programs; empty for an internal error without a word.
        details: the object of the request, as the Status has it; None for no details.
    """

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = None if details is None else dict(details)

    def status(self) -> dict[str, Any]:
        """Return the Status object."""
        found: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
        }
        if self.reason:
            found["reason"] = self.reason
        if self.details is not None:
            found["details"] = self.details
        return {**found, "code": self.code}

    def response(self) -> PlaneResponse:
        """Return the response with the Status object."""
        seconds = (self.details or {}).get("retryAfterSeconds", 0)
        return PlaneResponse(self.code, json.dumps(self.status()).encode(), JSON, seconds)


class PageNotFound(ApiError):
    """The API server has no such path; the body is plain text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")

    def response(self) -> PlaneResponse:
        """Return the response, whose body is plain text."""
        return PlaneResponse(404, b"404 page not found\n", "text/plain; charset=utf-8")


def _details(resource: ApiKind, name: str) -> dict[str, Any]:
    found = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in found.items() if value}


def not_found(resource: ApiKind, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    text = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", text, _details(resource, name))


def already_exists(resource: ApiKind, name: str) -> ApiError:
    """Return the error for the creation of an object that exists."""
    text = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _details(resource, name))


def conflict(resource: ApiKind, name: str, why: str = "", kind: str = "") -> ApiError:
    """Return the error for a write with another version, or with another uid.

    Arguments:
        kind: the word for the kind; the plural unless given.
    """
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    details = {**_details(resource, name), "kind": kind or resource.plural}
    what = f"{details['kind']}.{resource.group}" if resource.group else details["kind"]
    text = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return ApiError(409, "Conflict", text, details)


#: The words of causes for programs, by the words for people.
_CAUSES: Final = {
    "Invalid value": "FieldValueInvalid",
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Forbidden": "FieldValueForbidden",
    "Too many": "FieldValueTooMany",
}


def invalid_named(kind: str, group: str, name: str, causes: list[str]) -> ApiError:
    """Return the error for an object with wrong fields.

    Arguments:
        causes: one text for each wrong field: path, kind of the error, details.
    """
    what = f"{kind}.{group}" if group else kind
    why = causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]"
    named = {"name": name, "group": group, "kind": kind}
    listed = []
    for field, text in (each.split(": ", 1) for each in causes):
        reason = _CAUSES[text.partition(":")[0]]
        listed.append({"reason": reason, "message": text, "field": field})
    details = {key: value for key, value in named.items() if value} | {"causes": listed}
    return ApiError(422, "Invalid", f'{what} "{name}" is invalid: {why}', details)


def invalid(resource: ApiKind, name: str, causes: list[str]) -> ApiError:
    """Return the error for an object with wrong fields, as `invalid_named` does."""
    # The strategy of Events in the server still has the kind of the old group.
    group = "" if resource.plural == "events" else resource.group
    return invalid_named(resource.kind, group, name, causes)


def invalid_options(cause: str) -> ApiError:
    """Return the error for a list or watch with a wrong ``resourceVersionMatch``."""
    return invalid_named("ListOptions", "meta.k8s.io", "", [f"resourceVersionMatch: {cause}"])


def undecodable_patch(why: str) -> ApiError:
    """Return the error for a patch after which a field has the wrong type."""
    return invalid_named("", "", "", [f'patch: Invalid value: "{{...}}": {why}'])


def undecodable(resource: ApiKind, why: str) -> ApiError:
    """Return the error for an object with a field of the wrong type."""
    kind = resource.kind
    text = f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    return ApiError(400, "BadRequest", text)


def bad_request(why: str) -> ApiError:
    """Return the error for a request that contradicts itself."""
    return ApiError(400, "BadRequest", why)


def unknown_format(accepted: str) -> ApiError:
    """Return the error for an object of another media type than the accepted one."""
    text = "the body of the request was in an unknown format - accepted media types include: "
    return ApiError(415, "UnsupportedMediaType", f"{text}{accepted}")


def unsupported() -> ApiError:
    """Return the error for a patch of an unknown media type."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def no_resource() -> ApiError:
    """Return the error for a subresource that the kind does not have."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def internal(why: str) -> ApiError:
    """Return an internal error, which has no reason."""
    return ApiError(500, "", why)


def expired(version: int, oldest: int) -> ApiError:
    """Return the error for a watch from a version that the server has compacted."""
    return ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")


def version_expired() -> ApiError:
    """Return the error for a list of a version that the server has compacted."""
    return ApiError(410, "Expired", "The resourceVersion for the provided list is too old.")


def page_expired() -> ApiError:
    """Return the error for a page of a list whose version the server has compacted."""
    text = "The provided continue parameter is too old to display a consistent list result."
    return ApiError(410, "Expired", f"{text} Begin again.")


def too_large(version: int, current: int) -> ApiError:
    """Return the error for a list of a version that the server does not have yet."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    text = f"Timeout: Too large resource version: {version}, current: {current}"
    return ApiError(504, "Timeout", text, {"causes": causes, "retryAfterSeconds": 1})


def forbidden(
    resource: ApiKind, name: str, user: str, verb: str, subresource: str, namespace: str
) -> ApiError:
    """Return the error for a request without rights; its details lack the subresource."""
    what = f"{resource.plural}/{subresource}" if subresource else resource.plural
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    which = f'{resource.qualified} "{name}"' if name else resource.qualified
    text = (
        f'{which} is forbidden: User "{user}" cannot {verb} resource "{what}" in API group '
        f'"{resource.group}" {where}'
    )
    return ApiError(403, "Forbidden", text, _details(resource, name))
