"""Sends requests to an API server, and reads its responses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final, NamedTuple

from activator.discovery.api_server import ApiServer
from activator.discovery.credentials import ClusterConfigError
from activator.discovery.wire import ConnectionLostError

#: The Content-Type of a PATCH: a JSON merge patch (RFC 7396).
MERGE_PATCH: Final = "application/merge-patch+json"


class ApiUnreachable(Exception):
    """No response: no connection, or it broke, or it took too long."""


class ApiResponse(NamedTuple):
    """A whole response."""

    status: int
    body: bytes

    @property
    def is_ok(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    def decoded(self) -> object:
        """Return the body as decoded from JSON; None if it is no JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def message(self) -> str:
        """Return the text for people of a response that is not ok."""
        status = self.decoded()
        text = status.get("message") if isinstance(status, dict) else None
        if isinstance(text, str) and text:
            return text[:1000]
        return self.body[:200].decode("utf-8", "replace").strip()


class Api:
    """Sends requests to an API server, with credentials.

    Arguments:
        server: connected by the first request.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> ApiResponse:
        """Return the response to a request.

        Raises:
            ApiUnreachable: there is none. The request may have been carried out.
        """
        try:
            return ApiResponse(*await self._server.send(method, path, body, content_type))
        except (ConnectionLostError, ClusterConfigError) as error:
            raise ApiUnreachable(str(error)) from error


def micro_time(clock: datetime) -> str:
    """Return a time as MicroTime: RFC 3339 with exactly six decimals, which Lease requires."""
    return clock.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
