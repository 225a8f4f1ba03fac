"""Requests to an API server, and the responses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from activator.discovery.api_server import ApiServer, ClusterConfigError
from activator.discovery.wire import ConnectionLostError, WholeResponse
from activator.scale.cluster.api import Api, ApiResponse, ApiUnreachable, Meaning, micro_time


class Server(ApiServer):
    """Respond with prepared responses and errors."""

    def __init__(self, *steps: WholeResponse | Exception) -> None:
        self._steps = list(steps)

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> WholeResponse:
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


async def test_an_error_response_is_a_response() -> None:
    api = Api(Server(WholeResponse(409, b'{"message": "changed"}')))
    response = await api.send("PATCH", "/x", b"{}")
    assert response == ApiResponse(409, b'{"message": "changed"}')
    assert response.message() == "changed"


@pytest.mark.parametrize("error", [ConnectionLostError("reset"), ClusterConfigError("no file")])
async def test_no_response_is_unreachable(error: Exception) -> None:
    with pytest.raises(ApiUnreachable, match=str(error)):
        await Api(Server(error)).send("GET", "/x")


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (200, Meaning.DONE),
        (201, Meaning.DONE),
        (409, Meaning.CONFLICT),
        (403, Meaning.FORBIDDEN),
        (404, Meaning.ABSENT),
        (0, Meaning.UNAVAILABLE),
        (401, Meaning.UNAVAILABLE),
        (429, Meaning.UNAVAILABLE),
        (500, Meaning.UNAVAILABLE),
        (503, Meaning.UNAVAILABLE),
        (400, Meaning.REFUSED),
        (422, Meaning.REFUSED),
    ],
)
def test_what_a_response_means_for_the_object(status: int, meaning: Meaning) -> None:
    assert ApiResponse(status, b"").meaning is meaning


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_times_have_six_decimals_in_any_zone() -> None:
    assert micro_time(NOON.astimezone(timezone(timedelta(hours=2)))) == (
        "2026-01-01T12:00:00.000000Z"
    )
