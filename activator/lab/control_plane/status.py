"""Error responses of the API server: Status objects with Kubernetes' own texts.

Kubernetes' counterpart: staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from activator.lab.control_plane.resources import Resource

JSON = "application/json"


class Response(NamedTuple):
    """A whole response."""

    status: int
    body: bytes
    content_type: str = JSON


class ApiError(Exception):
    """A request failed. The text is the message of the Status object.

    Attributes:
        code: the HTTP status.
        reason: the word for programs; empty for an internal error without a word.
        details: the object of the request, as the Status has it.
    """

    def __init__(
        self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = dict(details or {})

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
        if self.details:
            found["details"] = self.details
        return {**found, "code": self.code}

    def response(self) -> Response:
        """Return the response with the Status object."""
        return Response(self.code, json.dumps(self.status()).encode())


class PageNotFound(ApiError):
    """The API server has no such path; the body is plain text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")

    def response(self) -> Response:
        """See ApiError."""
        return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")


def _details(resource: Resource, name: str) -> dict[str, Any]:
    found = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in found.items() if value}


def not_found(resource: Resource, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    text = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", text, _details(resource, name))


def already_exists(resource: Resource, name: str) -> ApiError:
    """Return the error for the creation of an object that exists."""
    text = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _details(resource, name))


def conflict(resource: Resource, name: str, why: str = "") -> ApiError:
    """Return the error for a write with another version, or with another uid."""
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    text = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", text, _details(resource, name))


def invalid(resource: Resource, name: str, causes: list[str]) -> ApiError:
    """Return the error for an object with wrong fields.

    Arguments:
        causes: one text for each wrong field: path, kind of the error, details.
    """
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    why = causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]"
    details = {"name": name, "group": resource.group, "kind": resource.kind}
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {why}', details)


def undecodable_patch(why: str) -> ApiError:
    """Return the error for a patch after which a field has the wrong type."""
    text = f' "" is invalid: patch: Invalid value: "{{...}}": {why}'
    return ApiError(422, "Invalid", text, {})


def undecodable(resource: Resource, why: str) -> ApiError:
    """Return the error for an object with a field of the wrong type."""
    kind = resource.kind
    text = f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    return ApiError(400, "BadRequest", text)


def bad_request(why: str) -> ApiError:
    """Return the error for a request that contradicts itself."""
    return ApiError(400, "BadRequest", why)


def unsupported(accepted: str) -> ApiError:
    """Return the error for a body of another media type than the accepted one."""
    text = "the body of the request was in an unknown format - accepted media types include: "
    return ApiError(415, "UnsupportedMediaType", f"{text}{accepted}")


def internal(why: str) -> ApiError:
    """Return an internal error, which has no reason."""
    return ApiError(500, "", why)


def expired(version: int, oldest: int) -> ApiError:
    """Return the error for a watch or list of a version that the server has compacted."""
    return ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")


def forbidden(
    resource: Resource, name: str, user: str, verb: str, subresource: str, namespace: str
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
