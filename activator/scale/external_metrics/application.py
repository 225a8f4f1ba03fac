"""Serves the API group ``external.metrics.k8s.io`` to the API server's aggregator.

HPAs read the metric through it. While this process does not lead it responds with 503, so that an
HPA keeps its hands off the workload.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.scale.external_metrics import label_selector, objects
from activator.scale.publishing.board import Board


class _Handlers:
    def __init__(
        self, board: Board, is_leader: Callable[[], bool], wall: Callable[[], datetime]
    ) -> None:
        self._board = board
        self._is_leader = is_leader
        self._wall = wall

    async def values(self, request: Request) -> Response:
        metric = request.path_params["metric"]
        if metric != objects.METRIC:
            return _status(
                *(404, "NotFound"),
                f"no metric {metric}: the one of this server is {objects.METRIC}",
            )
        if not self._is_leader() or not self._board.is_open:
            return _status(503, "ServiceUnavailable", "this scaler is not the leader")
        try:
            selector = label_selector.parse(request.query_params.get("labelSelector", ""))
        except ValueError as error:
            return _status(400, "BadRequest", f"labelSelector: {error}")
        found = (
            (name, workload)
            for name, workload in self._board.of_namespace(request.path_params["namespace"])
            if label_selector.matches(selector, {objects.SERVICE: name.name})
        )
        return _json(objects.value_list(found, self._wall()))


def create_app(
    board: Board,
    is_leader: Callable[[], bool],
    wall: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Starlette:
    """Return the application.

    Arguments:
        board: the published states.
        is_leader: returns whether this process decides.
        wall: the time of day.
    """
    handlers = _Handlers(board, is_leader, wall)
    group, version = f"/apis/{objects.GROUP}", f"/apis/{objects.GROUP_VERSION}"
    constant = {
        "/apis": objects.group_list(),
        group: objects.group_object(),
        version: objects.resource_list(),
        "/openapi/v2": objects.openapi_v2(),
        "/openapi/v3": objects.openapi_v3(),
    }
    routes = [Route(path, _constant(content)) for path, content in constant.items()]
    routes += [Route(path, _ok) for path in ("/healthz", "/livez", "/readyz")]
    routes.append(Route(f"{version}/namespaces/{{namespace}}/{{metric}}", handlers.values))
    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: _on_error},
    )


def _constant(content: objects.Object) -> Callable[[Request], Response]:
    response = _json(content)
    return lambda request: response


def _ok(request: Request) -> Response:
    return PlainTextResponse("ok")


def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = {404: "NotFound", 405: "MethodNotAllowed"}.get(error.status_code, "InternalError")
    return _status(error.status_code, reason, error.detail)


def _status(code: int, reason: str, message: str) -> Response:
    return _json(objects.status(code, reason, message), code)


def _json(content: objects.Object, code: int = 200) -> Response:
    body = json.dumps(content, separators=(",", ":"))
    return Response(body, code, media_type="application/json")
