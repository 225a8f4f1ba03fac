"""Serves health, metrics, the API and the page of the scaler; all are read-only."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.admin import assets
from activator.admin.http_application import (
    METRICS_TYPE,
    OwnHosts,
    application,
    as_json,
    problem,
    stream,
)
from activator.scale.admin import selection
from activator.scale.admin.status import ScalerStatus
from activator.scale.reasons import QUIET, ScaleReason
from activator.scale.reports.load import ServiceName

_INDEX: Final = """activator scale, pod {pod}

/                                     the page, for browsers
/reasons/NAME                         the page of a reason or of an alert; README is the list
/healthz                              200 while this process works
/readyz                               200 on the leader, 503 on the others
/api/v1/services                      all Services that opt in; ?namespace=NAMESPACE
/api/v1/services/NAMESPACE/NAME       one Service
/api/v1/scaler                        this scaler: leader, activators, watches, broken objects
/metrics                              Prometheus' text
"""


def create_app(scaler: ScalerStatus, hosts: Collection[str]) -> Starlette:
    """Return the application of the admin port.

    Arguments:
        hosts: names that requests may name, in addition to localhost and any address.
    """
    handlers = _Handlers(scaler)
    routes = [
        *assets.page_routes(files(), INDEX, handlers.index),
        Route("/healthz", handlers.healthz),
        Route("/readyz", handlers.readyz),
        Route("/api/v1/scaler", handlers.state),
        Route("/api/v1/services", handlers.services),
        Route("/api/v1/services/{namespace}/{name}", handlers.service),
        Route("/metrics", handlers.metrics),
    ]
    return application(routes, middleware=[Middleware(OwnHosts, names=hosts)])


def create_metrics_app(scaler: ScalerStatus) -> Starlette:
    """Return the application of the metrics port."""
    return application([Route("/metrics", _Handlers(scaler).metrics)])


class _Handlers:
    """The response to each path."""

    def __init__(self, scaler: ScalerStatus) -> None:
        self._scaler = scaler

    def index(self) -> str:
        return _INDEX.format(pod=self._scaler.leader()["pod"])

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        reason = self._scaler.readiness()
        return PlainTextResponse(f"{reason or 'leader'}\n", 503 if reason else 200)

    async def state(self, request: Request) -> Response:
        return as_json(self._scaler.state())

    async def services(self, request: Request) -> Response:
        try:
            query = selection.parse(request.query_params)
        except ValueError as error:
            return problem(400, str(error))
        return as_json(self._scaler.services(query))

    async def service(self, request: Request) -> Response:
        name = ServiceName(request.path_params["namespace"], request.path_params["name"])
        found = self._scaler.service(name)
        if found is not None:
            return as_json(found)
        leader = self._scaler.leader()
        if not leader["leads"]:
            holder = leader["holder"] or "not known"
            why = f" Its last request for the Lease failed: {leader['error']}."
            error = why if leader["error"] else ""
            return problem(503, f"This scaler does not lead. The leader is {holder}.{error}")
        return problem(404, f"No Service {name.namespace}/{name.name} opts in.")

    async def metrics(self, request: Request) -> Response:
        return stream(request, self._scaler.metrics(), METRICS_TYPE)


# -- the files of the page: its own modules, and shared modules of the dashboard


def script() -> str:
    """Return the source of the page's module ``reasons.js``."""
    rows = {
        reason.value: {
            "meaning": reason.sentence,
            "quiet": reason in QUIET,
            "advice": reason.advice,
            "commands": reason.commands,
        }
        for reason in ScaleReason
    }
    return f"export const REASONS = {json.dumps(rows, indent=2)};\n"


INDEX: Final = f"{assets.SCALER}{assets.INDEX}"
#: The module that is made, not read.
REASONS: Final = f"{assets.SCALER}reasons.js"
#: Files of the activator's dashboard.
SHARED: Final = frozenset(
    {
        *("api.js", "connection.js", "dom.js", "format.js", "frame.js", "theme.js"),
        *("icon.svg", "style.css"),
    }
)


@cache
def files() -> dict[str, assets.Asset]:
    """Return the files by path below ``/dashboard/``; takes some milliseconds."""
    return assets.chosen(
        INDEX, lambda path: path in SHARED or path.startswith(assets.SCALER), {REASONS: script()}
    )
